package bus_test

import (
	"strings"
	"testing"

	"souk/bus"
)

func TestLedgerSubjectsNameWhoAsks(t *testing.T) {
	for _, c := range []struct{ subject, op, client, who string }{
		{bus.LedgerSubject(bus.OpReturn, "math"), bus.OpReturn, "", "math"},
		{bus.BalanceSubject("ann", ""), bus.OpBalance, "ann", "ann"},
		{bus.BalanceSubject("ann", "ann"), bus.OpBalance, "ann", "ann"},
		{bus.BalanceSubject("ann", "gw"), bus.OpBalance, "ann", "gw"},
		{"souk.v1.ledger.return", "", "", ""},
		{"souk.v1.ledger.return.", "", "", ""},
		{"souk.v1.ledger.return.a.b", "", "", ""},
		{"souk.v1.ledger.balance", "", "", ""},
		{"souk.v1.ledger.balance.ann.", "", "", ""},
		{"souk.v1.ledger.balance..gw", "", "", ""},
		{"souk.v1.ledger.balance.ann.gw.x", "", "", ""},
		{"souk.v2.ledger.return.math", "", "", ""},
	} {
		op, client, who, ok := bus.ParseLedger(c.subject)
		if ok != (c.op != "") || ok && (op != c.op || client != c.client || who != c.who) {
			t.Errorf("%s: %q, %q, %q, %v; want %+v", c.subject, op, client, who, ok, c)
		}
	}
}

// A subject that is understood names ids alone, and is the one that is made of them.
func FuzzParseLedger(f *testing.F) {
	for _, s := range []string{bus.LedgerSubject("deposit", "op"), bus.BalanceSubject("ann", "gw"),
		bus.BalanceSubject("ann", ""), "souk.v1.ledger.balance.a.b.c", "souk.v1.ledger..", ""} {
		f.Add(s, bus.InboxOf("op")+".1")
	}
	f.Fuzz(func(t *testing.T, subject, reply string) {
		op, client, who, ok := bus.ParseLedger(subject)
		if ok {
			made := bus.LedgerSubject(op, who)
			if op == bus.OpBalance {
				made = bus.BalanceSubject(client, who)
			}
			if made != subject && subject != made+"."+who || !bus.ValidID(who) ||
				op == bus.OpBalance != (client != "") {
				t.Errorf("%q: %q, %q, %q", subject, op, client, who)
			}
		}
		if bus.AnswersTo(subject, reply) &&
			!strings.HasPrefix(reply, bus.InboxOf(bus.LastToken(subject))+".") {
			t.Errorf("%q is answered at %q", subject, reply)
		}
	})
}
