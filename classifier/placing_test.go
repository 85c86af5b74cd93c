package classifier

import (
	"context"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest/script"
)

// The scripts of testdata/placing.txt: a line that begins with a time says what happens then, the indented
// lines below it what the door wants done. Hubs are math, other and general, best first for a task about
// mathematics.
func TestPlacing(t *testing.T) {
	start := time.Unix(1000, 0)
	script.Run(t, "testdata/placing.txt", start, func(t *testing.T, say script.Say) script.Scene {
		c := Default()
		c.StatusTTL = time.Hour
		s := &placingScene{t: t, say: say, d: NewDesk(&c, maphash.MakeSeed()), table: &Table{}}
		for _, e := range []bus.HubEntry{
			{Domain: "general", Journal: "general", General: true},
			{Domain: "math", Journal: "math", Labels: []string{"math"}},
			{Domain: "other", Journal: "other", Labels: []string{"math"}},
		} {
			s.table = s.table.WithEntry(e, 1, start)
		}
		return s
	})
}

// placingScene is a door with one task.
type placingScene struct {
	t     *testing.T
	say   script.Say
	d     *Desk
	table *Table
	p     *Placing
	now   time.Time
	wake  time.Time
	slow  bool // to end a wait for a verdict
}

func (s *placingScene) Wake(time.Time) time.Time { return s.wake }

func (s *placingScene) Tick(now time.Time) {
	s.now = now
	s.p.Tick(now, s.table)
	s.ready()
}

// ready prints what the door wants done.
func (s *placingScene) ready() {
	if s.p == nil {
		return
	}
	hub := s.p.Cancels()
	out := s.p.Ready()
	s.wake = out.Wake
	if hub != "" {
		s.say("cancel at hub %s", hub)
	}
	if out.Send != "" {
		s.say("send to %s", out.Send)
	}
	if out.Find {
		s.say("ask all hubs")
	}
	switch a := out.Answer; {
	case a == nil:
	case a.Accepted != nil:
		s.say("answer: accepted by %s of %s", a.Accepted.Agent, a.Accepted.Hub)
	default:
		s.say("answer: %s, %s", a.Result.Code, a.Result.Message)
	}
}

// look does what the server does when the table has changed.
func (s *placingScene) look() {
	waits := s.p.Awaits() != ""
	if s.p.Tick(s.now, s.table); waits && s.p.Awaits() == "" {
		s.stop()
	}
}

// stop does what the server does once it has ended the wait for a verdict.
func (s *placingScene) stop() {
	if !s.slow {
		s.p.Step(s.now, s.table, nil, context.Canceled, s.now)
	}
}

func (s *placingScene) Do(now time.Time, what string) {
	s.now = now
	word := strings.Fields(what)
	switch word[0] {
	case "task":
		task := &bus.Task{Client: "ada", ID: "t", Stream: true}
		own := false
		for _, w := range word[1:] {
			switch k, v, _ := strings.Cut(w, "="); k {
			case "id":
				own = true
			case "again":
				task.Again = bus.AgainUnheard
			case "whole":
				task.Stream = false
			case "deadline":
				d, _ := time.ParseDuration(v)
				task.DeadlineMS = now.Add(d).UnixMilli()
			case "goes-on":
				task.Hub, task.Resume = v, &bus.Resume{Agent: "a"}
			}
		}
		s.p = s.d.Place(now, task, own, Want{Label: "math", Confident: true})
		s.p.Tick(now, s.table)
	case "accepted":
		s.p.Step(now, s.table, &bus.Answer{Accepted: &bus.Accepted{Agent: word[1], Hub: s.p.Awaits()}}, nil,
			now)
	case "unsure":
		s.p.Step(now, s.table, &bus.Answer{Lookup: &bus.LastStatus{Epoch: 1, Seq: 9},
			Result: &bus.Result{Code: bus.CodeUnavailable, Message: "said " + s.p.Awaits()}}, nil, now)
	case "found":
		hub := word[1]
		if hub == "none" || hub == "silence" || hub == "late" {
			hub = ""
		}
		s.p.Found(hub, word[1] != "silence", word[1] == "late")
		s.p.Tick(now, s.table)
	case "refused":
		r := &bus.Result{Code: bus.Code(word[1]), Message: "said " + s.p.Awaits()}
		since := now
		if len(word) > 2 { // so old it may be
			old, _ := time.ParseDuration(word[2])
			since = now.Add(-old)
		}
		s.p.Step(now, s.table, &bus.Answer{Result: r}, nil, since)
	case "fails":
		s.p.Step(now, s.table, nil, map[string]error{
			"nobody": bus.ErrNoResponders, "unsent": bus.ErrNotSent, "cut": bus.ErrDisconnected,
			"large": bus.ErrTooLarge, "silent": errors.New("no answer in time"),
		}[word[1]], now)
	case "asked-again":
		s.p.Doubt(now)
		s.stop()
	case "slow":
		s.slow = true
	case "stops":
		s.slow = false
		s.stop()
	case "cancel":
		s.p.Cancel()
	case "closed":
		s.p.End(errors.New("the door closes"))
	case "full":
		s.table = s.table.WithStatus(&bus.Status{Domain: word[1], Epoch: 1, Seq: 1, Agents: 1,
			Models: []bus.ModelStatus{{Model: "m", Agents: 1}}}, now)
		s.look()
	case "gone":
		s.table = s.table.Without(word[1], s.now)
		s.look()
	case "leads":
		epoch, err := strconv.ParseInt(word[3], 10, 64)
		if err != nil {
			s.t.Fatalf("%s: %v", what, err)
		}
		e := bus.HubEntry{Domain: word[1], Labels: []string{"math"}, Journal: word[2]}
		s.table = s.table.WithEntry(e, epoch, now)
		s.look()
	default:
		s.t.Fatalf("no such event: %s", what)
	}
	s.ready()
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
			asks, begun, finding := 0, now, false
			for over := false; !over; {
				p.Cancels()
				out := p.Ready()
				if out.Send != "" {
					if asks++; holds != "" && holds != out.Send {
						t.Fatalf("seed %d: hub %s is given a task that %s may have", seed, out.Send, holds)
					}
				}
				finding = finding || out.Find
				if out.Answer != nil {
					answered++
					break
				}
				if asks > 300 || now.Sub(begun) > 2*time.Hour {
					t.Fatalf("seed %d: %d asks in %v, and no answer", seed, asks, now.Sub(begun))
				}
				hub := p.Awaits()
				before := holds
				says := func(a *bus.Answer, err error) { p.Step(now, table, a, err, now) }
				switch event := rng.IntN(12); {
				case event == 0:
					table = table.Without(names[rng.IntN(4)], now)
				case event == 1:
					n := names[rng.IntN(4)]
					journal := n
					if rng.IntN(4) == 0 {
						journal = "another"
					}
					leads(n, journal, int64(10*turn+asks+2))
				case event == 2:
					p.Cancel()
				case finding:
					finding = false
					p.Found(holds, holds == "" && rng.IntN(4) > 0, rng.IntN(8) == 0)
					p.Tick(now, table)
				case hub == "":
					now = now.Add(time.Duration(rng.IntN(2000)+1) * time.Millisecond)
					p.Tick(now, table)
				case event == 10 && holds != hub:
					says(&bus.Answer{Lookup: &bus.LastStatus{},
						Result: &bus.Result{Code: bus.CodeUnavailable}}, nil)
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
				if hub != "" && hub == p.Awaits() {
					if p.Tick(now, table); p.Awaits() == "" {
						holds = hub             // it died, and nobody knows whether it has the task
						for range rng.IntN(3) { // before the door has stopped waiting for it
							if leads(hub, hub, int64(10*turn+asks+3+rng.IntN(3))); rng.IntN(2) == 0 {
								table = table.Without(hub, now)
							}
							if p.Tick(now, table); p.Awaits() != "" {
								t.Fatalf("seed %d: %s is sent the task while its verdict is awaited", seed, hub)
							}
						}
						p.Step(now, table, nil, context.Canceled, now)
					}
				}
			}
		}
		if answered != 3 {
			t.Fatalf("seed %d: %d answers to 3 requests", seed, answered)
		}
	}
}
