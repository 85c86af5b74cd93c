package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/console"
	"souk/cmd/local"
)

// oneSlot is a market whose only agent has one slot, and says a token every 100 ms.
const oneSlot = `
listen: 127.0.0.1:0
domains: [{name: general, general: true}]
agents:
  - {id: a-1, model: m, price_row: groq/openai/gpt-oss-20b, slots: 1, engine: {profile: steady},
     scores: [{domain: general, score: 0.7}]}
speedup: 0.1
clients: {dev: 10}
`

// onFirst calls a function before the first bytes that are written.
type onFirst func()

func (f *onFirst) Write(b []byte) (int, error) {
	if *f != nil {
		(*f)()
		*f = nil
	}
	return len(b), nil
}

// cancelled reports whether a command says so of its task, as it does after a word on what it waits for where
// that takes long.
func cancelled(said string) bool { return strings.Contains("\n"+said, "\ncancelled: ") }

// Ctrl-C in the middle of an answer, and while a task waits for a slot: nothing goes on without the client,
// and what was paid is said.
func TestSubmitIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	cfg, err := local.ParseConfig("market.yaml", []byte(oneSlot))
	if err != nil {
		t.Fatal(err)
	}
	m, err := local.Start(t.Context(), local.Options{Dir: dir, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	// ask runs souk submit until ctx ends, and says what it wrote to stderr.
	ask := func(ctx context.Context, task string, out *onFirst) string {
		var said bytes.Buffer
		c := root()
		c.SetOut(out)
		c.SetErr(&said)
		c.SetArgs([]string{"submit", "--data", dir, "--task", task, "Tell me a long story."})
		if err := c.ExecuteContext(ctx); !errors.Is(err, console.Exit(130)) {
			t.Errorf("%s: %v: %s", task, err, &said)
		}
		return said.String()
	}
	runs, end := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan string)
	first := onFirst(func() { close(begun) })
	go func() { ended <- ask(runs, "runs", &first) }()
	<-begun
	waits, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { ended <- ask(waits, "waits", new(onFirst)) }()
	bustest.Eventually(t, "the second one waits", func() bool { return m.Hubs[0].Stats().Waiting == 1 })
	stop()
	if said := <-ended; !cancelled(said) ||
		!strings.HasSuffix(said, "; nothing was paid\n") {
		t.Errorf("of one that waited: %s", said)
	}
	end()
	if said := <-ended; !cancelled(said) || !strings.Contains(said, "; paid 0.0000") ||
		!strings.Contains(said, " | receipt general/1/0\n") {
		t.Errorf("of one that ran: %s", said)
	}
	bustest.Eventually(t, "the slot is free", func() bool { return m.Free() == 1 })
}

// An answer that nobody can take any more is cancelled as by Ctrl-C, and what was paid is said: its reader
// has gone (as of "souk submit | head"), the disk is full, or the terminal was closed.
func TestSubmitWithoutAReaderIsCancelled(t *testing.T) {
	dir := t.TempDir()
	cfg, err := local.ParseConfig("market.yaml", []byte(oneSlot))
	if err != nil {
		t.Fatal(err)
	}
	m, err := local.Start(t.Context(), local.Options{Dir: dir, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, test := range []struct {
		name string
		full bool                               // stdout is a full disk
		then func(read *os.File, p *os.Process) // once the first of the answer has come
		code int
		says string
	}{
		{"reader gone", false, func(read *os.File, _ *os.Process) { read.Close() }, 1, "broken pipe"},
		{"disk full", true, nil, 1, "no space left on device"},
		{"terminal closed", false, func(_ *os.File, p *os.Process) { p.Signal(syscall.SIGHUP) }, 130, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.code == 130 && signal.Ignored(syscall.SIGHUP) {
				t.Skip("under nohup: what it starts does not hear that a terminal was closed")
			}
			read, write, err := os.Pipe()
			if test.full {
				write, err = os.OpenFile("/dev/full", os.O_WRONLY, 0)
			}
			if err != nil {
				t.Skip(err)
			}
			defer read.Close()
			var said bytes.Buffer
			c := exec.Command(os.Args[0], "submit", "--data", dir, "Tell me a long story.")
			c.Env = append(os.Environ(), asSouk+"=1")
			c.Stdout, c.Stderr = write, &said
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			write.Close()
			if test.then != nil {
				read.Read(make([]byte, 1))
				test.then(read, c.Process)
			}
			c.Wait()
			if code := c.ProcessState.ExitCode(); code != test.code ||
				!cancelled(said.String()) ||
				!strings.Contains(said.String(), "; paid 0.0000") ||
				!strings.Contains(said.String(), test.says) {
				t.Errorf("exit status %d: %s", code, &said)
			}
			bustest.Eventually(t, "the slot is free", func() bool { return m.Free() == 1 })
		})
	}
}

// What was paid is said also where the object that says so cannot be written.
func TestSubmitWithoutAReaderOfItsObject(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	cfg, err := local.ParseConfig("market.yaml", []byte(oneSlot))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m, err := local.Start(t.Context(), local.Options{Dir: dir, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var said bytes.Buffer
	c := root()
	c.SetOut(full)
	c.SetErr(&said)
	c.SetArgs([]string{"submit", "--data", dir, "--json", "--max-tokens", "2", "Hello"})
	if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "no space left") ||
		!strings.HasPrefix(said.String(), "paid 0.0000") {
		t.Errorf("%v: %s", err, &said)
	}
}

// A task of which nobody says how it ended ends the command as one that was interrupted.
func TestExitCodeOfSubmit(t *testing.T) {
	for _, c := range []struct {
		code        bus.Code
		interrupted bool
		want        error
	}{
		{"", false, nil}, {"", true, nil}, {bus.CodeNoRoom, false, console.Exit(1)},
		{bus.CodeCancelled, false, console.Exit(1)}, {bus.CodeCancelled, true, console.Exit(130)},
		{bus.CodeUnknown, false, console.Exit(1)}, {bus.CodeUnknown, true, console.Exit(130)},
	} {
		if got := exit(c.code, c.interrupted); got != c.want {
			t.Errorf("%s, interrupted %v: %v, want %v", c.code, c.interrupted, got, c.want)
		}
	}
}

// Who has to wait after Ctrl-C is told for what, and how to leave; who need not is told nothing.
func TestCancellingIsSaid(t *testing.T) {
	for late, want := range map[time.Duration]int{saysWhy - 1: 0, saysWhy + 1: 1} {
		synctest.Test(t, func(t *testing.T) {
			var said strings.Builder
			ctx, cancel := context.WithCancel(t.Context())
			end := cancelling(ctx, &said)
			cancel()
			time.Sleep(late)
			if end(); strings.Count(said.String(), "at most 5s (Ctrl-C again ends this at once)\n") != want {
				t.Errorf("%v after Ctrl-C: %q", late, &said)
			}
		})
	}
}
