package prefix

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus"
)

// A lookup says who holds a prompt now, whatever was looked up before.
func TestALookupIsOfNow(t *testing.T) {
	x := NewIndex(Limits{Sessions: 6, Hashes: 200, Reported: 100})
	x.Advance(second)
	a, b := x.New(16, 10_000), x.New(16, 10_000)
	p := chat(text(1, 200), text(2, 200))
	var k Lookup
	look := func(holders int) {
		t.Helper()
		for range 2 {
			got, want := x.Look(&k, &p), x.Depths(nil, p.Prefixes)
			some := len(got) - len(slices.DeleteFunc(slices.Clone(got), func(d int32) bool { return d > 0 }))
			if !slices.Equal(got, want) || some != holders {
				t.Errorf("%v hold it, want %v, %d of them", got, want, holders)
			}
		}
	}
	look(0)
	a.Sent(&p, p.Tokens, 10, second)
	x.Advance(2 * second)
	look(1)
	b.Sent(&p, p.Tokens, 10, 2*second)
	x.Advance(3 * second)
	look(2)
	a.Drop()
	look(1)
}

// Who asks often keeps what it was told of a prompt, who holds it, until Changed says otherwise. So whatever
// happens, where that says nothing all is as it was.
func TestWhatIsKeptIsTrueUntilSomethingChanged(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	kept := 0
	for range 40 {
		x := NewIndex(Limits{Sessions: 6, Hashes: 60 + r.IntN(200), Reported: 20 + r.IntN(100)})
		now := second
		x.Advance(now)
		type talker struct {
			b    *Cache
			says says
			runs []*Run
			of   []*bus.Prompt
		}
		all := make([]*talker, 4)
		fresh := func() *talker {
			b := x.New(1+r.IntN(32), 200*r.IntN(20))
			return &talker{b: b, says: says{b: b}}
		}
		for i := range all {
			all[i] = fresh()
		}
		type known struct {
			p       bus.Prompt
			since   uint64
			holders []int32
		}
		prompts := make([]known, 24)
		for i := range prompts {
			var messages []string
			for m := range 1 + r.IntN(5) {
				messages = append(messages, text(byte(m*2+r.IntN(2)), 20+r.IntN(2)*150))
			}
			prompts[i].p = chat(messages...)
			if i%6 == 0 {
				prompts[i].p.Loose = bus.LooseMedia
			}
		}
		looks := func(k *known) {
			k.since = x.changes
			k.holders = x.Depths(nil, k.p.Prefixes)
		}
		for i := range prompts {
			looks(&prompts[i])
		}
		for range 400 {
			a := all[r.IntN(len(all))]
			p := &prompts[r.IntN(len(prompts))].p
			switch op := r.IntN(40); {
			case op < 10:
				first := now + r.Int64N(3*second) - second
				a.runs, a.of = append(a.runs, a.b.Sent(p, p.Tokens, r.IntN(90), first)), append(a.of, p)
			case op < 20 && len(a.runs) > 0:
				i := r.IntN(len(a.runs))
				cached := r.IntN(a.of[i].Tokens+2) - 1
				if op < 12 {
					a.b.Ended(a.runs[i])
				} else {
					a.b.Served(a.runs[i], uint64(r.IntN(9)), a.of[i],
						a.of[i].Tokens, r.IntN(90), cached)
				}
				a.runs, a.of = slices.Delete(a.runs, i, i+1), slices.Delete(a.of, i, i+1)
			case op < 23:
				a.says.whole(0.8+0.2*r.Float64(), p.Prefixes, prompts[r.IntN(len(prompts))].p.Prefixes)
			case op < 27:
				a.says.change(0.8+0.2*r.Float64(), p.Prefixes[r.IntN(len(p.Prefixes)):],
					prompts[r.IntN(len(prompts))].p.Prefixes)
			case op == 27:
				a.says.seq++ // one is lost
			case op == 28:
				a.says.life++
			case op == 30:
				a.b.Judge(100, r.IntN(200)-1)
			case op == 32:
				a.b.Resize(200 * r.IntN(20))
			case op == 34 && r.IntN(4) == 0:
				a.b.Drop()
				all[slices.Index(all, a)] = fresh()
			case op == 35 && r.IntN(4) == 0:
				a.b.Forget()
			default:
				now += r.Int64N(3 * second)
				if r.IntN(30) == 0 {
					now += int64(5 * time.Minute)
				}
				x.Advance(now)
			}
			for i := range prompts {
				k := &prompts[i]
				was := k.holders
				changed := x.Changed(k.p.Prefixes, k.since)
				looks(k)
				if changed || len(was) != len(k.holders) {
					continue
				}
				kept++
				if !slices.Equal(was, k.holders) {
					t.Fatalf("nothing changed of a prompt: %v hold it, and %v did", k.holders, was)
				}
			}
		}
		for _, a := range all {
			for len(a.runs) > 0 {
				a.b.Ended(a.runs[0])
				a.runs = a.runs[1:]
			}
			if err := sound(a.b); err != nil {
				t.Fatal(err)
			}
		}
	}
	if kept < 10_000 {
		t.Errorf("%d times was nothing changed: the test sees little", kept)
	}
}
