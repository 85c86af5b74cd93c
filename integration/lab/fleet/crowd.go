package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/client"
)

// Word is the outcome of one task as its client heard it.
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
