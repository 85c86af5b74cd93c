package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"souk/bus"
	"souk/market"
)

// maxMoves bounds one game.
const maxMoves = 48

// client plays one hostile party, under several names, by the bytes that it is given: each byte decides
// something, and what is missing is 0. It says only what a client may say: tasks, cancels, feedback, and
// controls of streams of its own name.
type client struct {
	h     *house
	moves []byte
	asked []asked
	said  int // bytes
}

// asked is a task that it asked for.
type asked struct {
	client, id, inbox string
	agent             string
	round             uint64
}

func (c *client) next() int {
	if len(c.moves) == 0 {
		return 0
	}
	b := c.moves[0]
	c.moves = c.moves[1:]
	return int(b)
}

func pick[T any](c *client, from ...T) T { return from[c.next()%len(from)] }

// The kinds of moves, by their first byte.
const (
	moveAsk = iota
	moveRound
	movePass
	moveCancelAgent
	moveCancelHub
	moveCancelDoor
	moveResume
	moveAck
	moveFeedback
	moveNoise
	moveMsgpack
	moveRecall
	moveKinds
)

// play makes all moves. It may end in the middle of anything: that is how it leaves.
func (c *client) play() {
	for n := 0; len(c.moves) > 0 && n < maxMoves; n++ {
		switch c.next() % moveKinds {
		case moveAsk:
			c.ask(c.next(), false)
		case moveRound: // several at once that begin alike, so that one round has them
			like := c.next()
			for range 2 + c.next()%5 {
				c.ask(like, false)
			}
		case moveMsgpack:
			c.ask(c.next(), true)
		case movePass:
			c.h.pass(pick(c, time.Millisecond, 5*time.Millisecond, 15*time.Millisecond, 30*time.Millisecond,
				100*time.Millisecond, 500*time.Millisecond,
				3*time.Second, 40*time.Second))
			c.look()
		case moveCancelAgent:
			c.control(func(s *bus.StreamControl) { s.Cancel = true })
		case moveCancelHub:
			a := c.one()
			c.say(bus.CancelSubject("general", a.client), "", &bus.Cancel{Task: a.id})
		case moveCancelDoor:
			a := c.one()
			c.say(bus.DoorCancelSubject(a.client, ""), "", &bus.Cancel{Task: a.id})
		case moveResume:
			from := pick(c, uint64(0), 1, 7, 1<<40)
			for range 1 + c.next()%8 {
				c.control(func(s *bus.StreamControl) { s.Resume = &from })
			}
		case moveAck:
			below := pick(c, uint64(0), 1, 1<<40)
			c.control(func(s *bus.StreamControl) { s.Ack = &below })
		case moveFeedback:
			a := c.one()
			c.say(bus.FeedbackSubject("general", a.client, ""), "",
				&bus.Feedback{Task: a.id, Quality: pick(c, 0, 1, 0.5)})
		case moveRecall: // which is the hub's to say
			round, slot := 1+c.next()%16, c.next()%4
			for _, agent := range []string{"a-1", "a-2"} {
				c.say(bus.ControlSubject(agent, "eve"), "",
					&bus.HoldControl{Hold: fmt.Sprintf("hub-general/%d/%d", round, slot), Withdraw: true})
			}
		case moveNoise:
			subject := pick(c, bus.TaskSubject("eve", ""), bus.DoorCancelSubject("eve", ""),
				bus.CancelSubject("general", "eve"), bus.FeedbackSubject("general", "eve", ""),
				bus.StreamSubject("a-1", "eve"))
			n := min(c.next(), len(c.moves))
			c.raw(subject, c.inbox("eve"), c.moves[:n])
			c.moves = c.moves[n:]
		}
	}
}

// one is a task that it asked for before, or one that there is not.
func (c *client) one() asked {
	i := c.next()
	if len(c.asked) == 0 || i == 255 {
		return asked{client: "eve", id: "none", agent: "a-1"}
	}
	return c.asked[len(c.asked)-1-i%len(c.asked)]
}

func (c *client) control(f func(*bus.StreamControl)) {
	a := c.one()
	c.look()
	s := &bus.StreamControl{Token: a.id}
	f(s)
	for _, agent := range []string{"a-1", "a-2"} {
		c.say(bus.StreamSubject(agent, a.client), "", s)
	}
}

func (c *client) say(subject, reply string, m bus.Message) {
	data, err := bus.Encode(m)
	if err != nil { // it may not be said: then what it would look like is
		data = []byte{0x81, 0xa1, 't', 0xc0}
	}
	c.raw(subject, reply, data)
}

func (c *client) raw(subject, reply string, data []byte) {
	c.said += len(data)
	if err := c.h.me.Publish(bus.Msg{Subject: subject, Reply: reply, Data: data}); err != nil {
		c.h.t.Fatalf("%s: %v", subject, err)
	}
}

// look reads what was answered, to know its agents.
func (c *client) look() {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	for i := range c.asked {
		for _, data := range c.h.answers[c.asked[i].inbox] {
			if a, err := accepted(data); err == nil && a != nil {
				c.asked[i].agent, c.asked[i].round = a.Agent, a.Round
			}
		}
	}
}

// texts are parts for prompts: they begin alike in pieces, have a token for four bytes or for one, and hold
// what separates pieces elsewhere.
var texts = []string{
	"tell me of the sea ", "~^{[(<", "\x1e", "\x1f", "\x1euser\n", "Ω≈ç√", "a",
	strings.Repeat("the long way home ", 90), strings.Repeat("~^#%", 300), "\"\\", "\u0000",
}

// page ends, with what stands before it, at a byte where prefixes of a prompt end however they are counted.
var page = strings.Repeat("the long way home ", 227)[:4083]

// shape holds the bytes that decide a task of moveAsk, in the order in which they are read; zero is a plain
// stream of five tokens.
type shape struct {
	like, client, id, end            byte
	more                             [][2]byte // further messages: content and role
	join, prompt, tokens, stream     byte
	extras                           [][2]byte // name and value
	terms, session, deadline, failed byte
	cut                              byte
}

func (s shape) bytes() []byte {
	out := []byte{moveAsk, s.like}
	return append(out, s.rest()...)
}

// rest is a shape without its beginning, as moveRound reads it for each of its tasks.
func (s shape) rest() []byte {
	out := []byte{s.client, s.id, s.end, byte(len(s.more)), 0, 0}
	for _, m := range s.more {
		out = append(out, m[0], m[1], 0)
	}
	out = append(out, s.join, s.prompt, s.tokens, s.stream, byte(len(s.extras)))
	for _, x := range s.extras {
		out = append(out, x[0], x[1])
	}
	return append(out, s.terms, s.session, s.deadline, s.failed, s.cut)
}

// inbox is a new one of a client's own.
func (c *client) inbox(client string) string {
	return bus.InboxOf(client) + "." + bus.LastToken(c.h.me.Inbox())
}

// ask asks for a task. like decides how its prompt begins.
func (c *client) ask(like int, msgpack bool) {
	a := asked{client: pick(c, clients...), agent: "a-1"}
	switch id := c.next() % 8; {
	case id == 1 && len(c.asked) > 0:
		a.id = c.one().id
	case id == 2 && len(c.asked) > 0:
		a.id, a.client = c.one().id, c.one().client
	case id == 3:
		a.id = "bad id.*"
	case id == 4: // the door makes one
	default:
		a.id = fmt.Sprintf("t-%d", len(c.asked))
	}
	a.inbox = c.inbox(a.client)
	text := texts[like%len(texts)] + texts[like/len(texts)%len(texts)] + texts[c.next()%len(texts)]
	var messages []map[string]any
	for i := range 1 + c.next()%3 {
		content := any(text)
		if i > 0 {
			content = pick[any](c, text, texts[1], []any{map[string]any{"type": "text", "text": text}},
				[]any{map[string]any{"type": "image_url", "image_url": map[string]any{"url": text}}}, nil, 7)
		}
		m := map[string]any{"role": pick(c, "user", "user", "system", "assistant", "tool", "user\x1e", ""),
			"content": content}
		if c.next()%8 == 1 {
			m["name"] = text
		}
		messages = append(messages, m)
	}
	switch c.next() % 4 {
	case 1:
		messages = []map[string]any{{"role": "user", "content": "a"}, {"role": "user", "content": page}}
	case 2: // one message that looks like the two
		messages = []map[string]any{{"role": "user", "content": "a\x1euser\n" + page}}
	}
	body := map[string]any{"messages": messages}
	if c.next()%8 == 1 {
		body = map[string]any{"prompt": pick[any](c, text, []string{text, text}, []int{1, 2, 3}, "")}
	}
	if n := pick[any](c, 5, 1, 60, nil, 0, -1, 4000, 1<<30, 1.5, "7"); n != nil {
		body["max_tokens"] = n
	}
	body["stream"] = c.next()%3 != 1
	for range c.next() % 4 {
		name := pick(c, "ignore_eos", "tools", "documents", "chat_template", "chat_template_kwargs", "n",
			"logprobs", "stop", "response_format",
			"model", "stream_options", "temperature", "return_token_ids", "souk", "max_completion_tokens")
		value := pick[any](c, true, []any{map[string]any{"type": "function",
			"function": map[string]any{"name": "f", "description": text}}}, text,
			map[string]any{"x": text}, 2, nil, "tiny")
		if strings.HasPrefix(name, "chat_template") || name == "documents" ||
			name == "tools" { // of the right kind, so that they are not refused for that
			value = map[string]any{"tools": []any{map[string]any{"type": "function",
				"function": map[string]any{"name": "f", "description": text}}},
				"documents": []any{map[string]any{"text": text}}, "chat_template": text,
				"chat_template_kwargs": map[string]any{"x": text}}[name]
		}
		body[name] = value
	}
	terms := pick(c, ``, `{"worth":1}`, `{"worth":0}`, `{"worth":0.000001}`, `{"max_price":0.00001}`,
		`{"max_price":0.0003,"worth":1}`, `{"delta":0}`,
		`{"patience_ms":1}`, `{"worth":-1}`, `{"worth":1e300}`,
		`{"worth":0.01,"delta":1,"patience_ms":86400000}`)
	session := pick(c, "", "s-1", "s-2")
	deadline := pick(c, int64(0), 0, 0, 1, time.Now().Add(time.Second).UnixMilli(), 1<<60)
	failover := pick(c, "", "", "off")
	if msgpack {
		c.askMsgpack(a, body, session, failover)
		return
	}
	if _, taken := body["souk"]; !taken {
		souk := map[string]any{}
		if a.id != "" {
			souk["task"] = a.id
		}
		if terms != "" {
			souk["terms"] = json.RawMessage(terms)
		}
		if session != "" {
			souk["session"] = session
		}
		if deadline != 0 {
			souk["deadline_ms"] = deadline
		}
		if failover != "" {
			souk["failover"] = failover
		}
		body["souk"] = souk
	}
	data, err := json.Marshal(body)
	if err != nil {
		c.h.t.Fatal(err)
	}
	switch c.next() % 16 {
	case 1: // broken off
		data = data[:len(data)*2/3]
	case 2: // a control character as it is
		data = bytes.ReplaceAll(data, []byte(`\u001e`), []byte{0x1e})
	}
	c.raw(bus.TaskSubject(a.client, ""), a.inbox, data)
	c.asked = append(c.asked, a)
}

// askMsgpack asks as a program does, perhaps for an answer to go on that never was.
func (c *client) askMsgpack(a asked, body map[string]any, session, failover string) {
	delete(body, "souk")
	data, err := json.Marshal(body)
	if err != nil {
		c.h.t.Fatal(err)
	}
	t := &bus.Task{Client: a.client, ID: a.id, Body: data, Stream: true, Session: session, Failover: failover}
	if c.next()%2 == 1 {
		t.Hub = "general"
		t.Resume = &bus.Resume{Agent: pick(c, "a-1", "a-2", "nobody"), Seq: pick(c, uint64(0), 3, 1<<40),
			Text: pick(c, "", "so "), Tokens: make([]uint32, c.next()%5)}
		t.Attempt = pick(c, 0, 1, -1, 1<<30)
	}
	worth := market.Credits(c.next()) * market.Credit / 100
	if worth > 0 {
		t.Terms.Worth = &worth
	}
	c.say(bus.TaskSubject(a.client, ""), a.inbox, t)
	c.asked = append(c.asked, a)
}
