package classifier

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"souk/bus"
)

var update = flag.Bool("update", false, "write what the scripts print into testdata")

// The scripts of testdata/placing.txt: a line that begins with a time says what happens then, the indented
// lines below it what the door wants done. Hubs are math, other and general, best first for a task about
// mathematics.
func TestPlacing(t *testing.T) {
	const file = "testdata/placing.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, script := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		got := playPlacing(t, script)
		if out = append(out, got); got != script && !*update {
			t.Errorf("want\n%s\ngot\n%s", script, got)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func playPlacing(t *testing.T, script string) string {
	start := time.Unix(1000, 0)
	now, wake := start, time.Time{}
	c := Default()
	c.StatusTTL = time.Hour
	d := NewDesk(&c, maphash.MakeSeed())
	table := &Table{}
	for _, e := range []bus.HubEntry{
		{Domain: "general", Journal: "general", General: true},
		{Domain: "math", Journal: "math", Labels: []string{"math"}},
		{Domain: "other", Journal: "other", Labels: []string{"math"}},
	} {
		table = table.WithEntry(e, 1, start)
	}
	var p *Placing
	var b strings.Builder
	ready := func(woken bool) {
		if p == nil {
			return
		}
		at := ""
		if woken {
			at = now.Sub(start).String() + " "
		}
		hub, agent := p.Tells()
		out := p.Ready()
		wake = out.Wake
		if hub != "" {
			fmt.Fprintf(&b, "  %scancel at hub %s\n", at, hub)
		}
		if agent != "" {
			fmt.Fprintf(&b, "  %scancel at agent %s\n", at, agent)
		}
		if out.Ask != "" {
			fmt.Fprintf(&b, "  %sask %s\n", at, out.Ask)
		}
		switch a := out.Answer; {
		case a == nil:
		case a.Accepted != nil:
			fmt.Fprintf(&b, "  %sanswer: accepted by %s of %s\n", at, a.Accepted.Agent, a.Accepted.Hub)
		default:
			fmt.Fprintf(&b, "  %sanswer: %s, %s\n", at, a.Result.Code, a.Result.Message)
		}
	}
	look := func() { // as the server does
		waits := p.Asks() != ""
		if p.Tick(now, table); waits && p.Asks() == "" {
			p.Step(now, table, nil, context.Canceled)
		}
	}
	for _, line := range strings.Split(script, "\n") {
		if strings.HasPrefix(line, " ") {
			continue
		}
		at, what, _ := strings.Cut(line, " ")
		to, err := time.ParseDuration(at)
		if err != nil {
			fmt.Fprintln(&b, line) // a name, or a comment
			continue
		}
		for p != nil && !wake.IsZero() && !wake.After(start.Add(to)) {
			if !wake.After(now) {
				t.Fatalf("%s: woken at once, again and again", line)
			}
			now = wake
			p.Tick(now, table)
			ready(true)
		}
		now = start.Add(to)
		fmt.Fprintln(&b, line)
		word := strings.Fields(what)
		switch word[0] {
		case "task":
			task := &bus.Task{Client: "ada", ID: "t", Stream: true}
			own := false
			for _, w := range word[1:] {
				switch k, v, _ := strings.Cut(w, "="); k {
				case "id":
					own = true
				case "whole":
					task.Stream = false
				case "deadline":
					d, _ := time.ParseDuration(v)
					task.DeadlineMS = now.Add(d).UnixMilli()
				case "goes-on":
					task.Hub, task.Resume = v, &bus.Resume{Agent: "a"}
				}
			}
			p = d.Place(now, task, own, Want{Label: "math", Confident: true})
			p.Tick(now, table)
		case "accepted":
			p.Step(now, table, &bus.Answer{Accepted: &bus.Accepted{Agent: word[1], Hub: p.Asks()}}, nil)
		case "refused":
			r := &bus.Result{Code: bus.Code(word[1]), Message: "said " + p.Asks()}
			p.Step(now, table, &bus.Answer{Result: r}, nil)
		case "fails":
			p.Step(now, table, nil, map[string]error{
				"nobody": bus.ErrNoResponders, "unsent": bus.ErrNotSent, "cut": bus.ErrDisconnected,
				"large": bus.ErrTooLarge, "silent": errors.New("no answer in time"),
			}[word[1]])
		case "cancel":
			p.Cancel()
		case "closed":
			p.End(errors.New("the door closes"))
		case "gone":
			table = table.Without(word[1])
			look()
		case "leads":
			epoch, err := strconv.ParseInt(word[3], 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			e := bus.HubEntry{Domain: word[1], Labels: []string{"math"}, Journal: word[2]}
			table = table.WithEntry(e, epoch, now)
			look()
		default:
			t.Fatalf("no such event: %s", line)
		}
		ready(false)
	}
	return strings.TrimSpace(b.String())
}

// Whatever hubs, registry and bus do, the task is never with two hubs, it is asked for a bounded number of
// times, and its client gets one answer.
func TestATaskIsNeverWithTwoHubs(t *testing.T) {
	for seed := range uint64(5000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		now := time.Unix(1000, 0)
		c := Default()
		c.StatusTTL = time.Hour
		d := NewDesk(&c, maphash.MakeSeed())
		table := &Table{}
		names := []string{"a", "b", "c", "d"}
		leads := func(name, journal string, epoch int64) {
			table = table.WithEntry(bus.HubEntry{Domain: name, Labels: []string{"math"}, Journal: journal},
				epoch, now)
		}
		for _, n := range names {
			leads(n, n, 1)
		}
		task := &bus.Task{Client: "ada", ID: "t", Stream: true}
		if rng.IntN(3) == 0 {
			task.DeadlineMS = now.Add(5 * time.Second).UnixMilli()
		}
		holds, answered := "", 0
		for turn := range 3 { // the same id again and again
			p := d.Place(now, task, true, Want{Label: "math", Confident: true})
			p.Tick(now, table)
			asks, begun := 0, now
			for over := false; !over; {
				_, _ = p.Tells()
				out := p.Ready()
				if out.Ask != "" {
					if asks++; holds != "" && holds != out.Ask {
						t.Fatalf("seed %d: hub %s is given a task that %s may have", seed, out.Ask, holds)
					}
				}
				if out.Answer != nil {
					answered++
					break
				}
				if asks > 300 || now.Sub(begun) > 2*time.Hour {
					t.Fatalf("seed %d: %d asks in %v, and no answer", seed, asks, now.Sub(begun))
				}
				hub := p.Asks()
				before := holds
				says := func(a *bus.Answer, err error) { p.Step(now, table, a, err) }
				switch event := rng.IntN(12); {
				case event == 0:
					table = table.Without(names[rng.IntN(4)])
				case event == 1:
					n := names[rng.IntN(4)]
					journal := n
					if rng.IntN(4) == 0 {
						journal = "another"
					}
					leads(n, journal, int64(10*turn+asks+2))
				case event == 2:
					p.Cancel()
				case hub == "":
					now = now.Add(time.Duration(rng.IntN(2000)+1) * time.Millisecond)
					p.Tick(now, table)
				case event == 3:
					holds = hub
					says(&bus.Answer{Accepted: &bus.Accepted{Agent: "x", Hub: hub}}, nil)
				case event == 4:
					holds = hub
					says(nil, bus.ErrDisconnected)
				case event == 5:
					holds = hub
					says(nil, errors.New("no answer in time"))
				case event == 6:
					says(nil, []error{bus.ErrNoResponders, bus.ErrNotSent}[rng.IntN(2)])
				case event == 7 && before == "":
					code := []bus.Code{bus.CodeUnavailable, bus.CodeDraining, bus.CodeNoRoom}[rng.IntN(3)]
					says(&bus.Answer{Result: &bus.Result{Code: code}}, nil)
				case event == 8: // whoever says that it has no room has not got the task
					holds = ""
					says(&bus.Answer{Result: &bus.Result{Code: bus.CodeNoRoom}}, nil)
				case event == 9:
					says(&bus.Answer{Result: &bus.Result{Code: bus.CodeUnavailable}}, nil)
				default:
					now = now.Add(time.Duration(rng.IntN(2000)+1) * time.Millisecond)
				}
				if hub != "" && hub == p.Asks() {
					if p.Tick(now, table); p.Asks() == "" {
						holds = hub // it died, and nobody knows whether it has the task
						p.Step(now, table, nil, context.Canceled)
					}
				}
			}
		}
		if answered != 3 {
			t.Fatalf("seed %d: %d answers to 3 requests", seed, answered)
		}
	}
}
