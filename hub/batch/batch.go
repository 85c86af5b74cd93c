// Package batch closes a round when it is full or its oldest task has waited enough.
package batch

import (
	"errors"
	"fmt"
	"time"
)

// Rule says when a batch is cleared.
type Rule struct {
	MaxBatch int           `yaml:"max_batch"` // tasks that close a batch, and the most that one round holds
	MaxWait  time.Duration `yaml:"max_wait"`  // wait of the oldest task that closes a batch
	// close at once while slots outnumber tasks: then nobody competes and waiting is pure cost
	Eager bool `yaml:"eager"`
}

// Default is the paper's batch (iemas C.2.1: 16 tasks or 10 ms), closed early where nothing contends.
func Default() Rule { return Rule{MaxBatch: 16, MaxWait: 10 * time.Millisecond, Eager: true} }

// MostBatch bounds MaxBatch: edges of a round, and so the bytes of its record, grow with it.
const MostBatch = 1024

// Validate judges a rule and changes nothing.
func (r Rule) Validate() error {
	var errs []error
	if r.MaxBatch < 1 || r.MaxBatch > MostBatch {
		errs = append(errs, fmt.Errorf("max_batch: %d is not from 1 to %d", r.MaxBatch, MostBatch))
	}
	if r.MaxWait < 0 || r.MaxWait > time.Minute {
		errs = append(errs, fmt.Errorf("max_wait: %v is not from 0 to 1m", r.MaxWait))
	}
	return errors.Join(errs...)
}

// Batch holds tasks that a round could still place, in the order in which they are considered. The
// zero Batch is not usable: see [New]. Its memory is that of what it holds; who adds bounds the number.
type Batch[T comparable] struct {
	rule  Rule
	items []item[T]
	head  int
}

type item[T comparable] struct {
	task    T
	arrived time.Time
}

// New returns an empty batch.
func New[T comparable](r Rule) *Batch[T] { return &Batch[T]{rule: r} }

// Set changes the rule for what is held and what comes.
func (b *Batch[T]) Set(r Rule) { b.rule = r }

// Len is the number of tasks held.
func (b *Batch[T]) Len() int { return len(b.items) - b.head }

// Add puts a task at the end of the queue. A task that comes back, refused or outbid, brings its first
// arrival.
func (b *Batch[T]) Add(t T, arrived time.Time) {
	if b.head > 0 && len(b.items) == cap(b.items) {
		n := copy(b.items, b.items[b.head:])
		clear(b.items[n:])
		b.items, b.head = b.items[:n], 0
	}
	b.items = append(b.items, item[T]{t, arrived})
}

// Remove takes one task out and reports whether it was there.
func (b *Batch[T]) Remove(t T) bool {
	for i := b.head; i < len(b.items); i++ {
		if b.items[i].task == t {
			copy(b.items[i:], b.items[i+1:])
			b.items[len(b.items)-1] = item[T]{}
			b.items = b.items[:len(b.items)-1]
			return true
		}
	}
	return false
}

// Due reports whether the batch closes now, with so many free slots. Without a free slot it never does.
func (b *Batch[T]) Due(now time.Time, free int) bool {
	n := b.Len()
	switch {
	case n == 0 || free <= 0:
		return false
	case b.rule.Eager && n <= free:
		return true
	case n >= b.rule.MaxBatch:
		return true
	}
	return !now.Before(b.Deadline())
}

// Deadline is when the oldest task will have waited enough; zero for an empty batch.
func (b *Batch[T]) Deadline() time.Time {
	if b.Len() == 0 {
		return time.Time{}
	}
	oldest := b.items[b.head].arrived
	for _, it := range b.items[b.head:] {
		if it.arrived.Before(oldest) {
			oldest = it.arrived
		}
	}
	return oldest.Add(b.rule.MaxWait)
}

// Take removes and appends to dst the tasks of the next round: the first MaxBatch of the queue.
func (b *Batch[T]) Take(dst []T) []T {
	n := min(b.Len(), b.rule.MaxBatch)
	for i := b.head; i < b.head+n; i++ {
		dst = append(dst, b.items[i].task)
		b.items[i] = item[T]{}
	}
	b.head += n
	if b.Len() == 0 {
		b.items, b.head = b.items[:0], 0
	}
	return dst
}
