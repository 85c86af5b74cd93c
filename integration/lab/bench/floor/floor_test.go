package floor

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/embedded"
)

// words are the words of the engine of these tests, as it writes them: quotes and backslashes are escaped.
var words = []string{`In`, ` the`, ` souk \"el`, ` Attarine\"`, ` \\`, ` one`, ` {\u00e9}`, ` haggles`, `.`}

// engine answers each request with the words, each in an event of its own, several in one write where size is
// above one, and then with what vLLM says at the end. seen is called before the answer begins.
func engine(t *testing.T, size int, seen func()) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen()
		if r.URL.Path != "/v1/chat/completions" {
			http.NotFound(w, r)
			return
		}
		event := func(delta string) string {
			return `data: {"choices":[{"index":0,"delta":{` + delta +
				"}}]}\n\n"
		}
		fmt.Fprint(w, event(`"role":"assistant","content":""`))
		w.(http.Flusher).Flush()
		for piece := range slices.Chunk(words, size) {
			for _, word := range piece {
				fmt.Fprint(w, event(`"content":"`+word+`"`))
			}
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Every token arrives, in order, whichever way the engine writes them, to many callers at once; and each
// sooner or later in a chunk whose number is the next one.
func TestRelaysEveryTokenInOrder(t *testing.T) {
	for _, size := range []int{1, 2, len(words)} {
		f, err := Start(engine(t, size, func() {}), t.TempDir(), 3)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				var next uint64
				tokens := 0
				var text strings.Builder
				a, err := f.AskWith(t.Context(), bus.Task{Client: "dev", Body: []byte(`{}`)},
					func(c bus.Chunk) {
						if c.Seq != next {
							t.Errorf("chunk %d came where %d was due", c.Seq, next)
						}
						next, tokens = next+1, tokens+c.Count
						text.WriteString(c.Text)
					})
				if err != nil {
					t.Error(err)
					return
				}
				if want := strings.Join(words, ""); text.String() != want || a.Text != want {
					t.Errorf("chunks of %q, an answer of %q; the engine said %q", text.String(), a.Text, want)
				}
				if tokens != len(words) || a.Result.Usage.Output != tokens || a.Result.Chunks != next ||
					a.TTFT <= 0 {
					t.Errorf("%d tokens in %d chunks came, first after %v; the last word says %d in %d; "+
						"want %d tokens",
						tokens, next, a.TTFT, a.Result.Usage.Output, a.Result.Chunks, len(words))
				}
			})
		}
		wg.Wait()
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// ink is a journal that counts the frames that are durable, and holds each sync up until it is let.
type ink struct {
	mu      sync.Mutex
	durable int
	most    int // frames of one sync
	bytes   int
	let     chan struct{} // nil: at once
	fail    error
}

func (j *ink) Append(frames [][]byte) error {
	if j.let != nil {
		<-j.let
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fail != nil {
		return j.fail
	}
	j.durable += len(frames)
	j.most = max(j.most, len(frames))
	for _, f := range frames {
		j.bytes += len(f)
	}
	return nil
}

// relay is a floor over a journal of the test's.
func relay(t *testing.T, url string, j Journal) *Caller {
	server, err := embedded.StartNATS(embedded.NATSConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	conn, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	a, err1 := StartAgents(conn, url, 0, 2)
	h, err2 := StartHub(conn, j, 2)
	c, err3 := NewCaller(conn)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), h.Close(), a.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// No engine is asked before the task's frame is durable, and every task has a frame; what waits shares a
// sync.
func TestDispatchesAfterTheSync(t *testing.T) {
	j := &ink{let: make(chan struct{})}
	asked := 0
	c := relay(t, engine(t, 1, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if asked++; asked > j.durable {
			t.Errorf("task %d reached the engine while %d frames were durable", asked, j.durable)
		}
	}), j)
	const tasks = 50
	var wg sync.WaitGroup
	for range tasks {
		wg.Go(func() {
			if _, err := c.Ask(t.Context(), bus.Task{Body: []byte(`{}`)}); err != nil {
				t.Error(err)
			}
		})
	}
	answered := make(chan struct{})
	go func() { wg.Wait(); close(answered) }()
	for syncs := 0; ; syncs++ {
		select {
		case j.let <- struct{}{}:
		case <-answered:
			if j.durable != tasks || j.bytes != tasks*FrameBytes || syncs > tasks {
				t.Errorf("%d frames of %d bytes in %d syncs for %d tasks", j.durable, j.bytes, syncs, tasks)
			}
			return
		}
	}
}

// A journal or an engine that fails is an error to who asked, and no silence.
func TestTellsFailures(t *testing.T) {
	c := relay(t, engine(t, 1, func() { t.Error("an engine was asked without a frame") }),
		&ink{fail: errors.New("disk full")})
	if _, err := c.Ask(t.Context(), bus.Task{Body: []byte(`{}`)}); err == nil || err.Error() != "disk full" {
		t.Errorf("got %v, want disk full", err)
	}
	c = relay(t, engine(t, 1, func() {})+"/elsewhere", &ink{})
	if _, err := c.Ask(t.Context(), bus.Task{Body: []byte(`{}`)}); err == nil ||
		!strings.Contains(err.Error(), "404") {
		t.Errorf("got %v, want the engine's 404", err)
	}
}

// A file's frames lie one after the other; where its end is reached it begins anew; and it is gone when it is
// closed.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	f, err := NewFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Append([][]byte{[]byte("one "), []byte("two ")}); err != nil {
		t.Fatal(err)
	}
	if err := f.Append([][]byte{[]byte("three")}); err != nil {
		t.Fatal(err)
	}
	read := func(n int) string {
		b := make([]byte, n)
		if _, err := f.file.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := read(13); got != "one two three" {
		t.Errorf("the file holds %q", got)
	}
	f.at = fileBytes - 2
	if err := f.Append([][]byte{[]byte("four")}); err != nil {
		t.Fatal(err)
	}
	if got := read(8); got != "fourtwo " {
		t.Errorf("after its end the file begins %q", got)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%s is left", left[0].Name())
	}
}
