package kv

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// dumbCache does what cache does with a list: the free blocks in order, each with what it holds.
type dumbCache struct {
	free   []int32
	refs   map[int32]int
	hash   map[int32]uint64
	newest map[uint64][]int32 // blocks with a hash, newest last
}

func (d *dumbCache) take() int32 {
	b := d.free[0]
	d.free = d.free[1:]
	d.forget(b)
	d.refs[b] = 1
	return b
}

func (d *dumbCache) forget(b int32) {
	if h, ok := d.hash[b]; ok {
		d.newest[h] = slices.DeleteFunc(d.newest[h], func(x int32) bool { return x == b })
		delete(d.hash, b)
	}
}

func (d *dumbCache) find(h uint64) (int32, bool) {
	l := d.newest[h]
	if len(l) == 0 {
		return 0, false
	}
	return l[len(l)-1], true
}

func (d *dumbCache) hold(b int32) {
	if d.refs[b] == 0 {
		d.free = slices.DeleteFunc(d.free, func(x int32) bool { return x == b })
	}
	d.refs[b]++
}

// release frees a request's blocks as vLLM does: in reverse, those with a hash behind all others, those
// without before them.
func (d *dumbCache) release(blocks []int32) {
	var empty []int32
	for _, b := range slices.Backward(blocks) {
		if d.refs[b]--; d.refs[b] > 0 {
			continue
		}
		if _, full := d.hash[b]; full {
			d.free = append(d.free, b)
		} else {
			empty = append(empty, b)
		}
	}
	d.free = slices.Concat(empty, d.free)
}

// The cache does the same as a dumb one, whatever is asked of it.
func TestCacheAgainstDumb(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "blocks")
		c := New(n, 4)
		d := &dumbCache{refs: map[int32]int{}, hash: map[int32]uint64{}, newest: map[uint64][]int32{}}
		for i := 1; i < n; i++ {
			d.free = append(d.free, int32(i))
		}
		var held [][]int32
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				if c.Free == 0 {
					t.Skip("full")
				}
				k := rapid.IntRange(1, c.Free).Draw(t, "k")
				got := c.Take(nil, k)
				for _, b := range got {
					if want := d.take(); b != want {
						t.Fatalf("took block %d, want %d", b, want)
					}
				}
				held = append(held, got)
			},
			"fill": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing held")
				}
				l := held[rapid.IntRange(0, len(held)-1).Draw(t, "which")]
				b, h := l[rapid.IntRange(0, len(l)-1).Draw(t, "block")],
					rapid.Uint64Range(1, 5).Draw(t, "hash")
				if _, full := d.hash[b]; !full {
					d.hash[b] = h
					d.newest[h] = append(d.newest[h], b)
				}
				c.Fill(b, h)
			},
			"hit": func(t *rapid.T) {
				hashes := rapid.SliceOfN(rapid.Uint64Range(1, 5), 1, 3).Draw(t, "hashes")
				hashes = slices.Compact(hashes)
				got := c.Find(nil, hashes)
				var want []int32
				for _, h := range hashes {
					b, ok := d.find(h)
					if !ok {
						break
					}
					want = append(want, b)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("found %v, want %v", got, want)
				}
				if len(got) == 0 {
					return
				}
				c.Hold(got)
				for _, b := range want {
					d.hold(b)
				}
				held = append(held, got)
			},
			"release": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing held")
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				c.Release(held[i])
				d.release(held[i])
				held = slices.Delete(held, i, i+1)
			},
			"": func(t *rapid.T) {
				var free []int32
				for b := c.blocks[0].next; b != 0; b = c.blocks[b].next {
					free = append(free, b)
				}
				if !slices.Equal(free, d.free) || c.Free != len(d.free) {
					t.Fatalf("free are %v (%d), want %v", free, c.Free, d.free)
				}
			},
		})
	})
}

// A finished request's blocks are forgotten last block first, requests in the order in which they ended.
func TestEvictionOrder(t *testing.T) {
	c := New(7, 4)
	first, second := c.Take(nil, 3), c.Take(nil, 3)
	for i, b := range append(slices.Clone(first), second...) {
		c.Fill(b, uint64(100+i))
	}
	c.Release(first)
	c.Release(second)
	var order []uint64
	for range 6 {
		order = append(order, c.blocks[c.blocks[0].next].hash)
		c.Take(nil, 1)
	}
	if got, want := fmt.Sprint(order), "[102 101 100 105 104 103]"; got != want {
		t.Errorf("forgotten in the order %s, want %s", got, want)
	}
}

// The cache gives up what a real server gave up, in the same order, step by step: 46 blocks of which only the
// order is known, and then 38 of those that it stored itself.
func TestEvictionAsRecorded(t *testing.T) {
	file, err := os.ReadFile("testdata/eviction.json")
	if err != nil {
		t.Fatal(err)
	}
	var steps []struct{ Removed, Stored []uint64 }
	if err := json.Unmarshal(file, &steps); err != nil {
		t.Fatal(err)
	}
	var before, all []uint64 // what the cache held, in the order in which it was given up
	for _, s := range steps {
		for _, h := range s.Removed {
			if all = append(all, h); len(before) < 46 {
				before = append(before, h)
			}
		}
	}
	var forgotten []uint64
	c := New(48, 32)
	held := c.Take(nil, 47)
	for i, h := range before {
		c.Fill(held[45-i], h)
	}
	c.Release(held) // the last block is not full
	c.Forgotten = func(hash uint64) { forgotten = append(forgotten, hash) }
	var blocks []int32
	for i, s := range steps {
		want := len(blocks) + len(s.Stored)
		n := len(s.Stored)
		if i%3 == 2 {
			n++ // the prompt's last block, which is not full
		}
		blocks = c.Take(blocks, n)
		for k, h := range s.Stored {
			c.Fill(blocks[want-len(s.Stored)+k], h)
		}
		if !slices.Equal(forgotten, s.Removed) {
			t.Errorf("step %d gives up %v, want %v", i, forgotten, s.Removed)
		}
		if forgotten = nil; i%3 == 2 {
			c.Release(blocks)
			blocks = nil
		}
	}
	if len(all) != 84 {
		t.Errorf("%d blocks given up in all", len(all))
	}
}

// A finished request's last block, which is not full, is taken before anything that could be found is given
// up; and whoever wants to know is told what was given up.
func TestEmptyBlocksFirst(t *testing.T) {
	var forgotten []uint64
	c := New(5, 4)
	c.Forgotten = func(hash uint64) { forgotten = append(forgotten, hash) }
	first, second := c.Take(nil, 2), c.Take(nil, 2)
	c.Fill(first[0], 100)
	c.Fill(second[0], 200)
	c.Release(first)
	c.Release(second)
	got := c.Take(nil, 4)
	if want := []int32{second[1], first[1], first[0], second[0]}; !slices.Equal(got, want) {
		t.Errorf("taken in the order %v, want %v", got, want)
	}
	if !slices.Equal(forgotten, []uint64{100, 200}) {
		t.Errorf("forgotten: %v", forgotten)
	}
}

// A block that is stored twice is found until both copies are gone.
func TestTwoCopies(t *testing.T) {
	c := New(4, 4)
	a, b := c.Take(nil, 1), c.Take(nil, 1)
	c.Fill(a[0], 7)
	c.Fill(b[0], 7)
	c.Release(b)
	c.Take(nil, 2) // the free one, then b
	if got := c.Find(nil, []uint64{7}); !slices.Equal(got, a) {
		t.Errorf("found %v, want the copy in use %v", got, a)
	}
}
