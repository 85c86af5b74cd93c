package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"souk/ledger"
	"souk/market"
)

// plainAccount is an account of a journal as programs of plain-text accounting take it: words that begin with
// a capital or a digit, of ASCII letters, digits and dashes, behind the kind that beancount wants. No two
// accounts of any journals have one name: see [word]. Balances stay as they are: what a client or an agent
// has is above zero, as an asset, and what came from outside is equity.
func plainAccount(journal, account string) string {
	kind := "Assets"
	if strings.HasPrefix(account, "external:") {
		kind = "Equity"
	}
	name := kind + ":" + word(journal)
	for part := range strings.SplitSeq(account, ":") {
		name += ":" + word(part)
	}
	return name
}

// word writes any id as one word. A small letter at its beginning becomes a capital; before anything else
// stands a 0. A dash stays where a letter or digit follows; any other byte is two dashes and its number.
func word(id string) string {
	letter := func(i int) bool {
		return i < len(id) && (id[i] >= 'a' && id[i] <= 'z' || id[i] >= 'A' && id[i] <= 'Z' ||
			id[i] >= '0' && id[i] <= '9')
	}
	var b []byte
	for i := range len(id) {
		switch {
		case i == 0 && id[0] >= 'a' && id[0] <= 'z':
			b = append(b, id[0]-'a'+'A')
			continue
		case i == 0:
			b = append(b, '0')
		}
		if letter(i) || id[i] == '-' && letter(i+1) {
			b = append(b, id[i])
		} else {
			b = fmt.Appendf(b, "--%02X", id[i])
		}
	}
	if len(id) == 0 {
		return "0"
	}
	return string(b)
}

// plainText is text as such programs keep it in a comment or a string: what they take for something else is
// written as in a URL.
func plainText(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		inside := i > 0 && i+size < len(s) && s[i-1] != ' '
		if c == utf8.RuneError && size < 2 || !unicode.IsPrint(c) || strings.ContainsRune("\"\\;|,[]%", c) ||
			c == ' ' && !inside {
			for _, x := range []byte(s[i : i+size]) {
				fmt.Fprintf(&b, "%%%02X", x)
			}
		} else {
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// about says what a record is about, where that is known.
type about struct {
	Client string `json:"client,omitempty"`
	Agent  string `json:"agent,omitempty"`
	Model  string `json:"model,omitempty"`
	Task   string `json:"task,omitempty"`
	Key    string `json:"key,omitempty"`
	Ref    string `json:"ref,omitempty"` // an operator's
}

func (o *about) all() []string { return []string{o.Client, o.Agent, o.Model, o.Task, o.Key, o.Ref} }

// saidNames name what is said of a transaction, in order: where its record stands, and what that is about.
var saidNames = []string{"journal", "frame", "at", "client", "agent", "model", "task", "key",
	"ref"}

// books writes the records of one journal after another for a program of plain-text accounting: a transaction
// for each that moves something, and at a journal's end what each account must have.
type books struct {
	w    io.Writer
	bean bool   // for beancount; else for hledger and Ledger
	unit string // the currency
	zone *time.Location
	day  string          // of the journal's last transaction; "": there is none
	told map[string]bool // accounts of it that the file names already
}

// begin writes what a file begins with.
func (b *books) begin() {
	if b.told = map[string]bool{}; b.bean {
		return
	}
	b.printf("commodity %s\n    format 1000.000000000 %s\n\n", b.unit, b.unit)
	for _, name := range saidNames {
		b.printf("tag %s\n", name)
	}
	b.printf("\n")
}

func (b *books) printf(format string, args ...any) { fmt.Fprintf(b.w, format, args...) }

// balances holds what each account of a journal has.
type balances map[string]market.Credits

// move takes the legs of a record in.
func (b balances) move(journal string, legs []ledger.Leg) error {
	for _, l := range legs {
		has, known := b[l.Account]
		sum, ok := has.Add(l.Amount)
		if !ok {
			return violation{fmt.Errorf("%s: the balance of %q is beyond 64 bits", journal, l.Account)}
		}
		if !known {
			l.Account = strings.Clone(l.Account)
		}
		b[l.Account] = sum
	}
	return nil
}

// legs lists what is not 0, sorted.
func (b balances) legs() (legs []ledger.Leg) {
	for _, account := range slices.Sorted(maps.Keys(b)) {
		if amount := b[account]; amount != 0 {
			legs = append(legs, ledger.Leg{Account: account, Amount: amount})
		}
	}
	return legs
}

// open writes what the file says first of each account.
func (b *books) open(journal string, legs []ledger.Leg) {
	for _, l := range legs {
		if b.told[l.Account] {
			continue
		}
		b.told[l.Account] = true
		if name := plainAccount(journal, l.Account); b.bean {
			b.printf("%s open %s %s\n", b.day, name, b.unit)
		} else {
			b.printf("account %s\n", name)
		}
	}
}

// opening writes balances that are older than what the file says, which begins at a time.
func (b *books) opening(journal string, at int64, legs []ledger.Leg) {
	b.transaction(journal, at, "opening", "balances of "+journal, nil, legs)
}

// print writes a record that moves something.
func (b *books) print(journal string, f *ledger.Frame, r *ledger.Record, o *about) {
	said := append([]string{journal, fmt.Sprint(f.Seq), exact(f.Time)}, o.all()...)
	b.transaction(journal, f.Time, r.Kind.String(), r.ID, said, r.Legs)
}

func (b *books) transaction(journal string, at int64, kind, id string, said []string, legs []ledger.Leg) {
	b.day = time.Unix(0, at).In(b.zone).Format(time.DateOnly)
	b.open(journal, legs)
	head := kind + " " + plainText(id)
	if b.bean {
		head = fmt.Sprintf("%q", head)
	}
	var notes []string
	for i, text := range said {
		switch {
		case text == "":
		case b.bean:
			notes = append(notes, fmt.Sprintf("%s: \"%s\"", saidNames[i], plainText(text)))
		default:
			notes = append(notes, fmt.Sprintf("; %s: %s", saidNames[i], plainText(text)))
		}
	}
	lines := make([][2]string, len(legs))
	for i, l := range legs {
		lines[i] = [2]string{plainAccount(journal, l.Account), aligned(l.Amount) + " " + b.unit}
	}
	entry(b.w, b.day+" * "+head, notes, lines)
	b.printf("\n")
}

// closing writes what each account has at the end of a journal: so whoever reads it knows that it is all.
func (b *books) closing(journal string, has balances) {
	accounts, day := slices.Sorted(maps.Keys(b.told)), b.day
	b.day, b.told = "", map[string]bool{}
	switch {
	case day == "":
		return
	case b.bean: // at the beginning of the next day
		last, _ := time.Parse(time.DateOnly, day)
		for _, account := range accounts {
			b.printf("%s balance %s %s ~ 0 %s\n", last.AddDate(0, 0, 1).Format(time.DateOnly),
				plainAccount(journal, account), aligned(has[account]), b.unit)
		}
		b.printf("\n")
		return
	}
	lines := make([][2]string, len(accounts))
	for i, account := range accounts {
		lines[i] = [2]string{plainAccount(journal, account),
			"0 " + b.unit + " = " + aligned(has[account]) + " " + b.unit}
	}
	entry(b.w, day+" * balances of "+plainText(journal), nil, lines)
	b.printf("\n")
}

func (b *books) end() {}

// entry writes a transaction: its head, what is said of it, and each account with its amount.
func entry(w io.Writer, head string, notes []string, lines [][2]string) {
	fmt.Fprintln(w, head)
	for _, note := range notes {
		fmt.Fprintf(w, "    %s\n", note)
	}
	for _, l := range lines {
		fmt.Fprintf(w, "    %-39s  %20s\n", l[0], l[1])
	}
}
