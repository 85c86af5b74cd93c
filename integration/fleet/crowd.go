package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/client"
)

// Word is what a client was told of one task, and how.
type Word struct {
	Client, Task string
	Body         []byte     // of the task
	Accepted     bool       // an agent took it
	Code         bus.Code   // of the last word; "" = served to the end
	Message      string     // beside a code
	Result       bus.Result // zero if the last word came without one
	Text         string
	Chunks       uint64
	Fault        string // what the stream did that no stream may do

	Began, First, Ended time.Time
	Stall               time.Duration // longest pause between two pieces
}

// Ask sends one task and reads its answer to the end. A task has exactly one last word: more, or none, is a
// Fault.
func Ask(ctx context.Context, c *client.Client, id string, t bus.Task, each func(bus.Chunk)) Word {
	return AskWith(ctx, c, id, t, func(_ *client.Stream, c bus.Chunk) { each(c) })
}

// AskWith is Ask for one who may want to do something to the stream, as to cancel it.
func AskWith(ctx context.Context, c *client.Client, id string, t bus.Task,
	each func(*client.Stream, bus.Chunk)) (w Word) {
	w = Word{Client: id, Task: t.ID, Body: t.Body, Began: time.Now()}
	defer func() { w.Ended = time.Now() }()
	s, err := c.Submit(ctx, t)
	if err != nil {
		w.last(err)
		return w
	}
	w.Accepted = true
	before := w.Began
	for {
		chunk, err := s.Next(ctx)
		now := time.Now()
		if !w.First.IsZero() {
			w.Stall = max(w.Stall, now.Sub(before))
		}
		before = now
		if err != nil {
			w.Ended = now
			w.last(err)
			if r, ok := s.Result(); ok {
				w.Result = r
				if r.Chunks != w.Chunks {
					w.Fault = fmt.Sprintf("the end says %d chunks, %d came", r.Chunks, w.Chunks)
				}
			} else if errors.Is(err, io.EOF) {
				w.Fault = "the stream ended well without a result"
			}
			if _, again := s.Next(ctx); !errors.Is(again, err) && bus.CodeOf(again) != bus.CodeOf(err) {
				w.Fault = fmt.Sprintf("after its last word, %v, the stream said %v", err, again)
			}
			s.Close()
			return w
		}
		if chunk.Seq != w.Chunks {
			w.Fault = fmt.Sprintf("chunk %d came after %d chunks", chunk.Seq, w.Chunks)
		}
		if w.First.IsZero() {
			w.First = now
		}
		w.Chunks++
		w.Text += chunk.Text
		each(s, chunk)
	}
}

func (w *Word) last(err error) {
	var r *client.Refusal
	if errors.As(err, &r) {
		w.Result = r.Result
	}
	if errors.Is(err, io.EOF) {
		return
	}
	w.Code, w.Message = bus.CodeOf(err), err.Error()
	if w.Code == "" {
		w.Code = bus.CodeInternal
	}
}

func (w Word) String() string {
	return fmt.Sprintf("%s/%s: %q after %d chunks in %v: %s %s", w.Client, w.Task, w.Code, w.Chunks,
		w.Ended.Sub(w.Began).Round(time.Millisecond), w.Message, w.Fault)
}

// numbers makes prompts of which no two are alike.
var numbers atomic.Int64

// Task is a chat with an answer of exactly so many tokens. Its client waits for a slot for at most a quarter
// of a minute.
func Task(client string, tokens int) bus.Task {
	n := numbers.Add(1)
	body, err := json.Marshal(map[string]any{
		"messages": []map[string]string{
			{"role": "system", "content": "You are a helpful assistant. Answer briefly."},
			{"role": "user", "content": fmt.Sprintf("Tell me about the goods of stall %d on the market, "+
				"and about the people who carry them home.", n)},
		},
		"max_tokens": tokens, "ignore_eos": true,
	})
	if err != nil {
		panic("fleet: a body of strings and numbers")
	}
	return bus.Task{Client: client, ID: fmt.Sprintf("%s-%d", client, n), Kind: bus.KindChat, Body: body,
		Stream:     true,
		DeadlineMS: time.Now().Add(15 * time.Second).UnixMilli()}
}

// Direct asks an engine itself, without the market, for the answer to a chat.
func (f *Fleet) Direct(ctx context.Context, engine int, body []byte) (string, error) {
	var members map[string]any
	if err := json.Unmarshal(body, &members); err != nil {
		return "", err
	}
	members["model"] = model
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
	answer, err := direct.Do(request)
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

// sold waits until the hubs say that they sell so many agents, with a slot free at one of each hub's.
func sold(ctx context.Context, b bus.Bus, agents int) error {
	statuses := make(chan bus.Status, 64)
	sub, err := b.Subscribe(bus.StatusSubject("*"), "", func(m bus.Msg) {
		var s bus.Status
		if bus.Decode(m.Data, &s) == nil {
			select {
			case statuses <- s:
			default: // the next one comes within a second
			}
		}
	})
	if err != nil {
		return err
	}
	defer sub.Stop()
	last := map[string]bus.Status{}
	for {
		select {
		case s := <-statuses:
			last[s.Domain] = s
			n := 0
			for _, a := range last {
				if a.Free > 0 {
					n += a.Agents
				}
			}
			if n >= agents {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("the hubs do not sell %d agents: %+v: %w", agents, last, ctx.Err())
		}
	}
}
