package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/jedib0t/go-pretty/v6/text"

	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/local"
	"souk/market"
)

// hugeTop is a picture of many hubs, agents and rounds with names that others chose.
func hugeTop(hostile string) *top {
	var hubs []local.Watched
	var rounds []local.WatchedRound
	for i := range 80 {
		d := fmt.Sprintf("domain-%02d", i)
		h := local.Watched{Domain: d, Heard: time.UnixMilli(1_800_000_000_000), Status: bus.Status{Domain: d,
			Agents: 128, Slots: 1 << 16, Free: 1 << 16, Waiting: 1 << 20, Regime: hostile, Closed: hostile},
			State: &bus.FeedState{Served: 1 << 40, Refused: 1 << 40, Surplus: market.MaxCredits}}
		for k := range 128 {
			h.State.Agents = append(h.State.Agents, bus.FeedAgent{Agent: fmt.Sprintf("a-%02d-%03d", i, k),
				Model: hostile, State: "silent", Slots: 1 << 16, Running: k, Free: 1 << 16, Tasks: 1 << 40,
				Prompt: 10, Cached: int64(k % 10)})
			h.Status.Models = append(h.Status.Models, bus.ModelStatus{Model: hostile, Agents: 1 << 20,
				Price: market.Price{Miss: market.MaxCredits, Hit: 1, Out: market.MaxCredits}})
		}
		hubs = append(hubs, h)
		r := bus.FeedRound{Number: 1 << 60, Tasks: 1 << 20, Given: 1 << 19, Premiums: 3, SlotPrice: 5}
		for range 16 {
			r.Left = append(r.Left, bus.FeedLeft{Agent: strings.Repeat("x", 64), Value: 1,
				Needed: market.MaxCredits})
		}
		rounds = append(rounds, local.WatchedRound{Journal: d, FeedRound: r})
	}
	t := &top{market: hostile, width: 80, height: 24, hubs: func() []local.Watched { return hubs },
		rounds: func() []local.WatchedRound { return rounds }}
	t.look(time.UnixMilli(1_800_000_009_000))
	return t
}

// However large the market and whatever its parts are called, the picture fits the screen, whatever its size,
// and has nothing in it that a terminal obeys.
func TestThePictureFitsTheScreen(t *testing.T) {
	screen := hugeTop("\x1b[2J\x1b]0;owned\a\r\n" + strings.Repeat("宽ж", 100))
	for _, size := range [][2]int{{80, 24}, {200, 60}, {20, 5}, {1, 1}, {80, 3}} {
		screen.width, screen.height = size[0], size[1]
		for view := range views {
			screen.turn(view)
			for _, key := range []string{"s", "r", "pgdown", "down", "up", "pgup", "space", "space", "home",
				"up"} {
				screen.key(key)
				lines := strings.Split(screen.draw(), "\n")
				if len(lines) > size[1] {
					t.Fatalf("%v: %d lines", size, len(lines))
				}
				for _, l := range lines {
					if text.StringWidth(l) > size[0] || strings.ContainsFunc(l,
						func(r rune) bool { return r < ' ' }) {
						t.Fatalf("%v, view %d: %q has %d columns", size, view, l, text.StringWidth(l))
					}
				}
			}
		}
	}
}

// Keys scroll, sort, reverse, hold the picture and change the view.
func TestKeysOfTop(t *testing.T) {
	screen := hugeTop("m")
	first := func() string { return strings.Fields(strings.Split(screen.draw(), "\n")[5])[0] }
	for _, step := range []struct{ keys, first string }{
		{"", "a-00-000"}, {"down", "a-00-001"}, {"up up", "a-00-000"}, {"pgdown", "a-00-018"}, {"home",
			"a-00-000"},
		{"s s s s", "a-00-127"}, {"r", "a-79-000"}, {"right", "m"}, {"right", "domain-00/115~"},
		{"right", "domain-00"}, {"r", "domain-79"}, {"tab", "a-00-127"}, {"left 1", "a-00-127"},
	} {
		for _, k := range strings.Fields(step.keys) {
			screen.key(k)
		}
		if got := first(); got != step.first {
			t.Errorf("after %q the first is %s, want %s", step.keys, got, step.first)
		}
	}
	screen.key("space")
	screen.hubs = func() []local.Watched { return nil }
	screen.look(time.Now())
	if !strings.Contains(screen.draw(), "HELD") || !strings.Contains(screen.draw(), "hubs 80") {
		t.Error("it is not held")
	}
	screen.key("space")
	screen.look(time.Now())
	if !strings.Contains(screen.draw(), "no hub is heard yet") {
		t.Error("it is held for ever")
	}
	if screen.key("q") == nil || screen.key("x") != nil {
		t.Error("q does not end it, or another key does")
	}
}

// The command in a terminal: it shows a market that runs, follows keys and the terminal's size, uses no
// colour, and gives the terminal back. Where there is none it says what to do instead.
func TestTopInATerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
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
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, "top", "--data", dir)
	c.Env = append(os.Environ(), asSouk+"=1", "TERM=xterm", "COLORTERM=")
	tty, err := pty.StartWithSize(c, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Skip(err)
	}
	defer tty.Close()
	var mu sync.Mutex
	var out bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := tty.Read(b)
			mu.Lock()
			out.Write(b[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	from := 0
	shows := func(words ...string) {
		t.Helper()
		for _, word := range words {
			bustest.Eventually(t, "it shows "+word, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return bytes.Contains(out.Bytes()[from:], []byte(word))
			})
		}
	}
	// of another size the terminal is drawn anew
	resize := func(rows uint16) {
		t.Helper()
		mu.Lock()
		from = out.Len()
		mu.Unlock()
		if err := pty.Setsize(tty, &pty.Winsize{Rows: rows, Cols: 80}); err != nil {
			t.Fatal(err)
		}
	}
	press := func(keys string) {
		t.Helper()
		if _, err := tty.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	shows("a-1", "general", "scroll")
	press("\x1b[C") // right
	shows("models]")
	resize(30)
	shows("models]", "scroll")
	press("4s")
	shows("hubs]")
	press("q")
	<-read
	if err := c.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	all := out.String()
	if colour := regexp.MustCompile(`\x1b\[[0-9;]*\b(3[0-7]|4[0-7]|9[0-7]|38|48)\b[0-9;]*m`).FindString(all); colour != "" {
		t.Errorf("it uses colour: %q", colour)
	}
	if !strings.Contains(all, "\x1b[?1049h") || !strings.Contains(all, "\x1b[?1049l") {
		t.Error("the terminal's own screen is not given back")
	}
	c = exec.CommandContext(t.Context(), program, "top", "--data", dir)
	c.Env = append(os.Environ(), asSouk+"=1")
	if text, err := c.CombinedOutput(); err == nil || !strings.Contains(string(text),
		"souk status prints a page") {
		t.Errorf("without a terminal: %v: %s", err, text)
	}
}

// An amount loses digits where there is little room, never its exponent.
func TestAmountsFitTheirColumns(t *testing.T) {
	for _, test := range []struct {
		c     market.Credits
		width int
		want  string
	}{{37_674, 9, "3.767e-05"}, {37_674, 6, " 4e-05"}, {37_674, 7, "3.8e-05"}, {113_145, 6, "0.0001"},
		{75_000_000, 7, "  0.075"}, {-37_674, 7, " -4e-05"}, {0, 6, "     0"},
		{market.MaxCredits, 6, fmt.Sprintf("%6.1g", float64(market.MaxCredits)/1e9)}} {
		c := amount(test.c)
		if got := c.written(test.width); got != test.want {
			t.Errorf("%d in %d columns: %q, want %q", test.c, test.width, got, test.want)
		}
	}
}
