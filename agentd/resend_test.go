package agentd

import (
	"fmt"
	"testing"
)

// What is sent again of an answer goes out in pieces, and those of several readers in turn.
func TestResendsTakeTurns(t *testing.T) {
	r, now := NewStreams(1<<20), begun
	var all []*Stream
	for i := range 3 {
		s := NewStream(now, dispatch(fmt.Sprint("h", i)), NewRun(dispatch("h"), "a1", "tiny", 16), 1<<20)
		for range 8 {
			s.frames.keep(make([]byte, resendPiece/2))
		}
		r.Add(s)
		all = append(all, s)
	}
	r.Resend(all[0], 0)
	r.Resend(all[1], 6)
	r.Resend(all[2], 2)
	r.Resend(all[2], 4) // the lowest counts
	order := ""
	step := func() {
		for {
			p, _ := r.Next(now, "a1")
			if p.Stream == nil {
				return
			}
			order += fmt.Sprintf("%s:%d ", p.Stream.ID.Token, len(p.Messages))
		}
	}
	step()
	if want := "t-h0:2 t-h1:2 t-h2:2 t-h0:2 t-h2:2 t-h0:2 t-h2:2 t-h0:2 "; order != want {
		t.Errorf("sent %s, want %s", order, want)
	}
	order = ""
	r.Resend(all[1], 7)
	step()
	if order != "" {
		t.Errorf("sent again at once: %s", order)
	}
	_, wake := r.Next(now, "a1")
	now = wake
	step()
	if want := "t-h1:1 "; order != want || now.Sub(begun) != resendEvery {
		t.Errorf("after %v: %s, want %s", now.Sub(begun), order, want)
	}
}
