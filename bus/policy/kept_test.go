package policy

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// dumb is Kept as a list, the key used last at the end.
type dumb struct {
	limit int
	list  []dumbEntry
}

type dumbEntry struct{ client, key, value ID }

func (d *dumb) at(key ID) int {
	return slices.IndexFunc(d.list, func(e dumbEntry) bool { return e.key == key })
}

func (d *dumb) keys(client ID) (n int) {
	for _, e := range d.list {
		if e.client == client {
			n++
		}
	}
	return n
}

// Kept finds what a list would find, forgets what a list would forget, and of nobody who has less than most.
func TestKeptAgainstDumb(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 50 {
		limit := 1 + rng.IntN(12)
		k, d := NewKept[ID](limit), dumb{limit: limit}
		for range 400 {
			client, key := 1+rng.Uint64N(3), 1+rng.Uint64N(20)
			i := d.at(key)
			switch rng.IntN(8) {
			case 0:
				if k.Drop(key); i >= 0 {
					d.list = slices.Delete(d.list, i, i+1)
				}
			case 1:
				use := rng.IntN(2) == 0
				got := k.Get(key, use)
				if (got != nil) != (i >= 0) || got != nil && *got != d.list[i].value {
					t.Fatalf("key %d: %v, in the list at %d of %v", key, got, i, d.list)
				}
				if i >= 0 && use {
					e := d.list[i]
					d.list = append(slices.Delete(d.list, i, i+1), e)
				}
			default:
				was := map[ID]int{}
				clients := 0
				for c := ID(1); c <= 3; c++ {
					if was[c] = d.keys(c); was[c] > 0 {
						clients++
					}
				}
				got, made := k.Add(client, key)
				if made != (i < 0) {
					t.Fatalf("key %d made: %v, in the list at %d", key, made, i)
				}
				if made {
					*got = rng.Uint64()
				}
				if i >= 0 {
					e := d.list[i]
					d.list = append(slices.Delete(d.list, i, i+1), e)
					break
				}
				if len(d.list) == limit { // somebody has lost its oldest
					lost := slices.IndexFunc(d.list,
						func(e dumbEntry) bool { return k.Get(e.key, false) == nil })
					e := d.list[lost]
					if d.list[slices.IndexFunc(d.list,
						func(o dumbEntry) bool { return o.client == e.client })] != e {
						t.Fatalf("client %d lost a key that was not its oldest", e.client)
					}
					if most := max(was[1], was[2], was[3]); e.client != client && was[e.client] < most {
						t.Fatalf("client %d with %d keys lost one to client %d; another has %d", e.client,
							was[e.client], client, most)
					}
					if e.client != client && was[client]*clients >= limit {
						t.Fatalf("client %d has its share, %d of %d, and took another's", client, was[client],
							limit)
					}
					d.list = slices.Delete(d.list, lost, lost+1)
				}
				d.list = append(d.list, dumbEntry{client, key, *got})
			}
			if k.Len() != len(d.list) {
				t.Fatalf("%d keys, want %d", k.Len(), len(d.list))
			}
			for c := ID(1); c <= 3; c++ {
				want := slices.DeleteFunc(slices.Clone(d.list),
					func(e dumbEntry) bool { return e.client != c })
				k.Each(c, func(key ID, v *ID) bool {
					e := want[len(want)-1]
					if want = want[:len(want)-1]; e.key != key || e.value != *v {
						t.Fatalf("client %d has %d = %d, want %v", c, key, *v, e)
					}
					return true
				})
				if len(want) > 0 {
					t.Fatalf("client %d lacks %v", c, want)
				}
			}
			n := 0
			k.All(func(_, key ID, v *ID) bool {
				n++
				return d.at(key) >= 0 && d.list[d.at(key)].value == *v
			})
			if n != len(d.list) {
				t.Fatalf("%d of all, want %d", n, len(d.list))
			}
		}
	}
}

// Keys that are looked up as a client's are its own, also where another's has the same number.
func TestKeptOfAClient(t *testing.T) {
	k := NewKept[ID](4)
	for client := ID(1); client <= 3; client++ {
		v, made := k.AddOf(client, 9)
		if *v = client; !made {
			t.Fatalf("client %d finds another's", client)
		}
	}
	for client := ID(1); client <= 3; client++ {
		if v, made := k.AddOf(client, 9); made || *v != client || k.Of(client, 9, false) != v {
			t.Errorf("client %d has %d", client, *v)
		}
	}
	if k.Of(4, 9, false) != nil || k.Len() != 3 {
		t.Errorf("a client without keys finds one of %d", k.Len())
	}
}

// A client that adds a million keys loses its own, and takes no more memory than the limit.
func TestKeptUnderAFlood(t *testing.T) {
	k := NewKept[[40]byte](1000)
	for i := range ID(100) {
		k.Add(1, i)
	}
	for i := range ID(1_000_000) {
		k.Add(2, 1000+i)
	}
	for i := range ID(100) {
		if k.Get(i, false) == nil {
			t.Fatalf("key %d of the other client is forgotten", i)
		}
	}
	if k.Len() != 1000 || len(k.all) > 1000 {
		t.Errorf("%d keys in %d places, the limit is 1000", k.Len(), len(k.all))
	}
}

// Same calls, same evictions: nothing depends on the order of a map.
func TestKeptIsTheSameTwice(t *testing.T) {
	run := func() (left []ID) {
		rng := rand.New(rand.NewPCG(4, 2))
		k := NewKept[int](50)
		for range 5000 {
			k.Add(rng.Uint64N(40), rng.Uint64N(500))
		}
		k.All(func(_, key ID, _ *int) bool { left = append(left, key); return true })
		return left
	}
	if a, b := run(), run(); !slices.Equal(a, b) {
		t.Errorf("%v\n%v", a, b)
	}
}

// Whoever makes room is found without a look at every client, and is one who has most.
func TestRoomIsMadeByWhoHasMost(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	k := NewKept[int](200)
	for n := range ID(20_000) {
		client := 1 + ID(r.IntN(1+r.IntN(60)))
		if r.IntN(4) == 0 {
			k.Drop(1 + n - ID(r.IntN(300)))
		}
		before, most := map[ID]int{}, 0
		for id, o := range k.clients {
			before[id], most = o.keys, max(most, o.keys)
		}
		full := k.count == k.limit
		k.Add(client, 1+n)
		for id, had := range before {
			if o := k.clients[id]; id != client && (o == nil || o.keys < had) && (!full || had < most) {
				t.Fatalf("%d of %d keys: client %d of %d keys made room, and another has %d", k.count, k.limit, id,
					had, most)
			}
		}
		if k.count > 0 && (len(k.levels) <= k.most || k.levels[k.most] == nil) {
			t.Fatalf("nobody has %d keys", k.most)
		}
	}
}

func BenchmarkKeptOfManyClients(b *testing.B) {
	k := NewKept[int](1 << 16)
	for i := range ID(1 << 16) {
		k.Add(1+i/2, 1+i)
	}
	for i := ID(1 << 20); b.Loop(); i++ {
		k.Add(i, i)
	}
}
