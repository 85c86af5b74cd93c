package zmtp

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// publishes connects as a publisher that says what it is given, and returns the connection.
func publishes(t *testing.T, s *Sub, says []byte) net.Conn {
	t.Helper()
	c, err := net.Dial(s.Addr.Network(), s.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Write(says); err != nil {
		t.Fatal(err)
	}
	return c
}

func listening(t *testing.T) *Sub {
	t.Helper()
	s, err := Subscribe("tcp://127.0.0.1:0", true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// One header with a length of 2^62 ends one connection: not the process, and not the others.
func TestALengthThatKills(t *testing.T) {
	s := listening(t)
	good := publishes(t, s, hello(1, "PUB"))
	if h := <-s.C; h.Peer != 1 || h.Frames != nil || h.Err != nil {
		t.Fatalf("%+v", h)
	}
	publishes(t, s, append(hello(1, "PUB"), long, 0x40, 0, 0, 0, 0, 0, 0, 0))
	if h := <-s.C; h.Peer != 2 || h.Err != nil {
		t.Fatalf("%+v", h)
	}
	h := <-s.C
	if h.Peer != 2 || h.Err == nil || !strings.Contains(h.Err.Error(), "4611686018427387904 bytes") {
		t.Fatalf("%+v", h)
	}
	if _, err := good.Write(frame(0, "still here")); err != nil {
		t.Fatal(err)
	}
	if h := next(t, s); h.Peer != 1 || string(h.Frames[0]) != "still here" {
		t.Fatalf("%+v", h)
	}
}

// Those who connect and say nothing, half a hello, half a frame, or are only half open, keep nobody waiting.
func TestHalfOpenPeers(t *testing.T) {
	s := listening(t)
	for _, says := range [][]byte{nil, hello(1, "PUB")[:20],
		append(hello(1, "PUB"), long, 0, 0, 0, 0, 0, 1, 2, 3)} {
		publishes(t, s, says)
		half := publishes(t, s, says).(*net.TCPConn)
		if err := half.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	c := publishes(t, s, append(hello(1, "PUB"), frame(0, "x")...))
	if h := next(t, s); string(h.Frames[0]) != "x" {
		t.Fatalf("%+v", h)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for h := range s.C {
		if h.Err == io.EOF && h.Peer != 0 {
			break
		}
	}
}

// So many connections are kept; who said nothing for longest makes room.
func TestPeersAreBounded(t *testing.T) {
	s := listening(t)
	heard := publishes(t, s, hello(1, "PUB"))
	<-s.C
	for range maxPeers - 1 {
		publishes(t, s, hello(1, "PUB"))
		<-s.C
	}
	if _, err := heard.Write(frame(0, "x")); err != nil {
		t.Fatal(err)
	}
	if h := <-s.C; h.Peer != 1 {
		t.Fatalf("%+v", h)
	}
	publishes(t, s, hello(1, "PUB"))
	gone := Heard{}
	for range 2 { // the one that makes room, and the new one
		if h := <-s.C; h.Err != nil {
			gone = h
		}
	}
	if gone.Peer != 2 {
		t.Errorf("%+v made room, want the second", gone)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) != maxPeers {
		t.Errorf("%d connections", len(s.open))
	}
}

// A publisher that is away is dialled again and again, after pauses that double up to a limit and begin anew
// once it was there; Close ends it at any moment.
func TestDialsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSub()
		start := time.Now()
		var at []time.Duration
		there := make(chan net.Conn, 1)
		s.done.Go(func() {
			dials(s.ctx, func() (net.Conn, error) {
				select {
				case c := <-there:
					return c, nil
				default:
					return nil, errors.New("away")
				}
			}, func(err error) { s.tell(Heard{Err: err}) }, s.hear)
		})
		for range 12 {
			if h := <-s.C; h.Peer != 0 || h.Err == nil {
				t.Fatalf("%+v", h)
			}
			at = append(at, time.Since(start))
		}
		for i := 1; i < len(at); i++ {
			most := min(pauseMin<<(i-1), pauseMax)
			if d := at[i] - at[i-1]; d < most/2 || d > most {
				t.Errorf("pause %d: %v, want up to %v", i, d, most)
			}
		}
		ours, theirs := net.Pipe()
		there <- ours
		go io.Copy(io.Discard, theirs)
		go theirs.Write(append(hello(1, "PUB"), frame(0, "x")...))
		if h := <-s.C; h.Peer != 1 || h.Err != nil {
			t.Fatalf("%+v", h)
		}
		if h := <-s.C; string(h.Frames[0]) != "x" {
			t.Fatalf("%+v", h)
		}
		theirs.Close()
		if h := <-s.C; h.Peer != 1 || h.Err == nil {
			t.Fatalf("%+v", h)
		}
		ended := time.Now()
		if h := <-s.C; h.Peer != 0 || time.Since(ended) > pauseMin {
			t.Fatalf("%+v after %v", h, time.Since(ended))
		}
		s.Close()
	})
}

// Close ends a Sub that nobody reads, in the middle of anything.
func TestCloseUnread(t *testing.T) {
	s := listening(t)
	for range 3 {
		publishes(t, s, append(hello(1, "PUB"), frame(0, "x")...))
	}
	s.Close()
	s.Close()
	if c, err := net.Dial(s.Addr.Network(), s.Addr.String()); err == nil {
		c.Close()
		t.Error("it listens yet")
	}
}

// What is not of this machine alone is neither listened at nor asked.
func TestForeignEndpoints(t *testing.T) {
	const far = "tcp://10.0.0.1:5557"
	for _, listen := range []bool{true, false} {
		if _, err := Subscribe(far, listen); err == nil {
			t.Errorf("heard, listening %v", listen)
		}
	}
	if err := Request(context.Background(), far, 0, nil, nil); err == nil {
		t.Error("asked")
	}
	if _, err := Listen(far); err == nil {
		t.Error("listened at")
	}
}

// The file of a socket whose process is dead is taken over; that of a living one is not, nor is any other.
func TestListenAtALeftSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv")
	dead, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := Listen("ipc://" + path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v: the place of a living process is taken", err)
		_ = l.Close()
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = dead.Close()
	l, err := Listen("ipc://" + path)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("ipc://" + path); err == nil {
		t.Error("a file is taken for a socket")
	}
	if b, err := os.ReadFile(path); string(b) != "mine" {
		t.Error(string(b), err)
	}
}
