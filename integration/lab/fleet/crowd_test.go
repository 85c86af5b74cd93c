package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"souk/bus"
	"souk/bus/bustest/proxy"
	"souk/bus/client"
)

// build makes the commands, static, where tests of other packages find them: it links what is not there yet.
func build(ctx context.Context) (dir string, err error) {
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", "bin/tests/", "./cmd/...")
	build.Dir = "../../.." // the module of the market
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return filepath.Abs("../../../bin/tests")
}

// Each calls f with every proxy of the links.
func (l *Links) Each(f func(*proxy.Proxy)) {
	for _, p := range []*proxy.Proxy{l.NATS, l.Etcd, l.Engine} {
		if p != nil {
			f(p)
		}
	}
}

// pause stops a part in the middle of whatever it does. Its connections stay.
func pause(p *Part) error { return p.Signal(syscall.SIGSTOP) }

// resume lets a stopped part go on as if nothing had been.
func resume(p *Part) error { return p.Signal(syscall.SIGCONT) }

// Direct asks an engine itself, without the market, for the answer to a chat.
func (f *Fleet) Direct(ctx context.Context, engine int, body []byte) (string, error) {
	var members map[string]any
	if err := json.Unmarshal(body, &members); err != nil {
		return "", err
	}
	members["model"] = Model
	body, err := json.Marshal(members)
	if err != nil {
		return "", err
	}
	url := "http://" + f.Part(fmt.Sprintf("engine-%d", engine)).Health + "/v1/chat/completions"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var said struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil || len(said.Choices) != 1 {
		return "", fmt.Errorf("%s: %s: %w", url, answer.Status, err)
	}
	return said.Choices[0].Message.Content, nil
}

// Crowd is many clients, each of which asks one task after another.
type Crowd struct {
	stop chan struct{}
	wg   sync.WaitGroup

	served atomic.Int64 // tasks served to their end
	taken  atomic.Int64 // Unix nanoseconds of the first answer that began after Accepted was called
	news   chan struct{}

	mu    sync.Mutex
	words []Word
}

// Crowd starts so many readers of one client, who ask for answers of so many tokens until Stop.
func (f *Fleet) Crowd(ctx context.Context, id string, readers, tokens int) (*Crowd, error) {
	c, err := f.Client(id)
	if err != nil {
		return nil, err
	}
	return f.CrowdOf(ctx, id, c, readers, tokens), nil
}

// CrowdOf is a crowd over a given client.
func (f *Fleet) CrowdOf(ctx context.Context, id string, c *client.Client, readers, tokens int) *Crowd {
	w := &Crowd{stop: make(chan struct{}), news: make(chan struct{}, 1)}
	for range readers {
		w.wg.Go(func() {
			for {
				select {
				case <-w.stop:
					return
				default:
				}
				w.add(Ask(ctx, c, id, Task(id, tokens), func(c bus.Chunk) {
					if c.Seq == 0 {
						w.taken.CompareAndSwap(0, time.Now().UnixNano())
					}
				}))
			}
		})
	}
	return w
}

func (w *Crowd) add(x Word) {
	if x.Code == "" {
		w.served.Add(1)
	}
	w.mu.Lock()
	w.words = append(w.words, x)
	w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
	if x.Code != "" && !x.Accepted { // as a client would: a refusal says when to come again
		t := time.NewTimer(min(max(time.Duration(x.Result.RetryMS)*time.Millisecond, 50*time.Millisecond),
			time.Second))
		defer t.Stop()
		select {
		case <-t.C:
		case <-w.stop:
		}
	}
}

// Served waits until so many more tasks have been served than by now.
func (w *Crowd) Served(ctx context.Context, more int) error {
	want := w.served.Load() + int64(more)
	for w.served.Load() < want {
		select {
		case <-w.news:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d more tasks were served: %w", more-int(want-w.served.Load()), more,
				ctx.Err())
		}
	}
	return nil
}

// Accepted notes when the next answer begins, that of a task which was not awarded yet; the function that it
// returns says how long that was after a time, once it has happened.
func (w *Crowd) Accepted(since time.Time) func() time.Duration {
	w.taken.Store(0)
	return func() time.Duration { return time.Unix(0, w.taken.Load()).Sub(since) }
}

// Stop lets every reader finish its task, and returns all that was said.
func (w *Crowd) Stop() []Word {
	close(w.stop)
	w.wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.words
}

// Tally counts last words by code.
func Tally(words []Word) string {
	n := map[bus.Code]int{}
	var codes []bus.Code
	for _, w := range words {
		if n[w.Code]++; n[w.Code] == 1 {
			codes = append(codes, w.Code)
		}
	}
	var out []string
	for _, c := range codes {
		name := string(c)
		if c == "" {
			name = "served"
		}
		out = append(out, fmt.Sprintf("%d %s", n[c], name))
	}
	return strings.Join(out, ", ")
}
