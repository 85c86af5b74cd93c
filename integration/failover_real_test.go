package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"souk/bus"
	"souk/bus/bustest"
)

// cutter is a way to an engine that breaks in the middle of a stream.
type cutter struct {
	net.Listener
	to    string
	after atomic.Int64 // events that the next stream still passes; 0: all
	// the last stream that broke had its finish reason by then: a slow server says several tokens in an event
	late atomic.Bool
}

func newCutter(t *testing.T, to string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c := &cutter{Listener: l, to: to}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.pass(conn)
		}
	}()
	return c
}

func (c *cutter) url() string { return "http://" + c.Addr().String() }

func (c *cutter) pass(client net.Conn) {
	defer client.Close()
	engine, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer engine.Close()
	go func() {
		io.Copy(engine, client)
		engine.Close()
	}()
	buf := make([]byte, 64<<10)
	finished := false
	for {
		n, err := engine.Read(buf)
		if bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 ")) { // the next answer on this connection
			finished = false
		}
		events := int64(bytes.Count(buf[:n], []byte("data: {")))
		if left := c.after.Load(); left > 0 && events > 0 {
			if left <= events {
				c.after.Store(0)
				for at := 0; ; { // up to the event at which it breaks
					i := bytes.Index(buf[at:n], []byte("data: {"))
					if i < 0 {
						break
					}
					if at += i + 1; left == 1 {
						n = at - 1
						break
					}
					left--
				}
				c.late.Store(finished || finishes(buf[:n]))
				client.Write(buf[:n])
				return
			}
			c.after.Store(left - events)
		}
		finished = finished || finishes(buf[:n])
		if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func finishes(events []byte) bool { return bytes.Contains(events, []byte(`"finish_reason":"`)) }

// Two real vLLM servers, named by VLLM_URLS: an answer that breaks off at one after any number of tokens goes
// on at the other with the same tokens and the same text; at last, with VLLM_KILL set, the first server's
// engine is stopped until it hangs, and the server is killed.
func TestAnAnswerGoesOnAtRealEngines(t *testing.T) {
	urls := strings.Split(os.Getenv("VLLM_URLS"), ",")
	if len(urls) < 2 {
		t.Skip("VLLM_URLS names no two vLLM servers of one model")
	}
	way := newCutter(t, strings.TrimPrefix(urls[0], "http://"))
	yaml := two
	for _, url := range []string{way.url(), urls[1]} {
		yaml = strings.Replace(yaml, "model: gpt-oss-20b, ", "", 1)
		yaml = strings.Replace(yaml, "engine: {profile: steady}", fmt.Sprintf("engine: {url: %q}", url), 1)
	}
	m := start(t, yaml)
	var logs []logged // of the answer asked last: what was said of each token
	var parsed string // and what parsers made of it
	ask := func(each func(bus.Chunk), members string) ([]uint32, string, bus.Result) {
		t.Helper()
		var chunks []bus.Chunk
		task := chat("Tell me of 咖啡馆 and ☕.", with(members))
		task.Body = []byte(strings.Replace(string(task.Body), `"max_tokens":40,`, "", 1))
		a, err := m.AskWith(t.Context(), task, func(c bus.Chunk) {
			chunks = append(chunks, c)
			if each != nil {
				each(c)
			}
		})
		if err != nil || a.Result.Code != "" {
			t.Fatalf("%+v, %v", a.Result, err)
		}
		var before, after []uint32
		var said [2][]logged
		parsed = ""
		for _, c := range chunks {
			for _, x := range c.Extra {
				said[c.Attempt] = append(said[c.Attempt], logprobs(t, x.Choice)...)
				parsed += deltas(t, x.Choice)
			}
			if c.Attempt == 0 {
				before = append(before, c.Tokens...)
			} else {
				after = append(after, c.Tokens...)
			}
		}
		kept := a.Result.Usage.Output - len(after)
		logs = append(said[0][:min(kept, len(said[0]))], said[1]...)
		return append(before[:kept], after...), a.Text, a.Result
	}
	answers := map[string]string{
		"greedy":                    `"temperature":0,"ignore_eos":true,"max_tokens":48`,
		"greedy, counting repeats":  `"temperature":0,"ignore_eos":true,"repetition_penalty":1.3,"max_tokens":48`,
		"greedy, against frequency": `"temperature":0,"ignore_eos":true,"frequency_penalty":0.7,"logit_bias":{"7":1.5},"max_tokens":48`,
		// Exact, as these answers repeat nothing: see penalise.
		"greedy, against presence":       `"temperature":0,"ignore_eos":true,"presence_penalty":0.7,"max_tokens":48`,
		"greedy, with log probabilities": `"temperature":0,"ignore_eos":true,"frequency_penalty":0.7,"logprobs":true,"top_logprobs":3,"max_tokens":48`,
	}
	if os.Getenv("VLLM_PARSERS") != "" {
		answers = map[string]string{
			"reasoning": `"temperature":0,"ignore_eos":true,"repetition_penalty":1.3,"max_tokens":48`,
			"tools": `"temperature":0,"ignore_eos":true,"repetition_penalty":1.3,"max_tokens":48,"tools":[{"type":"function","function":
				{"name":"look_up","description":"looks up","parameters":{"type":"object","properties":{"q":{"type":"string"}}}}}]`,
		}
	}
	for name, members := range answers {
		t.Run(name, func(t *testing.T) {
			ids, text, whole := ask(nil, members)
			values, read := logs, parsed
			if os.Getenv("VLLM_PARSERS") != "" {
				t.Logf("text %q, parsers %q, %s", text, read, whole.Finish)
				if read == "" {
					t.Fatal("no parser had anything to say")
				}
			}
			if strings.Contains(members, "logprobs") && len(values) != 48 {
				t.Fatalf("log probabilities of %d tokens", len(values))
			}
			if len(ids) != 48 {
				t.Fatalf("%d tokens of %s", len(ids), whole.Agent)
			}
			cuts := 0
			for k := int64(2); k < 50; k++ {
				bustest.Eventually(t, "eight slots are free", func() bool { return m.Free() == 8 })
				way.after.Store(k)
				got, said, r := ask(nil, members)
				for range 20 { // an agent that has just failed is looked at before it is sold again
					if way.after.Load() == 0 {
						break
					}
					bustest.Eventually(t, "eight slots are free", func() bool { return m.Free() == 8 })
					got, said, r = ask(nil, members)
				}
				switch {
				case way.after.Load() == 0 && !way.late.Load():
					if cuts++; r.Agent != "second" {
						t.Errorf("cut before event %d, and %s ends the answer", k, r.Agent)
					}
				case k < 16:
					t.Fatalf("event %d of 48 tokens never came", k)
				}
				for i := range values {
					if i >= len(logs) || !alike(logs[i], values[i]) {
						t.Errorf("cut before event %d, finished by %s: log probabilities of token %d of "+
							"%d:\n%v, want\n%v", k, r.Agent, i, len(logs), logs[min(i, len(logs)-1)],
							values[i])
					}
				}
				if parsed != read || r.Finish != whole.Finish {
					t.Errorf("cut before event %d, finished by %s: parsers %q, %s, want\n%q, %s", k, r.Agent,
						parsed, r.Finish, read, whole.Finish)
				}
				if !slices.Equal(got, ids) || said != text || r.Usage.Output != 48 ||
					r.Usage.Prompt != whole.Usage.Prompt {
					t.Errorf("cut before event %d, finished by %s:\n%v %q %+v, want\n%v %q %+v", k, r.Agent,
						got, said, r.Usage, ids, text, whole.Usage)
				}
				way.after.Store(0)
			}
			t.Logf("cut at %d of 48 events", cuts)
		})
	}
	if os.Getenv("VLLM_KILL") == "" {
		return
	}
	const long = `"temperature":0,"ignore_eos":true,"max_tokens":4000`
	ids, text, _ := ask(nil, long)
	for _, c := range []struct {
		name, process string
		hurt          syscall.Signal
	}{
		{"hangs", "EngineCore", syscall.SIGSTOP}, // its server goes on saying that it is well
		{"dies", "", syscall.SIGKILL},
	} {
		t.Run(c.name, func(t *testing.T) {
			bustest.Eventually(t, "eight slots are free", func() bool { return m.Free() == 8 })
			bustest.Eventually(t, "the first agent serves",
				func() bool { _, _, r := ask(nil, `"max_tokens":1`); return r.Agent == "first" })
			var got []uint32
			var said string
			var r bus.Result
			hurtAt := 0
			// the engine may be far ahead of its server, and through before it is stopped: then nothing has
			// failed
			for range 3 {
				n := 0
				hurtAt = 0
				got, said, r = ask(func(b bus.Chunk) {
					if n += b.Count; n > 100 && hurtAt == 0 {
						hurtAt = n
						signal(t, urls[0], c.process, c.hurt)
					}
				}, long)
				if c.hurt == syscall.SIGSTOP {
					signal(t, urls[0], c.process, syscall.SIGCONT)
				}
				if c.hurt != syscall.SIGSTOP || r.Agent != "first" {
					break
				}
				t.Logf("stopped when %d tokens were there, and had them all", hurtAt)
				bustest.Eventually(t, "eight slots are free", func() bool { return m.Free() == 8 })
			}
			t.Logf("hurt when %d of %d tokens were there; %+v, billed %+v", hurtAt, len(got), r.Usage,
				r.Billed)
			if !slices.Equal(got, ids) || said != text || r.Agent != "second" || len(r.Receipt.Earlier) != 1 {
				t.Errorf("%d tokens of %s, %+v; equal: %v", len(got), r.Agent, r.Receipt,
					slices.Equal(got, ids))
			}
		})
	}
}

// deltas joins a parser's output for tokens: reasoning, and calls without their ids, which are random.
func deltas(t *testing.T, choice []byte) (s string) {
	t.Helper()
	var c struct {
		Delta struct {
			Reasoning string
			Calls     []struct {
				Index    int
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(choice, &c); err != nil {
		t.Fatalf("%v: %s", err, choice)
	}
	s = c.Delta.Reasoning
	for _, call := range c.Delta.Calls {
		if call.Function.Name != "" {
			s += fmt.Sprintf("[%d %s]", call.Index, call.Function.Name)
		}
		s += call.Function.Arguments
	}
	return s
}

// logged holds a chat's log probabilities of a token.
type logged struct {
	candidate
	Top []candidate `json:"top_logprobs"`
}

type candidate struct {
	Token   string
	Logprob float64
	Bytes   []int
}

func logprobs(t *testing.T, choice []byte) []logged {
	t.Helper()
	var c struct {
		Logprobs struct{ Content []logged }
	}
	if err := json.Unmarshal(choice, &c); err != nil {
		t.Fatalf("%v: %s", err, choice)
	}
	return c.Logprobs.Content
}

// alike compares the two, of which one may be continued: parts of characters read alike, and of those it has
// one where there are several.
func alike(got, want logged) bool {
	same := func(a, b candidate) bool {
		return a.Token == b.Token && a.Logprob == b.Logprob && slices.Equal(a.Bytes, b.Bytes)
	}
	parts := 0
	for _, c := range slices.Concat(got.Top, want.Top) {
		if c.Token == "" {
			parts++
		}
	}
	return same(got.candidate, want.candidate) &&
		(parts > 0 && len(got.Top) > 0 && same(got.Top[0], want.Top[0]) ||
			slices.EqualFunc(got.Top, want.Top, same))
}

// signal sends a signal to the process group of the server that was started with the port of a URL, or to
// those of its processes that have name in their command line.
func signal(t *testing.T, url, name string, s syscall.Signal) {
	port := url[strings.LastIndexByte(url, ':')+1:]
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	group := 0
	lines := map[int]string{}
	for _, p := range paths {
		line, err := os.ReadFile(p)
		var pid int
		if fmt.Sscanf(p, "/proc/%d/", &pid); err != nil {
			continue
		}
		lines[pid] = string(line)
		if bytes.Contains(line, []byte("vllm.entrypoints")) &&
			bytes.Contains(line, []byte("--port\x00"+port+"\x00")) {
			group, _ = syscall.Getpgid(pid)
		}
	}
	sent := 0
	for pid, line := range lines {
		if g, err := syscall.Getpgid(pid); err != nil || group == 0 || g != group ||
			!strings.Contains(line, name) {
			continue
		}
		if err := syscall.Kill(pid, s); err != nil {
			t.Errorf("%s to %d: %v", s, pid, err)
		}
		sent++
	}
	if sent == 0 {
		t.Errorf("no process %q of a server with --port %s", name, port)
	}
}
