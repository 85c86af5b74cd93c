package seat

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// returning is a table that has learned that sessions come back after ten seconds, and an agent whose cache
// of a thousand blocks holds idle ones of ten blocks each, the first idle longest.
func returning(sessions int) (*Table, *Agent, []Touch) {
	p := on()
	p.Touches = true
	x := New(p, 1<<12)
	a := x.Enter(0, 1000)
	serve := func(now time.Duration, key uint64) {
		r := x.Come(now, fmt.Sprint(key), key)
		x.Award(now, &r, a, 10, 0)
		x.Served(now, &r, 10)
		x.Gone(now, &r)
	}
	now := time.Duration(0)
	for turn := range time.Duration(400) {
		now = turn * 10 * time.Second
		serve(now, 1)
	}
	var held []Touch
	for i := range sessions {
		serve(now, uint64(100+i))
		held = append(held, Touch{Key: uint64(100 + i), Blocks: 10})
	}
	return x, a, held
}

func given(held []Touch) func(func(uint64, int) bool) {
	return func(yield func(uint64, int) bool) {
		for _, h := range held {
			if !yield(h.Key, h.Blocks) {
				return
			}
		}
	}
}

const learned = 3990 * time.Second // when the sessions of returning were served

// What is about to be pushed out and likely to come back is touched, what comes back no more is not, and
// never more than the caps allow.
func TestTouches(t *testing.T) {
	now := learned + 8*time.Second
	task := Incoming{New: 40, Must: 40, Block: 10 * time.Millisecond, Touch: time.Millisecond}

	x, a, held := returning(50)
	task.Idle = given(held)
	got := x.Touches(now, a, &task)
	if len(got) != 12 || got[0] != held[0] {
		t.Errorf("%d sessions are touched, want the 12 of 10 blocks that 40 new ones allow", len(got))
	}
	if a.price <= firstPrice {
		t.Errorf("more is worth keeping than is touched, and the price falls to %v", a.price)
	}

	x, a, held = returning(50)
	x.End(now, held[0].Key)
	held[1].Blocks = 4
	task.Idle = given(held)
	got = x.Touches(now, a, &task)
	if slices.Contains(got, held[0]) || slices.Contains(got, held[1]) || !slices.Contains(got, held[2]) {
		t.Errorf("touched: %v; want neither one that has ended nor one of which less than half is left", got)
	}

	x, a, held = returning(50)
	task.Idle = given(held)
	task.Pinned = 590
	if got := x.Touches(now, a, &task); len(got) != 1 {
		t.Errorf("590 of 600 blocks are pinned, and %d sessions of 10 are touched", len(got))
	}
	task.Pinned = 0

	task.Doubt = 25 // three sessions' blocks, of which some may be there
	task.Idle = given(held)
	if got := x.Touches(now, a, &task); len(got) == 0 || got[0] != held[3] {
		t.Errorf("of the 25 blocks that go first nobody knows whether they are there, and these are touched: %v",
			got)
	}
	task.Doubt = 0

	task.Block = 50 * time.Microsecond // to compute ten anew takes half of a touch
	if got := x.Touches(now, a, &task); len(got) != 0 {
		t.Errorf("%d sessions are touched that are computed sooner", len(got))
	}
	task.Block = 10 * time.Millisecond

	for range 1000 {
		task.Idle = given(nil)
		x.Touches(now, a, &task)
	}
	if a.price > 2*leastPrice {
		t.Errorf("nothing was worth keeping for long, and the price is %v", a.price)
	}
}

// Nothing is touched where tasks that run have as many blocks as may be pinned, nor while the agent has no
// time to spare, nor for a while after one was missed.
func TestNothingIsTouchedWhereItWouldHarm(t *testing.T) {
	now := learned + 8*time.Second
	x, a, _ := returning(1)
	if !x.MayTouch(now, a) {
		t.Fatal("an idle agent may not be touched")
	}
	a.running = 600
	if x.MayTouch(now, a) {
		t.Error("six tenths of the blocks run, and more are pinned")
	}
	a.running = 0
	for a.load < x.Spare.Seconds() { // step by step, and off with the first that is above the line
		if !x.MayTouch(now, a) {
			t.Fatalf("%v s to compute on the mean, and may not be touched", a.load)
		}
		now += time.Second
		a.back = now + 2*time.Second
		a.pass(now)
	}
	if x.MayTouch(now, a) {
		t.Errorf("%v s to compute on the mean, and touched", a.load)
	}
	now += time.Minute
	if !x.MayTouch(now, a) {
		t.Errorf("idle for a minute, and may not be touched")
	}
	x.Touched(now, a, 1, 10, 8)
	if !x.MayTouch(now, a) {
		t.Error("two blocks fewer than were believed are a miss")
	}
	for range 2 {
		if x.Touched(now, a, 1, 10, 7); !x.MayTouch(now, a) {
			t.Error("one or two that miss may be touches that came too late")
		}
	}
	x.Touched(now, a, 1, 10, 7)
	if x.MayTouch(now+29*time.Second, a) || !x.MayTouch(now+31*time.Second, a) {
		t.Error("after three misses nothing is touched for half a minute, and then again")
	}
	now += time.Minute
	x.Touched(now, a, 1, 10, 4)
	if x.MayTouch(now+29*time.Second, a) {
		t.Error("nothing is touched after one of which more than half was gone")
	}
}

// However many sessions are held and whatever is new, the caps hold.
func TestCapsOfTouches(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 4))
	for range 300 {
		x, a, held := returning(random.IntN(120))
		task := Incoming{New: 1 + random.IntN(400), Must: random.IntN(400), Block: time.Second,
			Touch: time.Millisecond, Pinned: random.IntN(700), Idle: given(held)}
		a.running = random.IntN(700)
		blocks := 0
		got := x.Touches(learned+8*time.Second, a, &task)
		for _, g := range got {
			blocks += g.Blocks
		}
		if len(got) > mostTouches || blocks > mostTouched*task.New ||
			len(got) > 0 && blocks+a.running+task.Pinned > 600 {
			t.Fatalf("%d sessions of %d blocks are touched for %d new ones beside %d", len(got), blocks, task.New,
				a.running+task.Pinned)
		}
		if a.price < leastPrice || a.price > mostPrice {
			t.Fatalf("price %v", a.price)
		}
	}
}

// What is two blocks short is no miss, however small the session: touches go on.
func TestAFewBlocksLessAreNoMiss(t *testing.T) {
	for _, c := range []struct{ believed, found int }{{3, 1}, {2, 0}, {1, 0}} {
		x, a, _ := returning(1)
		x.Touched(learned+8*time.Second, a, 1, c.believed, c.found)
		if !x.MayTouch(learned+8*time.Second, a) {
			t.Errorf("of %d blocks %d were found, and nothing is touched any more", c.believed, c.found)
		}
	}
}

// Who says of each touch that two blocks were gone, and of every tenth that nearly half was, is paid for
// computing them. That is not how caches lose blocks, so it is found out: what it is paid for anew in an hour
// is a small part of what it would have been. An agent whose touches miss the last block, at times or always,
// and rarely a tenth of a session, goes on being touched.
func TestWhoComputesTooMuchAnewIsNotTouched(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	for _, c := range []struct {
		name   string
		blocks func(r *rand.Rand) int
		short  func(r *rand.Rand, i, blocks int) int
		honest bool
	}{
		{"two less, and half of every tenth", func(r *rand.Rand) int { return 20 + r.IntN(200) },
			func(_ *rand.Rand, i, blocks int) int {
				if i%10 == 9 {
					return blocks / 2
				}
				return min(2, blocks)
			}, false},
		{"two less of short sessions", func(r *rand.Rand) int { return 4 + r.IntN(20) },
			func(*rand.Rand, int, int) int { return 2 }, false},
		{"a fifth of every fourth", func(r *rand.Rand) int { return 10 + r.IntN(100) },
			func(_ *rand.Rand, i, blocks int) int { return min(i%4/3*blocks, blocks/5) }, false},
		{"the last block at times, and rarely a tenth", func(r *rand.Rand) int { return 2 + r.IntN(200) },
			func(r *rand.Rand, i, blocks int) int {
				if i%1000 == 999 { // three of twenty would be no accident
					return blocks / 10
				}
				return max(0, 1-r.IntN(12))
			}, true},
		{"the last block of each, as of engines that draft by EAGLE", func(r *rand.Rand) int { return 1 + r.IntN(40) },
			func(*rand.Rand, int, int) int { return 1 }, true},
		{"small sessions whose last block is often gone", func(r *rand.Rand) int { return 1 + r.IntN(4) },
			func(r *rand.Rand, _, _ int) int { return max(0, 1-r.IntN(6)) }, true},
	} {
		r := rand.New(rand.NewPCG(seed, 1))
		x, a, _ := returning(1)
		paid, would, touches := 0, 0, 0
		for i := range 36_000 { // ten a second
			now := learned + time.Duration(i)*100*time.Millisecond
			blocks := c.blocks(r)
			short := min(c.short(r, i, blocks), blocks)
			would += short
			if x.MayTouch(now, a) {
				paid, touches = paid+short, touches+1
				x.Touched(now, a, 1, blocks, blocks-short)
			}
		}
		t.Logf("%s: touched %d times, paid for %d of %d blocks", c.name, touches, paid, would)
		if c.honest && touches < 36_000 || !c.honest && 4*paid > would {
			t.Errorf("%s: touched %d times of 36000, and paid for %d of %d blocks that it says were gone", c.name,
				touches, paid, would)
		}
	}
}
