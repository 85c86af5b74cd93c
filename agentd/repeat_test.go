package agentd

import (
	"fmt"
	"testing"
)

// An answer's repeats come in pieces, and those of several readers in turn.
func TestRepeatsTakeTurns(t *testing.T) {
	r, now := NewShelf[*Stream](1<<20), begun
	var all []*Kept[*Stream]
	for i := range 3 {
		s := NewStream(now, dispatch(fmt.Sprint("h", i)), NewRun(dispatch("h"), "a1", "tiny", 16), 1<<20)
		for range 8 {
			s.frames.keep(make([]byte, repeatPiece/2))
		}
		all = append(all, r.Add(s.ID, s.Hold, &s))
	}
	r.Again(all[0], 0)
	r.Again(all[1], 6)
	r.Again(all[2], 2)
	r.Again(all[2], 4) // the lowest counts
	order := ""
	step := func() {
		for {
			k, piece, _ := r.Next(now)
			if k == nil {
				return
			}
			frames, _, left := k.Answer.Piece("a1", piece)
			bytes := 0
			for _, f := range frames {
				bytes += len(f)
			}
			order += fmt.Sprintf("%s:%d ", k.ID.Task, len(frames))
			r.Sent(now, k, left, bytes)
		}
	}
	step()
	if want := "t-h0:2 t-h1:2 t-h2:2 t-h0:2 t-h2:2 t-h0:2 t-h2:2 t-h0:2 "; order != want {
		t.Errorf("sent %s, want %s", order, want)
	}
	order = ""
	r.Again(all[1], 7)
	step()
	if order != "" {
		t.Errorf("sent again at once: %s", order)
	}
	_, _, wake := r.Next(now)
	now = wake
	step()
	if want := "t-h1:1 "; order != want || now.Sub(begun) != repeatEvery {
		t.Errorf("after %v: %s, want %s", now.Sub(begun), order, want)
	}
}
