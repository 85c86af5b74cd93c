// Package floor is a relay of inference that does only what no market can avoid: a request over NATS, one
// frame of a journal appended and synced, a dispatch over NATS, the engine's HTTP and its server-sent events,
// each read's tokens as a message over NATS, and a last word. It chooses nothing, charges nobody and survives
// nothing. What a market costs is measured beside it.
//
// It uses NATS's and Go's own clients, none of the market's drivers, so that a market that gets better or
// worse is seen.
package floor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/cmd/replay"
	"souk/market"
)

// Subjects. A reply goes to floor.reply.CALLER.NUMBER.
const (
	taskSubject  = "floor.task"
	agentSubject = "floor.agent." // and the agent's number, from 0
	replySubject = "floor.reply."
)

// Kinds of what comes on a reply subject: the first byte of a message.
const (
	// number from 0 (8 bytes), how many tokens (4 bytes), their text as the engine escaped it
	chunkKind  = 'c'
	resultKind = 'r' // how many chunks (8 bytes), how many tokens (4 bytes)
	errorKind  = 'e' // why
)

// header is the length of what comes before the text.
const header = 1 + 8 + 4

// FrameBytes is about the size of a journal's frame with a round of one task and its hold.
const FrameBytes = 1024

// queue bounds the tasks that wait for a sync, and the messages that wait for a reader.
const queue = 1 << 14

// Journal makes frames durable: they are when Append has returned.
type Journal interface {
	Append(frames [][]byte) error
}

// Hub hands tasks to agents in turn, each once its frame is durable. Frames that wait while another is synced
// share the next sync.
type Hub struct {
	conn    *nats.Conn
	journal Journal
	agents  int
	sub     *nats.Subscription
	tasks   chan *nats.Msg
	done    chan struct{}
}

// StartHub serves until Close, for agents 0 to agents-1.
func StartHub(conn *nats.Conn, j Journal, agents int) (*Hub, error) {
	h := &Hub{conn: conn, journal: j, agents: agents}
	h.tasks, h.done = make(chan *nats.Msg, queue), make(chan struct{})
	var err error
	if h.sub, err = conn.ChanSubscribe(taskSubject, h.tasks); err != nil {
		return nil, err
	}
	go h.run()
	return h, conn.Flush()
}

func (h *Hub) run() {
	defer close(h.done)
	var batch []*nats.Msg
	var frames [][]byte
	next := 0
	for m := range h.tasks {
		batch = append(batch[:0], m)
		for more := true; more; {
			select {
			case m, ok := <-h.tasks:
				if more = ok; ok {
					batch = append(batch, m)
				}
			default:
				more = false
			}
		}
		for len(frames) < len(batch) {
			frames = append(frames, make([]byte, FrameBytes))
		}
		for i, m := range batch {
			copy(frames[i], m.Reply)
		}
		err := h.journal.Append(frames[:len(batch)])
		for _, m := range batch {
			if err == nil {
				err = h.conn.PublishRequest(agentSubject+strconv.Itoa(next), m.Reply, m.Data)
				next = (next + 1) % h.agents
			}
			if err != nil {
				say(h.conn, m.Reply, err)
			}
		}
	}
}

// say tells a caller why there is no answer. Where not even that can be said the connection is gone, and the
// caller's with it.
func say(conn *nats.Conn, reply string, err error) {
	_ = conn.Publish(reply, append([]byte{errorKind}, err.Error()...))
}

// Close ends the hub once it has dispatched what came.
func (h *Hub) Close() error {
	err := h.sub.Unsubscribe()
	if err == nil {
		err = h.conn.Flush() // nothing comes any more
	}
	close(h.tasks)
	<-h.done
	return err
}

// Agents serve an engine.
type Agents struct {
	conn *nats.Conn
	url  string
	web  *http.Client
	subs []*nats.Subscription
	wg   sync.WaitGroup
}

// StartAgents serves an engine of a base URL as n agents, from number first.
func StartAgents(conn *nats.Conn, url string, first, n int) (*Agents, error) {
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}} // more than streams at once
	a := &Agents{conn: conn, url: url + "/v1/chat/completions", web: web}
	for i := range n {
		sub, err := conn.Subscribe(agentSubject+strconv.Itoa(first+i), func(m *nats.Msg) {
			a.wg.Go(func() {
				if err := a.serve(m); err != nil {
					say(conn, m.Reply, err)
				}
			})
		})
		if err != nil {
			return nil, errors.Join(err, a.Close())
		}
		a.subs = append(a.subs, sub)
	}
	return a, conn.Flush()
}

// Close waits for the answers that run.
func (a *Agents) Close() error {
	var errs []error
	for _, s := range a.subs {
		errs = append(errs, s.Unsubscribe())
	}
	errs = append(errs, a.conn.Flush())
	a.wg.Wait()
	a.web.CloseIdleConnections()
	return errors.Join(errs...)
}

// serve relays one answer: each read of the engine's events becomes one message.
func (a *Agents) serve(m *nats.Msg) error {
	request, err := http.NewRequest(http.MethodPost, a.url, bytes.NewReader(m.Data))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := a.web.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return fmt.Errorf("engine: %s: %s", response.Status, text)
	}
	var chunks uint64
	var tokens, count uint32
	out := make([]byte, header, 512)
	lines := bufio.NewReaderSize(response.Body, 16<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil && !(err == io.EOF && len(line) == 0) {
			return fmt.Errorf("engine: %w", err)
		}
		if text := content(line); len(text) > 0 {
			out = append(out, text...)
			count++
		}
		waiting, _ := lines.Peek(lines.Buffered())
		if count > 0 && (err == io.EOF || bytes.IndexByte(waiting, '\n') < 0) {
			put(out, chunkKind, chunks, count)
			if err := a.conn.Publish(m.Reply, out); err != nil {
				return err
			}
			chunks, tokens, count, out = chunks+1, tokens+count, 0, out[:header]
		}
		if err == io.EOF {
			put(out, resultKind, chunks, tokens)
			return a.conn.Publish(m.Reply, out[:header])
		}
	}
}

var (
	data = []byte("data: ")
	key  = []byte(`"content":"`)
)

// content is the text of an event's line, as it is escaped there; empty for every other line.
func content(line []byte) []byte {
	if !bytes.HasPrefix(line, data) {
		return nil
	}
	at := bytes.Index(line, key)
	if at < 0 {
		return nil
	}
	text := line[at+len(key):]
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[:i]
		}
	}
	return nil
}

func put(b []byte, kind byte, n uint64, count uint32) {
	b[0] = kind
	binary.LittleEndian.PutUint64(b[1:], n)
	binary.LittleEndian.PutUint32(b[9:], count)
}

// Caller asks as any number of callers do, over one connection.
type Caller struct {
	conn    *nats.Conn
	sub     *nats.Subscription
	prefix  string // of its reply subjects
	number  atomic.Int64
	mu      sync.Mutex
	waiting map[string]chan []byte // by reply subject
}

// NewCaller hears what is replied to it from then on.
func NewCaller(conn *nats.Conn) (*Caller, error) {
	own := nats.NewInbox()[len(nats.InboxPrefix):]
	c := &Caller{conn: conn, prefix: replySubject + own + ".", waiting: map[string]chan []byte{}}
	var err error
	c.sub, err = conn.Subscribe(c.prefix+"*", func(m *nats.Msg) {
		c.mu.Lock()
		to := c.waiting[m.Subject]
		c.mu.Unlock()
		if to != nil {
			to <- m.Data
		}
	})
	if err != nil {
		return nil, err
	}
	return c, conn.Flush()
}

// Close ends the hearing.
func (c *Caller) Close() error { return c.sub.Unsubscribe() }

// room is the number of messages of one answer that its reader may be behind; a reader slower than that holds
// all up.
const room = 256

// Ask asks one task and waits for its whole answer.
func (c *Caller) Ask(ctx context.Context, t bus.Task) (replay.Answer, error) {
	return c.AskWith(ctx, t, func(bus.Chunk) {})
}

// AskWith asks one task and calls each with every chunk of its answer. Of the task it sends the body alone.
func (c *Caller) AskWith(ctx context.Context, t bus.Task, each func(bus.Chunk)) (replay.Answer, error) {
	begun := time.Now()
	subject := c.prefix + strconv.FormatInt(c.number.Add(1), 10)
	heard := make(chan []byte, room)
	c.mu.Lock()
	c.waiting[subject] = heard
	c.mu.Unlock()
	defer c.forget(subject, heard)
	if err := c.conn.PublishRequest(taskSubject, subject, t.Body); err != nil {
		return replay.Answer{}, err
	}
	var a replay.Answer
	var text strings.Builder
	for {
		select {
		case <-ctx.Done():
			return a, ctx.Err()
		case m := <-heard:
			switch {
			case len(m) > 0 && m[0] == errorKind:
				return a, errors.New(string(m[1:]))
			case len(m) < header:
				return a, fmt.Errorf("floor: a message of %d bytes", len(m))
			}
			n, count := binary.LittleEndian.Uint64(m[1:]), int(binary.LittleEndian.Uint32(m[9:]))
			if m[0] == resultKind {
				a.Text = text.String()
				a.Result = bus.Result{Client: t.Client, Task: t.ID, Chunks: n,
					Usage: market.Usage{Output: count}}
				return a, nil
			}
			if a.TTFT == 0 {
				a.TTFT = time.Since(begun)
			}
			text.Write(m[header:])
			each(bus.Chunk{Seq: n, Count: count, Text: string(m[header:])})
		}
	}
}

// forget lets go of an answer, and of whoever would still hand over a piece of it.
func (c *Caller) forget(subject string, heard chan []byte) {
	c.mu.Lock()
	delete(c.waiting, subject)
	c.mu.Unlock()
	for {
		select {
		case <-heard:
		default:
			return
		}
	}
}
