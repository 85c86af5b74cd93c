package ledger

import (
	"errors"
	"strings"
	"testing"

	"souk/market"
)

// A book takes a reader that is one, and its audit finds nothing; a hub finds it again after its next start.
func TestABookKnowsItsReaders(t *testing.T) {
	for _, c := range []struct {
		reader, token string
		ok            bool
	}{{"", "", true}, {"g1", "k1", true}, {"g1", "", false}, {"", "k1", false}, {"a.b", "k1", false},
		{"g1", "*", false}} {
		d := newDesk(t, "hub-maths", RoleHub)
		d.must(NewAccept(d.name, 1, "ann", 10_000, d.nextSalt()))
		records := d.oneRound(1, market.Task{ID: "ann/t1", Client: "ann"})
		records[1].Hold.Reader, records[1].Hold.Token = c.reader, c.token
		err := d.try(records...)
		if c.ok != (err == nil) || err != nil && !errors.Is(err, ErrIllegal) {
			t.Errorf("%q reads %q: %v", c.reader, c.token, err)
		}
		if !c.ok {
			continue
		}
		if r := audit(d.name, LevelAuctions, store(d.frames)).Finish(); r.Count > 0 {
			t.Errorf("%+v", r)
		}
		h := historyOf(t, allOfIt, store(d.frames), 3) // by way of a snapshot
		open, err := h.Open()
		if err != nil || len(open) != 1 || open[0].Hold.Reader != c.reader || open[0].Hold.Token != c.token {
			t.Errorf("%+v, %v", open, err)
		}
	}
}

// Every word of a hold comes back as it was written, and is part of its bytes; an assertion below 0 is
// refused.
func TestAHoldIsRead(t *testing.T) {
	seen := map[string]bool{}
	for _, tariff := range []market.Credits{0, 7, 400} {
		for _, reader := range []string{"", "g1"} {
			for _, asserted := range []int{0, 1, 63, 64, 1 << 20} {
				h := Hold{Client: "ann", Task: "t", Agent: "a", Settle: "metered", Amount: 9, Quoted: 8,
					Tariff: tariff, Reader: reader, Token: reader, Asserted: asserted,
					Digest: [16]byte{15: 1}}
				data := AppendFrame(nil, &Frame{Version: FrameVersion, Epoch: 1, Seq: 1, Time: 1,
					Records: []Record{{Kind: KindHold, ID: "x", Hold: &h}}})
				back, err := DecodeFrame(data)
				if err != nil || *back.Records[0].Hold != h || seen[string(data)] {
					t.Errorf("%+v, %v", back.Records, err)
				}
				seen[string(data)] = true
				if h.Asserted = -1; !errors.Is(h.valid("x"), ErrIllegal) {
					t.Error("an assertion of -1 passes")
				}
			}
		}
	}
}

// What an agent asserted is due as cached: an audit names the capture that bills less of it as cached, and no
// other. A hub finds the assertion again after its next start.
func TestAnAuditKnowsAssertions(t *testing.T) {
	for _, c := range []struct {
		prompt, cached int
		finds          string
	}{{400, 300, ""}, {400, 399, ""}, {200, 200, ""}, {400, 299, "at least 300 cached tokens"},
		{400, 0, "at least 300 cached tokens"}, {200, 199, "at least 200 cached tokens"}} {
		d := newDesk(t, "hub-maths", RoleHub)
		d.must(NewAccept(d.name, 1, "ann", market.Credit, d.nextSalt()))
		records := d.oneRound(1, market.Task{ID: "ann/t1", Client: "ann"})
		h := records[1].Hold
		h.Asserted = 300
		d.must(records...)
		open, err := historyOf(t, allOfIt, store(d.frames), 2).Open() // by way of a snapshot
		if err != nil || len(open) != 1 || open[0].Hold.Asserted != 300 {
			t.Errorf("%+v, %v", open, err)
		}
		use := market.Usage{Prompt: c.prompt, Cached: c.cached, Output: 5}
		d.must(NewCapture(d.name, *h, Capture{Outcome: "done", Usage: use,
			Cost: market.Settle(h.Settle, h.Price, h.Tariff, h.Quoted, use, h.Amount-h.Premium)},
			d.nextSalt()))
		if r := audit(d.name, LevelMetering-1, store(d.frames)).Finish(); r.Count > 0 {
			t.Errorf("%+v: %+v", c, r.Findings)
		}
		r := audit(d.name, LevelMetering, store(d.frames)).Finish()
		if (c.finds == "") != (r.Count == 0) || r.Count > 1 ||
			r.Count == 1 && !strings.HasPrefix(r.Findings[0].Expected, c.finds) {
			t.Errorf("%+v: %+v", c, r.Findings)
		}
	}
}
