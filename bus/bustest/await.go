// Package bustest has what tests of several packages need: patience, dispatches, and numbers that are forged.
package bustest

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"
)

// Buffer collects what several goroutines write.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Take returns what was written since it was called last.
func (b *Buffer) Take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.b.Reset()
	return b.b.String()
}

// Patience bounds how long a test waits for what must happen. A slow machine needs it; a fast one does not.
const Patience = time.Minute

// Eventually polls until ok, ever less often, and fails the test if that takes too long.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(Patience)
	for wait := time.Millisecond; !ok(); wait = min(2*wait, 16*time.Millisecond) {
		select {
		case <-time.After(wait):
		case <-deadline:
			t.Fatalf("after %v still not: %s", Patience, what)
		}
	}
}

// Receive takes one value from a channel, and fails the test if none comes.
func Receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-ch:
		if !ok {
			t.Fatalf("%s: the channel was closed", what)
		}
		return v
	case <-time.After(Patience):
		t.Fatalf("%s: nothing came in %v", what, Patience)
	}
	panic("unreachable")
}

// Within is a context that ends with a test's patience.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}
