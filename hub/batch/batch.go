// Package batch closes a round when it is full or its oldest task has waited enough.
package batch

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"time"
)

// Rule says when a batch is cleared.
type Rule struct {
	// tasks that a round at posted prices holds at most; any other plans for all who wait
	MaxBatch int           `yaml:"max_batch"`
	ClosesAt int           `yaml:"closes_at"` // tasks that close a batch, or max_batch where that is fewer
	MaxWait  time.Duration `yaml:"max_wait"`  // wait of the oldest task that closes a batch
	// close at once while slots outnumber tasks: then nobody competes and waiting is pure cost
	Eager bool `yaml:"eager"`
	// How long after a round the next may be held where tasks compete: so long for each of them, max_wait
	// at most; 0: at once. A round looks at all who wait, which takes some 2 us each, and in a crowd every
	// end of an answer is news.
	Apart time.Duration `yaml:"apart"`
}

// Default closes batches as the paper does (iemas C.2.1: 16 tasks or 10 ms), and at once where nothing
// contends. A round of 512 tasks for 64 slots is solved well within that window. Rounds of up to 100 tasks
// take some 2 % of a hub's time.
func Default() Rule {
	return Rule{MaxBatch: 512, ClosesAt: 16, MaxWait: 10 * time.Millisecond, Eager: true,
		Apart: 100 * time.Microsecond}
}

// MostBatch bounds MaxBatch: edges of a round, and so the bytes of its record, grow with it.
const MostBatch = 1024

// Validate judges a rule and changes nothing.
func (r Rule) Validate() error {
	var errs []error
	for _, n := range []struct {
		name string
		v    int
	}{{"max_batch", r.MaxBatch}, {"closes_at", r.ClosesAt}} {
		if n.v < 1 || n.v > MostBatch {
			errs = append(errs, fmt.Errorf("%s: %d is not from 1 to %d", n.name, n.v, MostBatch))
		}
	}
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"max_wait", r.MaxWait}, {"apart", r.Apart}} {
		if d.v < 0 || d.v > time.Minute {
			errs = append(errs, fmt.Errorf("%s: %v is not from 0 to 1m", d.name, d.v))
		}
	}
	return errors.Join(errs...)
}

// Batch holds the tasks that wait, by arrival: those that a round could still place, and those that were
// left when last considered and wait for news. The zero Batch is not usable: see [New]. Its memory is that of
// what it holds; who adds bounds the number.
type Batch[T comparable] struct {
	rule Rule
	due  []item[T]
	left []item[T]
	old  []item[T]     // memory for Wake
	last time.Time     // when a batch was last cleared
	took time.Duration // that a round took lately
}

type item[T comparable] struct {
	task    T
	arrived time.Time
}

// New returns an empty batch.
func New[T comparable](r Rule) *Batch[T] { return &Batch[T]{rule: r} }

// Set changes the rule for what is held and what comes.
func (b *Batch[T]) Set(r Rule) { b.rule = r }

// Len is the number of tasks that a round could still place.
func (b *Batch[T]) Len() int { return len(b.due) }

// All is the number of those and of the tasks that wait for news.
func (b *Batch[T]) All() int { return len(b.due) + len(b.left) }

// Add lets a task wait for the next round, behind all that came before it and as late. A task that comes
// back, refused by an agent, brings its first arrival.
func (b *Batch[T]) Add(t T, arrived time.Time) { b.due = insert(b.due, t, arrived) }

// Leave lets a task wait for news.
func (b *Batch[T]) Leave(t T, arrived time.Time) {
	b.left = insert(b.left, t, arrived)
}

func insert[T comparable](items []item[T], t T, arrived time.Time) []item[T] {
	if n := len(items); n == 0 || !items[n-1].arrived.After(arrived) {
		return append(items, item[T]{t, arrived})
	}
	i := sort.Search(len(items), func(i int) bool { return items[i].arrived.After(arrived) })
	return slices.Insert(items, i, item[T]{t, arrived})
}

// News has all who were left considered again.
func (b *Batch[T]) News() { b.Wake() }

// Took says how long a round took: for twice as long none of tasks that compete is held, or a hub would do
// nothing else.
func (b *Batch[T]) Took(d time.Duration) { b.took = min(max(0, d), time.Second) }

// Wake has all who were left considered again at once.
func (b *Batch[T]) Wake() {
	if len(b.left) > 0 {
		b.add(b.left)
		clear(b.left)
		b.left = b.left[:0]
	}
}

// add adds some that were left.
func (b *Batch[T]) add(left []item[T]) {
	all := slices.AppendSeq(b.old[:0], merged(b.due, left))
	clear(b.due)
	b.old, b.due = b.due[:0], all
}

// merged are two lists by arrival; of those who came at once, left first.
func merged[T comparable](due, left []item[T]) iter.Seq[item[T]] {
	return func(yield func(item[T]) bool) {
		for len(due)+len(left) > 0 {
			from := &due
			if len(due) == 0 || len(left) > 0 && !left[0].arrived.After(due[0].arrived) {
				from = &left
			}
			if !yield((*from)[0]) {
				return
			}
			*from = (*from)[1:]
		}
	}
}

// Remove takes one task out and reports whether it was there.
func (b *Batch[T]) Remove(t T) bool {
	for _, list := range []*[]item[T]{&b.due, &b.left} {
		if i := slices.IndexFunc(*list, func(it item[T]) bool { return it.task == t }); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
			return true
		}
	}
	return false
}

// Each shows all tasks by arrival, at most as many as wait: those that a round could place, and those left.
func (b *Batch[T]) Each(show func(t T, arrived time.Time)) {
	for it := range merged(b.due, b.left) {
		show(it.task, it.arrived)
	}
}

// AnyLeft reports whether any of those left is of a kind.
func (b *Batch[T]) AnyLeft(is func(T) bool) bool {
	return slices.ContainsFunc(b.left, func(it item[T]) bool { return is(it.task) })
}

// Latest finds the last to arrive of those that wait and suit; where several came at once, of those to be
// considered before those left, and of each the last.
func (b *Batch[T]) Latest(suits func(T) bool) (latest T, ok bool) {
	var arrived time.Time
	for _, list := range [][]item[T]{b.due, b.left} {
		for _, it := range slices.Backward(list) {
			if suits(it.task) {
				if !ok || it.arrived.After(arrived) {
					latest, arrived, ok = it.task, it.arrived, true
				}
				break
			}
		}
	}
	return latest, ok
}

// Due reports whether the batch closes now, with so many free slots. Without a free slot it never does.
func (b *Batch[T]) Due(now time.Time, free int) bool {
	n := b.Len()
	switch {
	case n == 0 || free <= 0:
		return false
	case b.rule.Eager && n <= free:
		return true
	case now.Before(b.next()) && !now.Before(b.last):
		return false
	}
	return b.full() || !now.Before(b.Deadline())
}

// full reports whether a batch closes by how many there are.
func (b *Batch[T]) full() bool { return b.Len() >= min(b.rule.ClosesAt, b.rule.MaxBatch) }

// next is when the next batch of tasks that compete may close.
func (b *Batch[T]) next() time.Time {
	return b.last.Add(max(2*b.took, min(b.rule.MaxWait, time.Duration(b.Len())*b.rule.Apart)))
}

// Deadline is when the batch closes if there are free slots and nothing else happens: the oldest task will
// have waited enough then, and the last batch be long enough ago. It is zero for an empty batch.
func (b *Batch[T]) Deadline() time.Time {
	if b.Len() == 0 {
		return time.Time{}
	}
	at := b.due[0].arrived.Add(b.rule.MaxWait)
	if next := b.next(); b.full() || next.After(at) {
		return next
	}
	return at
}

// Cleared notes when a batch was taken to be cleared: see Rule.Apart.
func (b *Batch[T]) Cleared(now time.Time) { b.last = now }

// Take removes and appends to dst the tasks of the next round, by arrival: the first most of those that it
// could place.
func (b *Batch[T]) Take(dst []T, most int) []T {
	most = min(most, len(b.due))
	for _, it := range b.due[:most] {
		dst = append(dst, it.task)
	}
	b.due = slices.Delete(b.due, 0, most)
	return dst
}
