package bounded

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// list is a Cache as a list, what was used last at the end.
type list struct {
	most, each int
	all        []item
	used       map[int]int // when an owner was, by step
	gone       []int
}

type item struct{ owner, key, weight, value int }

func (l *list) at(key int) int {
	return slices.IndexFunc(l.all, func(x item) bool { return x.key == key })
}

func (l *list) weight(of int) (n int) {
	for _, x := range l.all {
		if of < 0 || x.owner == of {
			n += x.weight
		}
	}
	return n
}

// evict forgets an owner's oldest.
func (l *list) evict(of int) {
	i := slices.IndexFunc(l.all, func(x item) bool { return x.owner == of })
	l.gone = append(l.gone, l.all[i].key)
	l.all = slices.Delete(l.all, i, i+1)
}

// heaviest is the owner with most, and of those the one used longest ago.
func (l *list) heaviest() (of int) {
	of = -1
	for _, x := range l.all {
		if of < 0 || l.weight(x.owner) > l.weight(of) ||
			l.weight(x.owner) == l.weight(of) && l.used[x.owner] < l.used[of] {
			of = x.owner
		}
	}
	return of
}

func (l *list) put(x item) bool {
	if i := l.at(x.key); i >= 0 {
		l.all = slices.Delete(l.all, i, i+1)
	}
	if x.weight > l.each {
		return false
	}
	for l.weight(x.owner)+x.weight > l.each {
		l.evict(x.owner)
	}
	for l.weight(-1)+x.weight > l.most {
		switch most, own := l.heaviest(), l.weight(x.owner); {
		case own+x.weight <= l.weight(most):
			l.evict(most)
		case own == 0:
			return false
		default:
			l.evict(x.owner)
		}
	}
	l.all = append(l.all, x)
	return true
}

// A cache has what the list has after the same calls, shows the same as gone, and is never beyond a limit.
// Nobody who has no more than its share loses anything by what another adds.
func TestACacheAgainstAList(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 60 {
		most, heavy := 1+r.IntN(40), 1+r.IntN(9)
		each := r.IntN(most + 1)
		c, l := New[int, int, int](most, each), list{most: most, each: each, used: map[int]int{}}
		if each == 0 {
			l.each = most
		}
		var gone []int
		c.Gone = func(key int, v *int) {
			if i := l.at(key); i >= 0 && l.all[i].value != *v {
				t.Fatalf("%d is shown as %d, want %d", key, *v, l.all[i].value)
			}
			gone = append(gone, key)
		}
		for step := range 400 {
			x := item{r.IntN(4), r.IntN(30), 1 + r.IntN(heavy), r.Int()}
			i := l.at(x.key)
			before := map[int]int{}
			for of := range 4 {
				before[of] = l.weight(of)
			}
			gone, l.gone = nil, nil
			switch r.IntN(10) {
			case 0:
				if c.Drop(x.key); i >= 0 {
					l.all = slices.Delete(l.all, i, i+1)
				}
			case 1:
				c.DropOwner(x.owner)
				l.all = slices.DeleteFunc(l.all, func(y item) bool { return y.owner == x.owner })
			case 2:
				to := r.IntN(most + 1)
				for c.Shrink(to); l.weight(-1) > to; {
					l.evict(l.heaviest())
				}
			case 3:
				if v := c.Peek(x.key); (v != nil) != (i >= 0) || v != nil && *v != l.all[i].value {
					t.Fatalf("%d is found: %v, it is at %d of %v", x.key, v, i, l.all)
				}
			case 4:
				v := c.Get(x.key)
				if (v != nil) != (i >= 0) || v != nil && *v != l.all[i].value {
					t.Fatalf("%d is found: %v, it is at %d of %v", x.key, v, i, l.all)
				}
				if i >= 0 {
					x = l.all[i]
					l.all, l.used[x.owner] = append(slices.Delete(l.all, i, i+1), x), step
				}
			case 5:
				v, made := c.Add(x.owner, x.key)
				if made != (i < 0) {
					t.Fatalf("%d is made: %v, it was at %d", x.key, made, i)
				}
				if i >= 0 {
					x = l.all[i]
					l.all = append(slices.Delete(l.all, i, i+1), x)
				} else {
					x.weight = 1
					l.put(x)
					*v = x.value
				}
				l.used[x.owner] = step
			default:
				got, want := c.Put(x.owner, x.key, x.value, x.weight), l.put(x)
				if got != want {
					t.Fatalf("%+v is put: %v, want %v", x, got, want)
				}
				if want {
					l.used[x.owner] = step
				}
				for of, had := range before {
					if share := most / 4; of != x.owner && had <= share && l.weight(of) < had &&
						(i < 0 || l.at(x.key) >= 0 && l.all[l.at(x.key)].owner == of) {
						t.Fatalf("owner %d had %d of %d and lost by what %d added", of, had, most, x.owner)
					}
				}
			}
			if !slices.Equal(gone, l.gone) {
				t.Fatalf("%v are gone, want %v", gone, l.gone)
			}
			same(t, c, &l)
		}
	}
}

// same fails the test where a cache does not have what a list has, in its order.
func same(t *testing.T, c *Cache[int, int, int], l *list) {
	t.Helper()
	if c.Len() != len(l.all) || c.Weight() != l.weight(-1) || c.Weight() > l.most {
		t.Fatalf("%d values weigh %d, want %d of %d, at most %d", c.Len(), c.Weight(), len(l.all),
			l.weight(-1), l.most)
	}
	for of := range 4 {
		want := slices.DeleteFunc(slices.Clone(l.all), func(x item) bool { return x.owner != of })
		slices.Reverse(want)
		for key, v := range c.Of(of) {
			if len(want) == 0 || want[0].key != key || want[0].value != *v {
				t.Fatalf("owner %d has %d = %d, want %v", of, key, *v, want)
			}
			want = want[1:]
		}
		if len(want) > 0 || l.weight(of) > l.each {
			t.Fatalf("owner %d lacks %v, weighs %d", of, want, l.weight(of))
		}
	}
	n := 0
	for key, v := range c.All() {
		if n++; l.at(key) < 0 || l.all[l.at(key)].value != *v {
			t.Fatalf("%d = %d is none of %v", key, *v, l.all)
		}
	}
	if n != len(l.all) {
		t.Fatalf("%d of all, want %d", n, len(l.all))
	}
	if key, v := c.Next(); v == nil != (n == 0) {
		t.Fatalf("next %d of %d", key, n)
	} else if v != nil {
		first := l.all[slices.IndexFunc(l.all, func(x item) bool { return x.owner == l.heaviest() })]
		if key != first.key {
			t.Fatalf("next %d, want %d", key, first.key)
		}
	}
}

// An owner that adds a million keys loses its own, and they take no more places than there may be.
func TestAFloodForgetsItsOwn(t *testing.T) {
	c := New[string, int, [40]byte](1000, 0)
	for i := range 100 {
		c.Add("quiet", i)
	}
	for i := range 1_000_000 {
		c.Add("flood", 1000+i)
	}
	for i := range 100 {
		if c.Peek(i) == nil {
			t.Fatalf("key %d of the other owner is forgotten", i)
		}
	}
	if c.Len() != 1000 || c.Places() > 1000 {
		t.Errorf("%d keys in %d places, the limit is 1000", c.Len(), c.Places())
	}
}

// Where each owner has one value, what was used longest ago goes first.
func TestOwnersOfOneValueGoByUse(t *testing.T) {
	c := New[int, int, int](3, 0)
	for _, k := range []int{1, 2, 3} {
		c.Put(k, k, k, 1)
	}
	c.Get(1)
	c.Put(4, 4, 4, 1)
	for k, want := range []bool{1: true, 2: false, 3: true, 4: true} {
		if got := c.Peek(k) != nil; got != want {
			t.Errorf("%d is there: %v, want %v", k, got, want)
		}
	}
}

// Where nothing may be remembered nothing is.
func TestACacheWithoutRoom(t *testing.T) {
	for _, most := range []int{0, -1} {
		c := New[int, int, int](most, 0)
		if v, made := c.Add(1, 1); v == nil || !made || c.Put(1, 2, 3, 1) || c.Len() != 0 {
			t.Errorf("at most %d: %v, %v, %d are there", most, v, made, c.Len())
		}
	}
}

func BenchmarkCacheOfManyOwners(b *testing.B) {
	for _, owners := range []int{1, 1 << 15} {
		b.Run(fmt.Sprint(owners), func(b *testing.B) {
			c := New[int, int, int](1<<16, 0)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.Add(i%owners, i)
			}
		})
	}
}
