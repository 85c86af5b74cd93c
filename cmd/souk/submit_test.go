package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/natsbus"
)

// What is said of a premium adds up to it.
func TestSummaryOfAPremium(t *testing.T) {
	r := bus.Result{Model: "m", Agent: "a", Hub: "math", Cost: 1000, Premium: 600, SlotPrice: 200, Toll: -500,
		Own: 100, Fee: 50}
	if got, want := summary(r, time.Millisecond),
		"paid 0.0000016 = cost 0.000001 + premium 0.0000006 (slot price 0.0000002, toll 0.00000045, "+
			"of which 0.0000001 are not charged, fee 0.00000005) | "; !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant %s...", got, want)
	}
	if got := summary(bus.Result{Cost: 1000}, 0); !strings.HasPrefix(got,
		"paid 0.000001 = cost 0.000001 + premium 0 | ") {
		t.Errorf("%s", got)
	}
}

// What is no text is not made into one.
func TestPromptIsUTF8(t *testing.T) {
	if _, err := (question{client: "dev"}).task("caf\xe9"); err == nil ||
		!strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("got %v", err)
	}
	task, err := question{client: "dev"}.task("café")
	if err != nil || task.ID == "" {
		t.Errorf("got %+v, %v", task, err)
	}
}

// Of a task whose fate is not known here it is not said that nothing was paid.
func TestSummaryOfARefusal(t *testing.T) {
	const ledger = "; what was paid, if anything, stands in the ledger: ledger trace t-1"
	for code, want := range map[bus.Code]string{
		bus.CodeNoRoom:     "refused: no_room: because; nothing was paid",
		bus.CodeCancelled:  "cancelled: because; nothing was paid",
		bus.CodeUnknown:    "unknown: because" + ledger,
		bus.CodeAnswerGone: "refused: answer_gone: because" + ledger,
	} {
		if got := summary(bus.Result{Task: "t-1", Code: code, Message: "because"}, 0); got != want {
			t.Errorf("%s", got)
		}
	}
}

// Whoever is turned away hears that, and not that the market is away.
func TestTheMarketRefuses(t *testing.T) {
	news := make(chan bus.Health, 8)
	for range 2 {
		news <- bus.Health{Err: fmt.Errorf("%w: the creds of client ann were revoked", natsbus.ErrRefused)}
	}
	close(news)
	var said strings.Builder
	reach(news, &said)
	if got := said.String(); strings.Count(got, "were revoked") != 1 ||
		strings.Contains(got, "out of reach") {
		t.Errorf("%s", got)
	}
}

func TestTheMarketIsOutOfReach(t *testing.T) {
	news := make(chan bus.Health, 8)
	// the last: closed
	for _, h := range []bus.Health{{Connected: true}, {Err: bus.ErrDisconnected}, {Err: bus.ErrDisconnected},
		{Connected: true}, {}} {
		news <- h
	}
	close(news)
	var said strings.Builder
	reach(news, &said)
	if got := said.String(); strings.Count(got, "out of reach") != 1 || strings.Count(got, "back") != 1 {
		t.Errorf("%s", got)
	}
}
