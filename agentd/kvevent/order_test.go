package kvevent

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// world is an engine with a publisher, a network that does what it likes, and a listener.
type world struct {
	t      testing.TB
	o      Order
	keep   int      // batches that the replay has
	life   int      // of the engine
	log    [][]byte // what it published in this life
	flying []batch  // on their way
	answer []batch  // of the replay
	ended  bool     // and whether it says that it ends

	// the listener's: what was applied since the last reset
	whole   bool
	applied [][]byte
}

func newWorld(t testing.TB, replay bool, keep int) *world {
	w := &world{t: t, keep: keep}
	w.o.Replay = replay
	w.take(w.o.Joined())
	return w
}

// publish makes a batch that says which one it is, of which life.
func (w *world) publish() {
	seq := uint64(len(w.log))
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(w.life)), seq)
	w.log = append(w.log, b)
	w.flying = append(w.flying, batch{seq, b})
}

func (w *world) restart() {
	w.life++
	w.log, w.flying, w.answer, w.ended = nil, nil, nil, false
}

// take does what the order wants, and checks that what was applied is part of one life, without a hole, and
// all of it where the listener was told that it is.
func (w *world) take(out Out) {
	if out.Reset != Keep {
		w.applied, w.whole = nil, out.Reset == Restarted
		if out.Why == "" {
			w.t.Error("a reset without a reason")
		}
	} else if out.Why != "" {
		w.t.Errorf("%q without a reset", out.Why)
	}
	w.applied = append(w.applied, out.Apply...)
	for i, b := range w.applied {
		life, seq := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
		if i == 0 && w.whole && seq != 0 {
			w.t.Fatalf("all is known, they say, and it begins with number %d", seq)
		}
		if i > 0 && (life != binary.BigEndian.Uint64(w.applied[i-1]) ||
			seq != binary.BigEndian.Uint64(w.applied[i-1][8:])+1) {
			w.t.Fatalf("batch %x follows %x", b, w.applied[i-1])
		}
	}
	if out.Ask {
		if !w.o.Asking || !w.o.Replay {
			w.t.Error("asks, and does not wait for an answer")
		}
		w.answer, w.ended = nil, true
		for seq := max(out.From, uint64(max(0, len(w.log)-w.keep))); seq < uint64(len(w.log)); seq++ {
			w.answer = append(w.answer, batch{seq, w.log[seq]})
		}
	}
}

// live hands on one of the batches that are on their way: what the replay says comes first.
func (w *world) live(i int) {
	w.replies()
	if i < len(w.flying) {
		b := w.flying[i]
		w.flying = append(w.flying[:i:i], w.flying[i+1:]...)
		w.take(w.o.Live(b.seq, b.payload))
	}
}

// reply hands on the next of the replay's answer, or its end.
func (w *world) reply() {
	if len(w.answer) > 0 {
		b := w.answer[0]
		w.answer = w.answer[1:]
		w.take(w.o.Replayed(b.seq, b.payload))
	} else if w.o.Asking {
		whole := w.ended
		w.ended = false
		w.take(w.o.ReplayEnd(whole))
	}
}

// replies hands on all that the replay is asked for.
func (w *world) replies() {
	for w.o.Asking {
		w.reply()
	}
}

// join breaks the connection off, which the listener hears of once the replay has ended, and makes another.
func (w *world) join() {
	w.replies()
	w.take(w.o.Joined())
}

// settle lets all that is under way arrive.
func (w *world) settle() {
	for w.replies(); len(w.flying) > 0; w.replies() {
		w.live(0)
	}
}

// expect says what the listener should know: all batches from one on.
func (w *world) expect(whole bool, from int) {
	w.t.Helper()
	w.settle()
	if w.whole != whole || len(w.applied) != len(w.log)-from ||
		len(w.applied) > 0 && string(w.applied[0]) != string(w.log[from]) {
		w.t.Errorf("whole %v, %d batches %x; want %v, %d from %d", w.whole, len(w.applied), w.applied, whole,
			len(w.log)-from, from)
	}
}

func (w *world) publishes(n int) {
	for range n {
		w.publish()
	}
}

func (w *world) drop() { w.flying = w.flying[1:] }

func TestOrder(t *testing.T) {
	for name, test := range map[string]struct {
		noReplay bool
		keep     int // default 10
		play     func(w *world)
		whole    bool
		from     int
	}{
		"from the beginning": {play: func(w *world) { w.settle(); w.publishes(5) }, whole: true},
		"published after the replay was read, before the connection was heard of": {play: func(w *world) {
			w.publish()
			w.drop()
		}, whole: true},
		"no replay, the first": {noReplay: true, play: func(w *world) { w.publishes(5) }, whole: true},
		"no replay, late": {noReplay: true, play: func(w *world) {
			w.publishes(5)
			w.drop()
		}, from: 1},
		"no replay, a gap": {noReplay: true, play: func(w *world) {
			w.publishes(5)
			w.live(0)
			w.drop()
		}, from: 2},
		"no replay, a reconnect": {noReplay: true, play: func(w *world) {
			w.publishes(3)
			w.settle()
			w.join()
			w.publishes(2)
		}, from: 3},
		"no replay, a new life": {noReplay: true, play: func(w *world) {
			w.publishes(3)
			w.settle()
			w.restart()
			w.publishes(2)
		}, whole: true},
		"no replay, its first is missed": {noReplay: true,
			play: func(w *world) {
				w.publishes(3)
				w.settle()
				w.restart()
				w.publishes(3)
				w.drop()
			}, from: 1},
		"a late start": {play: func(w *world) {
			w.publishes(7)
			w.flying = nil
			w.join()
		}, whole: true},
		"later than the replay goes back": {play: func(w *world) {
			w.publishes(25)
			w.flying = nil
			w.join()
		},
			from: 15},
		"a gap": {play: func(w *world) {
			w.publishes(2)
			w.settle()
			w.publishes(4)
			w.drop()
			w.drop()
		}, whole: true},
		"a gap beyond the replay": {keep: 3, play: func(w *world) {
			w.publishes(2)
			w.settle()
			w.publishes(9)
			w.flying = w.flying[8:]
		}, from: 8},
		"a gap within the replay's answer": {play: func(w *world) {
			w.publishes(8)
			w.flying = nil
			w.reply() // it had nothing before
			w.answer = append(w.answer[:3], w.answer[5:]...)
		}, whole: true},
		"a gap that the replay never fills": {play: func(w *world) {
			w.settle()
			w.publishes(8)
			w.flying = w.flying[5:]
			w.live(0)
			for w.o.Asking {
				w.answer = w.answer[max(0, len(w.answer)-3):]
				w.reply()
				w.reply()
				w.reply()
				w.reply()
			}
		}, from: 5},
		"a replay that leaves out more and more": {play: func(w *world) {
			w.settle()
			w.publishes(9)
			w.flying = w.flying[8:]
			w.live(0)
			for n := 1; w.o.Asking; n++ {
				if len(w.answer) > n {
					w.answer = append(w.answer[:n], w.answer[n+1:]...)
				}
				for range len(w.answer) + 1 {
					w.reply()
				}
			}
		}, whole: true},
		"shuffled": {play: func(w *world) {
			w.settle()
			w.publishes(5)
			w.live(3)
			w.live(1)
			w.live(1)
		}, whole: true},
		"doubled": {play: func(w *world) {
			w.publishes(5)
			w.flying = append(w.flying, w.flying...)
			w.settle()
			w.flying = append(w.flying, batch{2, w.log[2]})
		}, whole: true},
		"a new life": {play: func(w *world) {
			w.publishes(5)
			w.settle()
			w.restart()
			w.publishes(2)
		}, whole: true},
		"a new life whose beginning was missed": {play: func(w *world) {
			w.publishes(5)
			w.settle()
			w.restart()
			w.publishes(4)
			w.drop()
			w.drop()
		}, whole: true},
		"a new life that has said nothing": {play: func(w *world) {
			w.publishes(5)
			w.settle()
			w.restart()
			w.join()
		}, whole: true},
		"a new life that is further": {play: func(w *world) {
			w.publishes(3)
			w.settle()
			w.restart()
			w.publishes(7)
			w.flying = w.flying[6:]
			w.join()
		}, whole: true},
		"the same life, after a reconnect": {play: func(w *world) {
			w.publishes(3)
			w.settle()
			w.publishes(4)
			w.flying = nil
			w.join()
		}, whole: true},
		"a reconnect, too late": {play: func(w *world) {
			w.publishes(3)
			w.settle()
			w.publishes(20)
			w.flying = nil
			w.join()
		}, from: 13},
		"a reconnect, just too late to know that it is the same life": {play: func(w *world) {
			w.publishes(3)
			w.settle()
			w.publishes(10)
			w.flying = nil
			w.join()
		}, from: 3},
		"a replay that is silent": {play: func(w *world) {
			w.publishes(3)
			for range maxTries {
				w.answer, w.ended = nil, false
				w.reply()
			}
			w.flying = w.flying[1:]
		}, from: 1},
		"a replay that breaks off": {play: func(w *world) {
			w.publishes(6)
			w.flying = nil
			w.reply() // it had nothing before
			w.reply()
			w.reply()
			w.answer, w.ended = nil, false
			w.reply()
		}, whole: true},
		"numbers that nobody reaches": {play: func(w *world) {
			w.publishes(2)
			w.settle()
			w.take(w.o.Live(1<<63, []byte("x")))
			w.take(w.o.Live(maxSeq, []byte("x")))
			w.take(w.o.Replayed(3, []byte("nobody asked")))
			w.take(w.o.ReplayEnd(true))
		}, whole: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, !test.noReplay, max(test.keep, 10))
			if test.keep > 0 {
				w.keep = test.keep
			}
			test.play(w)
			w.expect(test.whole, test.from)
		})
	}
}

// A publisher that says one thing live and another in its replay is given up, rather than asked for ever.
func TestOrderOfALiar(t *testing.T) {
	o := Order{Replay: true}
	out, asked := o.Joined(), 0
	for at := uint64(0); ; at++ {
		for ; out.Ask; asked++ {
			if asked > 3*maxTries*(int(at)+1) {
				t.Fatal("it asks for ever")
			}
			for seq := range uint64(5) {
				if out = o.Replayed(seq, fmt.Append(nil, "replay", asked, seq)); out.Ask {
					break
				}
			}
			if !out.Ask {
				out = o.ReplayEnd(true)
			}
		}
		if at > 5 {
			break
		}
		out = o.Live(at, []byte("live"))
	}
	if o.Asking {
		t.Error("it asks on")
	}
}

// play drives a world by bytes: whatever happens, take finds nothing wrong; and when all has arrived after a
// reconnect, the listener knows the truth, or less of it.
func play(t testing.TB, script []byte) {
	if len(script) == 0 {
		return
	}
	w := newWorld(t, script[0]&1 == 0, 1+int(script[0]>>1)%30)
	for i := 1; i < len(script); i++ {
		op, n := script[i]&15, int(script[i]>>4)
		switch op {
		default:
			w.publishes(n)
		case 4, 5:
			for range n + 1 {
				w.reply()
			}
		case 6, 7:
			for range n {
				w.live(0)
			}
		case 8:
			w.live(n)
		case 9: // lost
			w.flying = w.flying[min(n, len(w.flying)):]
		case 10: // doubled
			w.flying = append(w.flying, w.flying[:min(n, len(w.flying))]...)
		case 11: // the connection breaks, and with it what was under way
			w.flying = nil
			w.join()
		case 12:
			w.restart()
			w.join()
		case 13:
			w.settle()
		case 14: // lost by the replay
			w.answer = w.answer[min(n, len(w.answer)):]
		case 15: // the replay falls silent
			w.answer, w.ended = nil, false
			w.reply()
		}
	}
	w.settle()
	w.join()
	w.settle()
	w.publish()
	w.settle()
	if n := len(w.applied); n == 0 || string(w.applied[n-1]) != string(w.log[len(w.log)-1]) {
		t.Errorf("at the end %d batches are known, the last %x, want %x", n, w.applied[max(0, n-1):],
			w.log[len(w.log)-1])
	}
}

func TestOrderAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		script := make([]byte, 1+r.IntN(60))
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		play(t, script)
		if t.Failed() {
			t.Fatalf("%x", script)
		}
	}
}

// FuzzOrder shuffles, doubles and cuts what an engine of several lives says.
func FuzzOrder(f *testing.F) {
	f.Add([]byte{0, 0x50, 0x37, 0x0d, 0x40, 0x19, 0x0d})
	f.Add([]byte{1, 0x50, 0x0c, 0x30, 0x0d, 0x0b, 0x2f})
	f.Fuzz(func(t *testing.T, script []byte) {
		play(t, script[:min(len(script), 200)])
	})
}
