package integration

import (
	"bytes"
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
)

// cutter is a way to an engine that breaks in the middle of a stream.
type cutter struct {
	net.Listener
	to    string
	after atomic.Int64 // events that the next stream still passes; 0: all
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
	for {
		n, err := engine.Read(buf)
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
				client.Write(buf[:n])
				return
			}
			c.after.Store(left - events)
		}
		if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// Two real vLLM servers, named by VLLM_URLS: an answer that breaks off at one after any number of tokens goes on at the other
// with the same tokens and the same text; at last the first server is killed, by its process group, with
// VLLM_KILL set.
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
		for _, c := range chunks {
			if c.Attempt == 0 {
				before = append(before, c.Tokens...)
			} else {
				after = append(after, c.Tokens...)
			}
		}
		return append(before[:a.Result.Usage.Output-len(after)], after...), a.Text, a.Result
	}
	for name, members := range map[string]string{
		"greedy":                    `"temperature":0,"ignore_eos":true,"max_tokens":48`,
		"greedy, counting repeats":  `"temperature":0,"ignore_eos":true,"repetition_penalty":1.3,"max_tokens":48`,
		"greedy, against frequency": `"temperature":0,"ignore_eos":true,"frequency_penalty":0.7,"logit_bias":{"7":1.5},"max_tokens":48`,
	} {
		t.Run(name, func(t *testing.T) {
			ids, text, whole := ask(nil, members)
			if len(ids) != 48 {
				t.Fatalf("%d tokens of %s", len(ids), whole.Agent)
			}
			for k := int64(2); k < 50; k++ {
				eventually(t, "eight slots are free", func() bool { return m.Free() == 8 })
				way.after.Store(k)
				got, said, r := ask(nil, members)
				for range 20 { // an agent that has just failed is looked at before it is sold again
					if way.after.Load() == 0 {
						break
					}
					eventually(t, "eight slots are free", func() bool { return m.Free() == 8 })
					got, said, r = ask(nil, members)
				}
				if k < 48 && (way.after.Load() != 0 || r.Agent != "second") {
					t.Fatalf("event %d never came", k)
				}
				if !slices.Equal(got, ids) || said != text || r.Usage.Output != 48 || r.Usage.Prompt != whole.Usage.Prompt {
					t.Errorf("cut before event %d, finished by %s:\n%v %q %+v, want\n%v %q %+v", k, r.Agent, got, said, r.Usage, ids, text, whole.Usage)
				}
				way.after.Store(0)
			}
		})
	}
	if os.Getenv("VLLM_KILL") == "" {
		return
	}
	eventually(t, "eight slots are free", func() bool { return m.Free() == 8 })
	const long = `"temperature":0,"ignore_eos":true,"max_tokens":4000`
	ids, text, _ := ask(nil, long)
	n, killedAt := 0, 0
	got, said, r := ask(func(c bus.Chunk) {
		if n += c.Count; n > 100 && killedAt == 0 && c.Attempt == 0 {
			killedAt = n
			killGroup(t, urls[0])
		}
	}, long)
	t.Logf("killed when %d of %d tokens were there; %+v, billed %+v", killedAt, len(got), r.Usage, r.Billed)
	if !slices.Equal(got, ids) || said != text || r.Agent != "second" || len(r.Receipt.Earlier) != 1 {
		t.Errorf("after a kill -9 %d tokens of %s, %+v; equal: %v", len(got), r.Agent, r.Receipt, slices.Equal(got, ids))
	}
}

// killGroup kills the process group of the server that was started with the port of a URL.
func killGroup(t *testing.T, url string) {
	port := url[strings.LastIndexByte(url, ':')+1:]
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range paths {
		line, err := os.ReadFile(p)
		if err != nil || !bytes.Contains(line, []byte("vllm.entrypoints")) || !bytes.Contains(line, []byte("--port\x00"+port+"\x00")) {
			continue
		}
		var pid int
		fmt.Sscanf(p, "/proc/%d/", &pid)
		group, err := syscall.Getpgid(pid)
		if err == nil {
			err = syscall.Kill(-group, syscall.SIGKILL)
		}
		if err != nil {
			t.Errorf("kill -9 %d: %v", pid, err)
		}
		return
	}
	t.Errorf("no server with --port %s", port)
}
