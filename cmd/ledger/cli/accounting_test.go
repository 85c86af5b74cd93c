package cli

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// read turns a word back into the id it was made from.
func readWord(t *testing.T, s string) string {
	var b []byte
	if s[0] != '0' {
		b = append(b, s[0]-'A'+'a')
	}
	for i := 1; i < len(s); i++ {
		if strings.HasPrefix(s[i:], "--") {
			n, err := strconv.ParseUint(s[i+2:i+4], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			b, i = append(b, byte(n)), i+3
		} else {
			b = append(b, s[i])
		}
	}
	return string(b)
}

// beanAccount is the grammar of beancount's manual, without letters that are not of ASCII.
var beanAccount = regexp.MustCompile(`^(Assets|Equity)(:[A-Z0-9][A-Za-z0-9-]*)+$`)

// Whatever an account is called, it has a name of its own that beancount takes, and hledger and Ledger, too.
func TestEveryAccountHasANameOfItsOwn(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	ids := []string{"", "ann", "Ann", "ANN", "aNN", "0ann", "0", "00", "a-b", "a--b", "a-", "-a", "--",
		"a--2D", "a_b", "a b", " a", "a  b", "é", "É", "e\u0301", "日本",
		"a:b", "a::b", ":", "\x00", "\xff\xfe", "a\nb", "a;b",
		"(a)", "[a]", "*", "!", "~a", "=a", "a\u00a0b", "X-ann", "x-ann", "client", "Assets"}
	for range 3000 {
		b := make([]byte, rng.IntN(6))
		for i := range b {
			b[i] = "aAbB09-_: \n\xff\xc3\xa9;"[rng.IntN(15)]
		}
		ids = append(ids, string(b))
	}
	seen := map[string][2]string{}
	for _, id := range ids {
		if got := readWord(t, word(id)); got != id {
			t.Errorf("%q is written %q, which reads %q", id, word(id), got)
		}
		for _, of := range [][2]string{{"general", "client:" + id + ":avail"}, {id, "surplus"},
			{"general", id}, {"general", "external:" + id}, {"general", "agent:" + id + ":payable"}} {
			name := plainAccount(of[0], of[1])
			if !beanAccount.MatchString(name) {
				t.Errorf("account %q of journal %q is written %q", of[1], of[0], name)
			}
			if other, known := seen[name]; known && other != of {
				t.Errorf("%q and %q are both written %q", other, of, name)
			}
			seen[name] = of
		}
	}
	if got := plainAccount("general", "client:ann-2:avail"); got != "Assets:General:Client:Ann-2:Avail" {
		t.Errorf("a usual account is written %q", got)
	}
}

// Whatever is said of a transaction is no syntax, and breaks no line.
func TestWhatIsSaidIsNoSyntax(t *testing.T) {
	for s, want := range map[string]string{"invoice 17": "invoice 17", "é": "é",
		" a  b ": "%20a %20b%20", "a\nb": "a%0Ab",
		`"\;|,[]%`: "%22%5C%3B%7C%2C%5B%5D%25", "\xff": "%FF", "": "",
		"a\u0085b": "a%C2%85b"} {
		if got := plainText(s); got != want || !utf8.ValidString(got) {
			t.Errorf("%q is written %q, want %q", s, got, want)
		}
	}
}

// An export says of what an operator ordered for whom, of which payment, and by which reference it was.
func TestOrdersAreTagged(t *testing.T) {
	book := ledger.NewBook()
	for _, c := range []struct {
		made tip.Ordered
		want about
	}{
		{tip.Ordered{Kind: "remit", Amount: 5, Order: &tip.Order{Agent: "a1", Ref: "pay-1"}},
			about{Agent: "a1", Ref: "pay-1"}},
		{tip.Ordered{Kind: "refund", Client: "ann", Amount: 5, Order: &tip.Order{Agent: "a1", Ref: "c-9",
			Receipt: "hub/1/0", From: tip.FromAgent, Capture: &tip.Captured{Model: "m", APIKey: "k"}}},
			about{Client: "ann", Agent: "a1", Model: "m", Key: "k", Ref: "c-9"}},
		{tip.Ordered{Kind: "distribute", Amount: 5, Order: &tip.Order{Rule: tip.ByAgents, Ref: "s-1",
			Shares: []tip.Share{{Agent: "a1", Slots: 2}, {Agent: "a2", Slots: 3}}}}, about{Ref: "s-1"}},
		{tip.Ordered{Kind: "distribute", Client: "ann", Amount: 5}, about{Client: "ann"}},
	} {
		r := book.NewOrder("hub", c.made, [16]byte{})
		if got := speaks(&ledger.Fact{Record: &r}); got != c.want {
			t.Errorf("%s is about %+v, want %+v", c.made.Kind, got, c.want)
		}
	}
}

// hledger, Ledger and beancount, those that are there, take what is exported of accounts whose ids differ by
// little, and come to what bal says.
func TestProgramsOfAccountingTakeAnExport(t *testing.T) {
	data, bin := t.TempDir(), t.TempDir()
	if err := writeMarket(data, 3, ""); err != nil {
		t.Fatal(err)
	}
	odd, err := newWriter(filepath.Join(data, "odd"), "treasury", ledger.RoleTreasury)
	if err != nil {
		t.Fatal(err)
	}
	for i, client := range []string{"ann", "Ann", "ANN", "-ann", "ann-", "an--n", "a_n", "0", "00", "0ann"} {
		d := ledger.NewDeposit(fmt.Sprint(`d";[`, i), client, market.Credits(1+i),
			&tip.Order{By: "op", Note: ` a"b;c`, Ref: "a:b,c"}, odd.salt())
		d.Transfer.Note = " a\n\"b;c"
		if err := errorOf(odd.write(d),
			odd.write(ledger.NewGrant("Hub_"+client, 1, client, 1, "é", odd.salt()))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errorOf(odd.write(ledger.NewMove("m", "00", "0", 2, nil, odd.salt())),
		odd.write(ledger.NewPayout("p", "0ann", 3, &tip.Order{Note: `\`}, odd.salt())),
		odd.write(odd.book.NewWriteOff("Hub_ann", odd.salt())), odd.j.Close()); err != nil {
		t.Fatal(err)
	}
	hub := filepath.Join(data, "journal", "hub-maths")
	book, err := bookOf(hub)
	if err != nil {
		t.Fatal(err)
	}
	j, err := opened(hub)
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{name: "hub-maths", j: j, book: book, salts: 100}
	for i, agent := range []string{"a1", "a2"} { // what agents have earned is paid
		if err := w.write(book.NewOrder("hub-maths", tip.Ordered{Kind: "remit", Number: uint64(i + 1),
			Amount: book.Balance(ledger.Payable(agent)) - market.Credits(i),
			Order:  &tip.Order{By: "op", Agent: agent, Ref: fmt.Sprint("INV;", i), Month: "2026-09"}},
			w.salt())); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(bin, "ledger"))
	}
	if err != nil {
		t.Fatal(err)
	}
	script, python := filepath.Join("..", "..", "..", "integration", "accounting", "accept.py"),
		cmp.Or(os.Getenv("SOUK_PYTHON"), "python3")
	for _, dir := range []string{data, filepath.Join(data, "odd")} {
		c := exec.CommandContext(t.Context(), python, script, filepath.Join(bin, "ledger"), dir)
		out, err := c.CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip(err)
		}
		if t.Logf("%s", out); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		if strings.Contains(string(out), "none of them is here") {
			t.Skip("none of hledger, Ledger and beancount is here")
		}
	}
}
