package ledger

import (
	"crypto/ed25519"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"souk/bus/tip"
	"souk/market"
)

// payment finds the n-th payment of a hub's journal, as its frames have it.
func payment(t *testing.T, hub *desk, n int) *tip.Ordered {
	t.Helper()
	for i := range hub.frames {
		for j := range hub.frames[i].Records {
			c := hub.frames[i].Records[j].Capture
			if c == nil {
				continue
			}
			for k := range i + 1 {
				if o, ok := CapturedIn(c.Hold, &hub.frames[k], &hub.frames[i]); ok {
					if n--; n < 0 {
						return &o
					}
				}
			}
		}
	}
	t.Fatal("no such payment")
	return nil
}

// command has an order recorded by a hub, and then by the treasury.
func command(hub, treasury *desk, o tip.Ordered, found *tip.Ordered) error {
	if o.Number == 0 {
		o.Number = hub.book.LastOrder(hub.name).Number + 1
	}
	r, ok := hub.book.Take(o, found, hub.nextSalt())
	if !ok {
		return errors.New("not its turn")
	}
	if err := hub.try(r); err != nil {
		return err
	}
	return treasury.try(treasury.book.NewOrder(hub.name, hub.book.LastOrder(hub.name), treasury.nextSalt()))
}

func remit(agent, ref string, amount market.Credits) tip.Ordered {
	return tip.Ordered{Kind: "remit", Amount: amount, Order: &tip.Order{By: "op", Agent: agent, Ref: ref}}
}

func refund(of *tip.Ordered, from, ref string, amount market.Credits) tip.Ordered {
	return tip.Ordered{Kind: "refund", Amount: amount, Order: &tip.Order{By: "op", Receipt: of.Order.Receipt,
		From: from,
		Ref:  ref, Note: "late answer"}}
}

// clean audits both journals and compares them.
func clean(t *testing.T, hub, treasury *desk) {
	t.Helper()
	h, tr := audit(hub.name, MaxLevel, store(hub.frames)), audit(treasury.name, MaxLevel,
		store(treasury.frames))
	for _, a := range []*Audit{h, tr} {
		judgeClaims(a, hub)
		if r := a.Finish(); r.Count > 0 {
			t.Errorf("%v", r.Findings)
		}
	}
	if found := Across(tr, []*Audit{h}); len(found) > 0 {
		t.Error(found)
	}
	for _, d := range []*desk{hub, treasury} {
		b := historyOf(t, allOfIt, store(d.frames), len(d.frames)).Book
		if !reflect.DeepEqual(b.Refs, d.book.Refs) || !reflect.DeepEqual(b.Refunds, d.book.Refunds) ||
			!reflect.DeepEqual(tellBook(b), tellBook(d.book)) {
			t.Errorf("%s: a snapshot has other orders", d.name)
		}
	}
}

func judgeClaims(a *Audit, hub *desk) {
	claims, _ := a.Claims()
	for i := range claims {
		c := claims[i].Order.Capture
		frame := func(seq uint64) *Frame {
			if seq == 0 || seq > uint64(len(hub.frames)) {
				return nil
			}
			return &hub.frames[seq-1]
		}
		a.Judge(&claims[i], frame(c.Held), frame(c.Seq))
	}
}

// What an agent has earned is remitted: no more than it is owed, once by a reference, and the money is
// outside then. Each refusal changes nothing.
func TestWhatWasEarnedIsRemitted(t *testing.T) {
	hub, treasury := trade(t, 1, 300)
	agents := hub.book.Balances("agent:*")
	agent := strings.TrimSuffix(strings.TrimPrefix(agents[0].Account, "agent:"), ":payable")
	owed := agents[0].Amount
	if err := command(hub, treasury, remit(agent, "inv/2026-11", owed/2), nil); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		o    tip.Ordered
		want error
	}{
		"more than is owed":      {remit(agent, "r2", owed-owed/2+1), ErrFunds},
		"the same reference":     {remit(agent, "inv/2026-11", owed/2), ErrConflict},
		"and another amount":     {remit(agent, "inv/2026-11", 1), ErrConflict},
		"another case":           {remit(strings.ToUpper(agent), "r2", 1), ErrFunds},
		"nothing":                {remit(agent, "r2", 0), ErrIllegal},
		"below zero":             {remit(agent, "r2", -1), ErrIllegal},
		"2^63-1":                 {remit(agent, "r2", math.MaxInt64), ErrIllegal},
		"no reference":           {remit(agent, "", 1), ErrIllegal},
		"a reference of 1 MB":    {remit(agent, strings.Repeat("r", 1<<20), 1), ErrIllegal},
		"a reference of 2 lines": {remit(agent, "a\nb", 1), ErrIllegal},
		"nobody":                 {remit("", "r2", 1), ErrIllegal},
		"a client's money": {tip.Ordered{Kind: "remit", Client: "client-0", Amount: 1,
			Order: &tip.Order{Agent: agent, Ref: "r"}}, ErrIllegal},
		"no order": {tip.Ordered{Kind: "remit", Amount: 1}, ErrIllegal},
		"a month that is none": {tip.Ordered{Kind: "remit", Amount: 1, Order: &tip.Order{Agent: agent,
			Ref: "r", Month: "2026-13"}}, ErrIllegal},
		"a note of two lines": {tip.Ordered{Kind: "remit", Amount: 1, Order: &tip.Order{Agent: agent,
			Ref: "r", Note: "a\nb"}}, ErrIllegal},
		"a kind that is no order": {tip.Ordered{Kind: "deposit", Amount: 1, Order: &tip.Order{Agent: agent,
			Ref: "r"}}, ErrIllegal},
	} {
		before := tellBook(hub.book)
		if err := command(hub, treasury, test.o, nil); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
		if !reflect.DeepEqual(tellBook(hub.book), before) {
			t.Errorf("%s: the hub's book has changed", name)
		}
	}
	if got := treasury.book.Balance(External("remitted")); got != owed/2 ||
		hub.book.Balance(Payable(agent)) != owed-owed/2 {
		t.Errorf("%s is outside of %s, and %s is owed", got, owed, hub.book.Balance(Payable(agent)))
	}
	clean(t, hub, treasury)
}

// A refund is at most what was captured, over all refunds of it, from whom the order names.
func TestARefundIsAtMostTheCapture(t *testing.T) {
	hub, treasury := trade(t, 2, 300)
	of := payment(t, hub, 0)
	c, paid := of.Order.Capture, of.Order.Capture.Paid
	surplus, owed, avail := hub.book.Balance(Surplus), hub.book.Balance(Payable(of.Order.Agent)),
		hub.book.Avail(of.Client)
	some := min(paid/2, owed)
	if err := errors.Join(command(hub, treasury, refund(of, "agent", "1", some), of),
		command(hub, treasury, refund(of, "surplus", "2", min(surplus, paid-some)), of)); err != nil {
		t.Fatal(err)
	}
	back := hub.book.Refunded(of.Order.Receipt)
	if hub.book.Avail(of.Client) != avail+back || hub.book.Balance(Payable(of.Order.Agent)) != owed-some ||
		hub.book.Balance(Surplus) != surplus-(back-some) {
		t.Errorf("%s came back of %s", back, paid)
	}
	other, late := *of, *of.Order
	other.Order = &late
	late.Capture = &tip.Captured{Held: c.Held, Seq: c.Seq, Time: c.Time, Paid: 10 * paid}
	more := payment(t, hub, 1)
	void := refund(of, "agent", "9", 1)
	void.Order.Receipt = hub.name + "/999999/0"
	for name, test := range map[string]struct {
		o     tip.Ordered
		found *tip.Ordered
		want  error
	}{
		"more than was captured":   {refund(of, "agent", "3", paid-back+1), of, ErrFunds},
		"another word on the same": {refund(of, "agent", "3", 1), &other, ErrIllegal},
		"the same reference":       {refund(more, "agent", "1", 1), more, ErrConflict},
		"nobody pays":              {refund(more, "", "3", 1), more, ErrIllegal},
		"the fee pays":             {refund(more, "fee", "3", 1), more, ErrIllegal},
		"nothing":                  {refund(more, "agent", "3", 0), more, ErrIllegal},
		"no payment":               {refund(more, "agent", "3", 1), nil, ErrIllegal},
		"a hold that never was":    {void, more, ErrEnded},
	} {
		before := tellBook(hub.book)
		if err := command(hub, treasury, test.o, test.found); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
		if !reflect.DeepEqual(tellBook(hub.book), before) || hub.book.Refunded(of.Order.Receipt) != back {
			t.Errorf("%s: the hub's book has changed", name)
		}
	}
	clean(t, hub, treasury)
	uses, _ := hub.book.Uses(of.Client, "", 1)
	sum := market.Credits(0)
	for _, u := range uses {
		sum += u.Refunded
	}
	if days := len(uses); days > 0 && sum != back {
		t.Errorf("%s is told as refunded, want %s", sum, back)
	}
}

// What a refund says of the payment is compared with the journal's frames (level 2), and every order of a hub
// with the treasury's (level 5).
func TestOrdersThatTheAuditFinds(t *testing.T) {
	for name, fraud := range map[string]func(t *testing.T, hub, treasury *desk){
		"a payment made larger": func(t *testing.T, hub, treasury *desk) {
			of := payment(t, hub, 0)
			of.Order.Capture.Paid *= 3
			if err := command(hub, treasury, refund(of, "agent", "1", 1), of); err != nil {
				t.Fatal(err)
			}
		},
		"another client's payment": func(t *testing.T, hub, treasury *desk) {
			of := payment(t, hub, 0)
			of.Client = map[bool]string{true: "client-1", false: "client-0"}[of.Client == "client-0"]
			if err := command(hub, treasury, refund(of, "agent", "1", 1), of); err != nil {
				t.Fatal(err)
			}
		},
		"frames that have no payment": func(t *testing.T, hub, treasury *desk) {
			of := payment(t, hub, 0)
			of.Order.Capture.Seq++
			if err := command(hub, treasury, refund(of, "agent", "1", 1), of); err != nil {
				t.Fatal(err)
			}
		},
		"an order that nobody commanded": func(t *testing.T, hub, treasury *desk) {
			of := payment(t, hub, 0)
			o := refund(of, "agent", "1", 1)
			o.Number, o.Order.Agent = 1, of.Order.Agent
			r, _ := hub.book.Take(o, of, hub.nextSalt())
			hub.must(r)
			other := hub.book.LastOrder(hub.name)
			say := *other.Order
			say.By, other.Order = "somebody", &say
			treasury.must(treasury.book.NewOrder(hub.name, other, treasury.nextSalt()))
		},
		"a remittance that the hub does not have": func(t *testing.T, hub, treasury *desk) {
			o := remit("agent-0", "1", 1)
			o.Number = 1
			treasury.must(treasury.book.NewOrder(hub.name, o, treasury.nextSalt()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub, treasury := trade(t, 3, 200)
			fraud(t, hub, treasury)
			h, tr := audit(hub.name, MaxLevel, store(hub.frames)), audit(treasury.name, MaxLevel,
				store(treasury.frames))
			judgeClaims(h, hub)
			found := append(h.Finish().Findings, Across(tr, []*Audit{h})...)
			if len(found) != 1 || found[0].Invariant != "I4" && found[0].Invariant != "I11" ||
				tr.Finish().Count > 0 {
				t.Errorf("%v %v", found, tr.Finish().Findings)
			}
		})
	}
}

// Above its bound an order needs the signature of another operator, over everything that the first one said.
func TestASecondOperatorSigns(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	key := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(append(append([]byte{20 << 3},
		public...), 0, 0))
	signed := func(id string, o tip.Order, by string, change func(*tip.Order)) *tip.Order {
		text := o.Text("deposit", id, "", "ann", "", 100)
		o.Second, o.Key, o.Signature = by, key, base64.StdEncoding.EncodeToString(ed25519.Sign(private, text))
		change(&o)
		return &o
	}
	order := tip.Order{By: "op", Ref: "sepa-1", Note: "invoice 17", Above: 50}
	same := func(*tip.Order) {}
	d := newDesk(t, Treasury, RoleTreasury)
	for name, test := range map[string]struct {
		id string
		o  *tip.Order
		ok bool
	}{
		"one operator":       {"e", &order, false},
		"below the bound":    {"small", &tip.Order{By: "op", Above: 100}, true},
		"two":                {"d", signed("d", order, "two", same), true},
		"the same twice":     {"e", signed("e", order, "op", same), false},
		"of another deposit": {"e", signed("d", order, "two", same), false},
		"another note": {"e", signed("e", order, "two", func(o *tip.Order) { o.Note = "invoice 18" }),
			false},
		"another reference": {"e", signed("e", order, "two", func(o *tip.Order) { o.Ref = "sepa-2" }),
			false},
		"by another operator": {"e", signed("e", order, "two", func(o *tip.Order) { o.By = "three" }), false},
		"no key":              {"e", signed("e", order, "two", func(o *tip.Order) { o.Key = "" }), false},
		"an account's key": {"e", signed("e", order, "two", func(o *tip.Order) {
			o.Key = "A" + o.Key[1:]
		}), false},
		"no bound, bad word": {"e", signed("e", order, "two", func(o *tip.Order) {
			o.Above, o.Note = 0, "x"
		}), false},
	} {
		err := d.try(NewDeposit(test.id, "ann", 100, test.o, d.nextSalt()))
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "I21") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// what had to be signed is known for good, however much came since
	for id := range d.book.Ops.Of {
		delete(d.book.Ops.Of, id)
	}
	r := NewDeposit("d", "ann", 100, signed("d", order, "two", same), d.nextSalt())
	if err := d.book.Apply(&r); err != ErrRepeat {
		t.Errorf("the same signature again: %v", err)
	}
}

// Whatever is ordered, in any order, repeated, with a kill between hub and treasury: all sums are 0, no
// refund is above its capture, no reference is paid twice, and every level of the audit is clean.
func TestAnyOrders(t *testing.T) {
	for range 6 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			hub, treasury := trade(t, seed%50, 200)
			var paid []*tip.Ordered
			for n := range 6 {
				paid = append(paid, payment(t, hub, n))
			}
			remitted := map[string]market.Credits{}
			for range 150 {
				of := paid[r.IntN(len(paid))]
				amount := market.Credits(r.Int64N(int64(of.Order.Capture.Paid)))
				o := refund(of, []string{"agent", "surplus"}[r.IntN(2)], fmt.Sprint(r.IntN(60)), amount)
				switch r.IntN(4) {
				case 0:
					o = remit(of.Order.Agent, fmt.Sprint("r", r.IntN(60)), amount)
				case 1:
					o = tip.Ordered{Kind: "distribute", Client: []string{"", "client-1"}[r.IntN(2)],
						Amount: amount,
						Order:  &tip.Order{By: "op"}}
					if r.IntN(2) == 0 {
						o.Client, o.Amount, o.Order.Rule = "", 0, []string{tip.ByAgents,
							tip.ByClients}[r.IntN(2)]
					}
				}
				o.Number = hub.book.LastOrder(hub.name).Number + uint64(r.IntN(3)/2) + 1
				record, ok := hub.book.Take(o, of, hub.nextSalt())
				if !ok || hub.try(record) != nil {
					continue
				}
				last := hub.book.LastOrder(hub.name)
				if o.Kind == "remit" {
					if remitted[o.Order.Ref] > 0 {
						t.Fatalf("%s is paid twice", o.Order.Ref)
					}
					remitted[o.Order.Ref] = last.Amount
				}
				// the treasury is killed before it has it, and asks again
				for range 1 + r.IntN(2) {
					rec := treasury.book.NewOrder(hub.name, last, treasury.nextSalt())
					if err := treasury.try(rec); err != nil && !errors.Is(err, ErrConflict) {
						t.Fatal(err)
					}
				}
			}
			for _, d := range []*desk{hub, treasury} {
				sum := market.Credits(0)
				for _, b := range d.book.Balances("*") {
					sum += b.Amount
				}
				if sum != 0 {
					t.Errorf("%s: a sum of %s", d.name, sum)
				}
			}
			for receipt, is := range hub.book.Refunds {
				if is.Back > is.Of.Paid || !reflect.DeepEqual(treasury.book.Refunds[receipt], is) {
					t.Errorf("%s: %+v", receipt, is)
				}
			}
			clean(t, hub, treasury)
		})
	}
}

// By its rule the surplus goes to agents by slots offered after it came, or to clients in equal parts, and
// adds up to the last unit; the audit recomputes both.
func TestSurplusByARule(t *testing.T) {
	hub, treasury := trade(t, 4, 200)
	first := hub.book.Balance(Surplus)
	by := func(rule string) tip.Ordered {
		return tip.Ordered{Kind: "distribute", Order: &tip.Order{By: "op", Rule: rule}}
	}
	if err := command(hub, treasury, by(tip.ByAgents), nil); err != nil ||
		hub.book.Balance(Surplus) != first {
		t.Fatal(err, hub.book.Balance(Surplus))
	}
	if got := hub.book.LastOrder(hub.name); got.Amount != 0 || len(got.Order.Shares) > 0 ||
		hub.book.Ripe() != first {
		t.Errorf("the first shares out %+v", got)
	}
	hub.book.kept.Offered = map[string]int64{} // nobody has offered a slot since: it is carried
	if err := command(hub, treasury, by(tip.ByAgents), nil); err != nil || hub.book.Ripe() != first {
		t.Fatal(err, hub.book.Ripe())
	}
	clean(t, hub, treasury)
	h := audit(hub.name, MaxLevel, store(hub.frames))
	h.book.kept.Offered = map[string]int64{"agent-1": 2} // and here one has
	none := hub.book.NewOrder(hub.name, hub.book.LastOrder(hub.name), hub.nextSalt())
	if h.shared(9, &none); h.Finish().Count != 1 || h.Finish().Findings[0].Invariant != "I23" {
		t.Errorf("carried, though slots were offered: %v", h.Finish().Findings)
	}
	hub.book.kept.Offered = map[string]int64{"agent-0": 1, "agent-1": 2, "agent-2": 4}
	owed := hub.book.Balance(Payable("agent-1"))
	if err := command(hub, treasury, by(tip.ByAgents), nil); err != nil || hub.book.Balance(Surplus) != 0 {
		t.Fatal(err, hub.book.Balance(Surplus))
	}
	if got := hub.book.Balance(Payable("agent-1")) - owed; got < first*2/7 || got > first*2/7+1 {
		t.Errorf("agent-1 gets %s of %s", got, first)
	}
	h = audit(hub.name, MaxLevel, store(hub.frames))
	if found := h.Finish().Findings; len(found) != 1 || found[0].Invariant != "I23" ||
		found[0].Level != LevelAuctions {
		t.Errorf("slots that nobody offered: %v", found)
	}

	hub, treasury = trade(t, 5, 200)
	surplus := hub.book.Balance(Surplus)
	clients := treasury.book.dealtWith(hub.name)
	before := map[string]market.Credits{}
	for _, c := range clients {
		before[c], _ = treasury.book.Prepaid(c)
	}
	for range 2 {
		if err := command(hub, treasury, by(tip.ByClients), nil); err != nil {
			t.Fatal(err)
		}
	}
	sum, parts := market.Credits(0), []market.Credits{}
	for _, c := range clients {
		now, _ := treasury.book.Prepaid(c)
		sum, parts = sum+now-before[c], append(parts, now-before[c])
	}
	if sum != surplus || slices.Max(parts)-slices.Min(parts) > 1 || slices.Min(parts) <= 0 {
		t.Errorf("%s is shared out as %v", surplus, parts)
	}
	clean(t, hub, treasury)
	bad := by(tip.ByAgents)
	bad.Number, bad.Amount = 3, 5
	if err := hub.try(hub.book.NewOrder(hub.name, bad, hub.nextSalt())); !errors.Is(err, ErrIllegal) {
		t.Errorf("an amount that the rule does not give: %v", err)
	}
}

// Who asks for an order that is refused reads why in words: neither a rule's number nor a record's name.
func TestARefusalIsInWords(t *testing.T) {
	err := broken(ErrIllegal, "I22", "math/refund/1", "the month of the payment, 2026-10", "%q", "2026-11")
	const want = `illegal record: want the month of the payment, 2026-10, and it is "2026-11"`
	if got := Plain(fmt.Errorf("frame 7: %w", err)); got != want {
		t.Errorf("%s", got)
	}
	if got := Plain(ErrRepeat); got != "applied before" {
		t.Errorf("%s", got)
	}
}
