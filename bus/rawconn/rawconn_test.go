package rawconn

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// pair is a connection of this package and the net package's own at its other end.
func pair(t testing.TB) (ours, other net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	came := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		came <- c
	}()
	if ours, err = (Dialer{}).Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if other = <-came; other == nil {
		t.FailNow()
	}
	if raced {
		ours = wrap(ours)
	}
	t.Cleanup(func() { ours.Close(); other.Close() })
	return ours, other
}

// The Go project's own suite for connections: reads, writes, deadlines, closing, all of them at once.
func TestConn(t *testing.T) {
	for name, swap := range map[string]bool{"ours": false, "its other end": true} {
		t.Run(name, func(t *testing.T) {
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				a, b := pair(t)
				stop := func() { a.Close(); b.Close() }
				if swap {
					a, b = b, a
				}
				return a, b, stop, nil
			})
		})
	}
}

// More than a socket's buffers hold goes through whole, both ways at once, and writers do not mix.
func TestMuchGoesThrough(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	data := make([]byte, 8<<20)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	ours, other := pair(t)
	var wg sync.WaitGroup
	for _, ends := range [][2]net.Conn{{ours, other}, {other, ours}} {
		wg.Go(func() {
			if n, err := ends[0].Write(data); n != len(data) || err != nil {
				t.Errorf("wrote %d, %v", n, err)
			}
		})
		wg.Go(func() {
			got := make([]byte, len(data))
			if _, err := io.ReadFull(ends[1], got); err != nil || !bytes.Equal(got, data) {
				t.Errorf("not what was written: %v", err)
			}
		})
	}
	wg.Wait()

	const writers, each = 8, 4096
	for w := range writers {
		wg.Go(func() {
			if _, err := ours.Write(bytes.Repeat([]byte{byte(w)}, each*64)); err != nil {
				t.Error(err)
			}
		})
	}
	got := make([]byte, writers*each*64)
	if _, err := io.ReadFull(other, got); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for at := 0; at < len(got); at += each * 64 {
		if piece := got[at : at+each*64]; bytes.Count(piece, piece[:1]) != len(piece) {
			t.Fatalf("the writes of several are mixed at %d", at)
		}
	}
}

// Whoever decides by the net package's errors must not see a difference.
func TestErrorsAreTheNetPackages(t *testing.T) {
	ours, other := pair(t)
	ours.SetReadDeadline(time.Now().Add(-time.Second))
	_, err := ours.Read(make([]byte, 1))
	var wide net.Error
	if !errors.As(err, &wide) || !wide.Timeout() {
		t.Errorf("after its deadline: %v", err)
	}
	ours.SetReadDeadline(time.Time{})

	other.(*net.TCPConn).SetLinger(0) // a reset
	other.Close()
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read of a connection that was reset: %v", err)
	}
	for range 100 { // until the kernel says so
		if _, err = ours.Write([]byte("x")); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("write to a connection that was reset: %v", err)
	}

	ours, other = pair(t)
	other.Close()
	if _, err := ours.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("read of a connection that was closed: %v, want io.EOF itself", err)
	}
	ours.Close()
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
	if _, err := ours.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after Close: %v", err)
	}

	_, err = (Dialer{net.Dialer{Timeout: time.Second}}).Dial("tcp", "127.0.0.1:1")
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestACallAllocatesNothing(t *testing.T) {
	ours, other := pair(t)
	b := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := ours.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(other, b); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(ours, b); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for a message and its answer", n)
	}
}
