package natsbus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// counting counts the writes on a connection.
type counting struct {
	net.Conn
	mu sync.Mutex
	n  int
}

func (c *counting) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// What many write while the connection is busy goes out in one piece, each writer's words in their order.
func TestWritesGoOutTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := &counting{Conn: near}
		g := newGathered(c)
		const writers, each = 20, 50
		fmt.Fprint(g, "begin\n")
		synctest.Wait() // it is being written, and nobody reads
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					fmt.Fprintf(g, "%d %d\n", w, i)
				}
			})
		}
		all.Wait()
		said := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(far)
			said <- b
		}()
		synctest.Wait()
		if c.n != 2 {
			t.Errorf("%d writes, want 2: the first, and all that came while it was under way", c.n)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		b := <-said
		next := map[int]int{}
		lines := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
		for _, line := range lines[1:] {
			var w, i int
			if _, err := fmt.Sscan(string(line), &w, &i); err != nil || next[w] != i {
				t.Fatalf("%q: want %d of writer %d next (%v)", line, next[w], w, err)
			}
			next[w]++
		}
		if len(lines) != 1+writers*each {
			t.Errorf("%d lines arrived, want %d", len(lines), 1+writers*each)
		}
	})
}

// Close writes what is pending, unless nobody takes it.
func TestCloseOfAGatheredConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		g := newGathered(near)
		fmt.Fprint(g, "last words")
		said := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(far)
			said <- b
		}()
		g.Close()
		if b := <-said; string(b) != "last words" {
			t.Errorf("heard %q", b)
		}
		if _, err := g.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}

		near, _ = net.Pipe()
		g = newGathered(near)
		fmt.Fprint(g, "to nobody")
		synctest.Wait()
		from := time.Now()
		g.Close()
		if d := time.Since(from); d != closeWithin {
			t.Errorf("closed after %v, want %v", d, closeWithin)
		}
	})
}

// A peer that takes nothing makes writers wait, not memory grow; and then fails them all.
func TestAPeerThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		g := newGathered(near)
		defer g.Close()
		from := time.Now()
		piece := make([]byte, 64<<10)
		var err error
		n := 0
		for ; err == nil; n++ {
			_, err = g.Write(piece)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(from) != writeWithin {
			t.Errorf("after %v: %v, want the deadline after %v", time.Since(from), err, writeWithin)
		}
		if most := 2*maxGathered/len(piece) + 2; n > most {
			t.Errorf("%d pieces of %d bytes were taken, want at most %d", n, len(piece), most)
		}
	})
}
