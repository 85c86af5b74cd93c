package zmtp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"souk/bus/bustest"
)

// python finds an interpreter that has libzmq.
func python(t *testing.T) string {
	for _, name := range []string{os.Getenv("VLLM_PYTHON"), "python3"} {
		if name != "" && exec.Command(name, "-c", "import zmq").Run() == nil {
			return name
		}
	}
	t.Skip("neither $VLLM_PYTHON nor python3 has pyzmq")
	return ""
}

// peer is a publisher with a replay, by libzmq.
type peer struct {
	t       *testing.T
	command *exec.Cmd
	in      io.WriteCloser
}

func publisher(t *testing.T, how, endpoint, replay string) *peer {
	t.Helper()
	p := &peer{t: t, command: exec.Command(python(t), filepath.Join("testdata", "peer.py"), how, endpoint,
		replay)}
	p.command.Stderr = os.Stderr
	out, err := p.command.StdoutPipe()
	if err == nil {
		p.in, err = p.command.StdinPipe()
	}
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", said)
	return p
}

func (p *peer) send(n, size int) { fmt.Fprintf(p.in, "send %d %d\n", n, size) }

func (p *peer) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}

// next waits for the next message of a Sub; connections that come and go are passed over.
func next(t *testing.T, s *Sub) Heard {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case h := <-s.C:
			if h.Frames != nil {
				return h
			}
			t.Logf("peer %d: %v", h.Peer, h.Err)
		case <-deadline:
			t.Fatal("nothing comes")
		}
	}
}

// first has a publisher send until it is heard, and returns the number of what came first and who said it.
func first(t *testing.T, s *Sub, p *peer) (seq uint64, by uint64) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		select {
		case h := <-s.C:
			if h.Frames != nil {
				return binary.BigEndian.Uint64(h.Frames[1]), h.Peer
			}
		case <-tick.C:
			p.send(1, 1)
		case <-deadline:
			t.Fatal("the publisher is not heard")
		}
	}
}

// What libzmq publishes is heard as it was said, whoever listens, over both transports, also by a publisher
// that came back; and its replay answers.
func TestAgainstLibzmq(t *testing.T) {
	for _, test := range []struct {
		name, how     string
		weListen, ipc bool
	}{
		{name: "tcp, it listens", how: "bind"},
		{name: "tcp, it connects", how: "connect", weListen: true},
		{name: "ipc, it listens", how: "bind", ipc: true},
		{name: "ipc, it connects", how: "connect", weListen: true, ipc: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			endpoint := "tcp://" + bustest.FreePort(t)
			replay := "tcp://" + bustest.FreePort(t)
			if test.ipc {
				endpoint, replay = "ipc://"+t.TempDir()+"/kv", "ipc://"+t.TempDir()+"/replay"
			}
			p := publisher(t, test.how, endpoint, replay)
			s, err := Subscribe(endpoint, test.weListen)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			hear := func(from uint64, by uint64, n, size int) {
				t.Helper()
				for seq := from; seq < from+uint64(n); {
					h := next(t, s)
					got := binary.BigEndian.Uint64(h.Frames[1])
					if got < from { // of the first, which were sent until one was heard
						continue
					}
					if len(h.Frames) != 3 || string(h.Frames[0]) != "kv" || h.Peer != by {
						t.Fatalf("%q by %d", h.Frames, h.Peer)
					}
					if got == seq && len(h.Frames[2]) == 1 && size > 1 {
						from, seq = from+1, seq+1 // one more of the first
						continue
					}
					if want := bytes.Repeat([]byte{byte(seq % 251)}, size); got != seq ||
						!bytes.Equal(h.Frames[2], want) {
						t.Fatalf("number %d of %d bytes, want %d of %d", got, len(h.Frames[2]), seq, size)
					}
					seq++
				}
			}
			seq, by := first(t, s, p)
			p.send(2000, 300)
			hear(seq+1, by, 2000, 300)
			p.send(5, 3<<20)
			last := uint64(0)
			for range 5 {
				h := next(t, s)
				last = binary.BigEndian.Uint64(h.Frames[1])
				if len(h.Frames[2]) != 3<<20 {
					t.Fatalf("%d bytes", len(h.Frames[2]))
				}
			}
			var answered []uint64
			ask := binary.BigEndian.AppendUint64(nil, last-1000)
			take := func(f [][]byte) bool {
				if len(f) != 4 || len(f[0]) != 0 {
					t.Fatalf("%d frames", len(f))
				}
				answered = append(answered, binary.BigEndian.Uint64(f[2]))
				return int64(answered[len(answered)-1]) >= 0
			}
			err = Request(context.Background(), replay, 10*time.Second, [][]byte{nil, ask}, take)
			if err != nil || len(answered) != 1002 || answered[0] != last-1000 || answered[1000] != last {
				t.Errorf("the replay: %d answers, %v", len(answered), err)
			}
			p.kill()
			p = publisher(t, test.how, endpoint, replay)
			if seq, again := first(t, s, p); again <= by || seq > last {
				t.Errorf("a new life: number %d by %d", seq, again)
			}
		})
	}
}
