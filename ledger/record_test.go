package ledger

import (
	"errors"
	"strings"
	"testing"

	"souk/market"
)

// A hold says who reads its answer where that is not its client. Its bytes are what they were where it is,
// and there is one encoding of each.
func TestAHoldSaysWhoReads(t *testing.T) {
	plain := Hold{Client: "ann", Task: "t", Agent: "a", Settle: "metered", Amount: 9, Quoted: 5,
		Digest: [16]byte{15: 1}}
	frame := func(h Hold) *Frame {
		return &Frame{Version: FrameVersion, Epoch: 1, Seq: 1, Time: 1,
			Records: []Record{{Kind: KindHold, ID: "x", Hold: &h}}}
	}
	least := len(AppendFrame(nil, frame(plain)))
	for tariff, more := range map[market.Credits]int{0: 1, 4: 1, 400: 2} {
		h := plain
		h.Tariff, h.Reader, h.Token = tariff, "g1", "k-1"
		data := AppendFrame(nil, frame(h))
		if back, err := DecodeFrame(data); err != nil || *back.Records[0].Hold != h {
			t.Errorf("%+v, %v", back.Records[0].Hold, err)
		}
		if len(data) != least+more+1+2+1+3 {
			t.Errorf("with tariff %d and a reader it takes %d bytes, without both %d", tariff, len(data), least)
		}
	}
	data := append(AppendFrame(nil, frame(plain)), 0, 0, 0) // no tariff, no reader, no token
	data[len(data)-3-len(AppendRecord(nil, &frame(plain).Records[0]))-1] += 3
	if _, err := DecodeFrame(data); err == nil || !strings.Contains(err.Error(), "are not written") {
		t.Errorf("a second encoding: %v", err)
	}
}

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
