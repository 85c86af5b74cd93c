package agentd

import "testing"

// What is sent again is sent without the lock: what its reader acknowledges meanwhile must not take it away.
func TestAPieceStaysWhatItIs(t *testing.T) {
	s := &Stream{Reply: "souk.v1.reply.ada.t.a", state: ended, frames: frames{most: 1 << 10}}
	s.frames.keep([]byte("one"))
	s.frames.keep([]byte("two"))
	piece, _ := s.next("a")
	s.frames.acked(2)
	if len(piece) != 2 || string(piece[0]) != "one" || string(piece[1]) != "two" {
		t.Fatalf("sent again: %q", piece)
	}
}
