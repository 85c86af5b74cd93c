package serve

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/life"
	"souk/market"
)

func report(hold string) agentd.Report {
	return agentd.Report{Domain: "math",
		Completion: bus.Completion{Agent: "a1", Boot: 7, Hold: hold, Client: "ann",
			Task: "t-" + strings.ReplaceAll(hold, "/", "-"), Outcome: bus.OutcomeDone,
			Finish: "stop", Usage: market.Usage{Prompt: 20, Cached: 16, Output: 3}, Relayed: 3, Cost: 1234}}
}

func holds(left []agentd.Report) string {
	var out []string
	for _, r := range left {
		out = append(out, r.Completion.Hold)
	}
	return strings.Join(out, " ")
}

func openSpool(t *testing.T, h *Home, want string) *Spool {
	t.Helper()
	s, left, note, err := h.Spool("a1", 100)
	if err != nil || note != nil {
		t.Fatal(err, note)
	}
	if got := holds(left); got != want {
		t.Fatalf("left is %q, want %q", got, want)
	}
	return s
}

// While a node runs, an older copy of its spool is put in its place, or it is removed. What comes after that
// is there after a kill, and what came before it.
func TestASpoolThatACopyReplaced(t *testing.T) {
	data := t.TempDir()
	h := openHome(t, data, "n1")
	s := openSpool(t, h, "")
	must(t, s.Add(report("j/1/0")))
	old, err := os.ReadFile(s.path)
	must(t, err)
	must(t, s.Add(report("j/2/0")))
	must(t, os.WriteFile(s.path+".copy", old, 0o600))
	must(t, os.Rename(s.path+".copy", s.path))
	must(t, s.Add(report("j/3/0")))
	must(t, os.Remove(s.path))
	must(t, s.Add(report("j/4/0")))
	openSpool(t, h, "j/1/0 j/2/0 j/3/0 j/4/0") // the first was not closed
}

// While a node runs, its directory is moved away, and a copy is put in its place: what comes after that goes
// with the directory, and the copy stays as it is. The node ends, and says why.
func TestANodeWhoseDirectoryIsMovedAway(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(data, "agentd", "node-n1")
	for _, copied := range []bool{true, false} {
		h := openHome(t, data, "n1")
		s := openSpool(t, h, "")
		must(t, s.Add(report("j/1/0")))
		must(t, os.CopyFS(dir+".copy", os.DirFS(dir)))
		must(t, os.Rename(dir, dir+".away"))
		if copied {
			must(t, os.Rename(dir+".copy", dir))
		}
		must(t, s.Add(report("j/2/0")))
		_ = s.Close()
		synctest.Test(t, func(t *testing.T) {
			o := newTownAt(t, h)
			err := <-o.ended
			if !errors.Is(err, life.ErrReplaced) || !strings.Contains(err.Error(), dir+": ") {
				t.Errorf("it ends with %v", err)
			}
			o.hub.Close()
			synctest.Wait()
		})
		must(t, h.Close())
		if copied {
			openSpool(t, openHome(t, data, "n1"), "j/1/0")
			must(t, os.RemoveAll(dir))
		} else if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it was made anew: %v", err)
		}
		must(t, os.Rename(dir+".away", dir))
		openSpool(t, openHome(t, data, "n1"), "j/1/0 j/2/0")
		must(t, os.RemoveAll(dir))
	}
}

// What was added is there after a kill, in its order, until it is acknowledged.
func TestASpoolKeepsWhatIsNotAcknowledged(t *testing.T) {
	h := openHome(t, t.TempDir(), "n1")
	s := openSpool(t, h, "")
	for _, hold := range []string{"j/1/0", "j/1/1", "j/2/0"} {
		must(t, s.Add(report(hold)))
	}
	s.Done("j/1/1")
	s.Done("j/1/1")
	s.Done("j/9/9")
	must(t, s.Add(report("j/3/0"))) // takes the acknowledgement along
	s.Done("j/3/0")                 // is not written before the next: it is repeated, to no effect
	again := openSpool(t, h, "j/1/0 j/2/0 j/3/0")
	if !again.Has("j/1/0") {
		t.Error("it is not open")
	}
	_, left, _, err := h.Spool("a1", 100)
	if err != nil || !reflect.DeepEqual(left[0], report("j/1/0")) {
		t.Errorf("%+v, %v", left, err)
	}
	again = openSpool(t, h, "j/1/0 j/2/0 j/3/0")
	for _, hold := range []string{"j/1/0", "j/2/0", "j/3/0"} {
		again.Done(hold)
	}
	must(t, again.Close())
	openSpool(t, h, "")
}

// A disk that takes no completions is named when that begins, not for each, and so is that it works again.
func TestASpoolThatWorksAgainIsNamed(t *testing.T) {
	var log bytes.Buffer
	a := &agent{spool: openSpool(t, openHome(t, t.TempDir(), "n1"), ""),
		log: slog.New(slog.NewTextHandler(&log, nil))}
	a.addToSpool(report("j/1/0"))
	file := a.spool.file
	broken, err := os.Open(a.spool.path) // takes no writes
	must(t, err)
	a.spool.file = broken
	for i := range 3 {
		a.addToSpool(report(fmt.Sprint("j/2/", i)))
	}
	if got := log.String(); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "completions are not written down") {
		t.Fatalf("of three that were not written it said\n%s", got)
	}
	log.Reset()
	a.spool.file = file
	for i := range 3 {
		a.addToSpool(report(fmt.Sprint("j/3/", i)))
	}
	if got := log.String(); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "completions are written down again") || !strings.Contains(got, "after=") {
		t.Errorf("of three that were written it said\n%s", got)
	}
	must(t, broken.Close())
}

// The file does not grow with what is served.
func TestASpoolIsBounded(t *testing.T) {
	h := openHome(t, t.TempDir(), "n1")
	s := openSpool(t, h, "")
	must(t, s.Add(report("j/0/0"))) // of a hub that never comes back
	most := int64(0)
	for range 30_000 {
		must(t, s.Add(report("j/1/0")))
		s.Done("j/1/0")
		most = max(most, s.state.Size)
	}
	info, err := os.Stat(s.path)
	must(t, err)
	if most > agentd.SpoolMost+1<<12 || info.Size() != s.state.Size {
		t.Errorf("%d bytes, at the end %d", most, info.Size())
	}
	s.Done("j/0/0")
	must(t, s.Add(report("j/2/0")))
	if s.state.Size > 64<<10 {
		t.Errorf("%d bytes for one completion", s.state.Size)
	}
	openSpool(t, h, "j/2/0")
}

// A kill, a disk or somebody's hand has changed the file: what is whole before the damage counts, a copy is
// kept, and the agent sells.
func TestADamagedSpool(t *testing.T) {
	h := openHome(t, t.TempDir(), "n1")
	s := openSpool(t, h, "")
	must(t, s.Add(report("j/1/0")))
	must(t, s.Add(report("j/1/1")))
	good, err := os.ReadFile(s.path)
	must(t, err)
	for name, text := range map[string]string{"another agent's": "souk completions 1 a2\n",
		"no spool": "hello", "a part": string(good[:len(good)-3])} {
		must(t, os.WriteFile(s.path, []byte(text), 0o600))
		again, left, note, err := h.Spool("a1", 100)
		if err != nil || note == nil || !strings.Contains(note.Error(), "a copy is in") || len(left) > 1 ||
			errors.Is(note, agentd.ErrForeign) == (len(left) == 1) {
			t.Errorf("%s: %q, %v, %v", name, holds(left), note, err)
			continue
		}
		if kept, err := os.ReadFile(s.path + ".damaged"); err != nil || string(kept) != text {
			t.Errorf("%s: the copy is %q, %v", name, kept, err)
		}
		must(t, again.Add(report("j/5/0")))
		openSpool(t, h, strings.TrimSpace(holds(left)+" j/5/0"))
	}
	must(t, os.WriteFile(s.path, make([]byte, 2*agentd.SpoolMost+1), 0o600))
	if _, _, _, err := h.Spool("a1", 100); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("a file of another size: %v", err)
	}
}

// What is not acknowledged at a shutdown is lost or found again: those who read the log are told which.
func TestWhatAShutdownLeaves(t *testing.T) {
	server, err := NewServer(agentd.Config{Agents: []agentd.AgentConfig{oneAgent("a1", 4)}},
		Deps{Bus: nowhere{}, Engine: func(agentd.EngineConfig) agentd.Engine { return nil },
			Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	a := server.agents[0]
	a.core = newCore(4, server.cfg)
	a.core.Claimed(claim(5))
	a.spool = openSpool(t, openHome(t, t.TempDir(), "n1"), "")
	for hold, why := range map[string]error{"h0": nil, "h1": nil, "h2": errors.New("the engine burns")} {
		d := dispatch(hold)
		if r, ok := a.core.Dispatch("math", d); !ok {
			t.Fatal(r)
		}
		e := a.core.Begin(d).End(agentd.Answer{Finish: "stop", Usage: market.Usage{Prompt: 10, Output: 1}},
			why)
		c := a.core.Ended(d, &e)
		if hold != "h1" { // which ended while the bus was away
			a.addToSpool(agentd.Report{Domain: d.Domain, Completion: c})
		}
	}
	if kept, lost := a.unsettled(); kept != 1 || lost != 1 {
		t.Errorf("%d will be found and %d are lost, want one each", kept, lost)
	}
}

// A disk that takes nothing costs the proof, never the answer.
func TestASpoolWithoutADisk(t *testing.T) {
	h := openHome(t, t.TempDir(), "n1")
	s := openSpool(t, h, "")
	must(t, s.file.Close())
	if err := s.Add(report("j/1/0")); err == nil {
		t.Error("nothing is wrong")
	}
	s.Done("j/1/0")
	if _, err := os.Stat(filepath.Join(h.dir, "a1.spool")); err != nil {
		t.Error(err)
	}
}

// What a hub has not acknowledged in time is synced, once, and without anybody who waits for that; what it
// has is not.
func TestASpoolSyncsWhatIsNotAcknowledged(t *testing.T) {
	h := openHome(t, t.TempDir(), "n1")
	synctest.Test(t, func(t *testing.T) {
		s := openSpool(t, h, "")
		defer s.Close()
		var syncs, said atomic.Int32
		var broken atomic.Bool
		full := errors.New("the disk is full")
		s.Failed = func(err error) {
			if errors.Is(err, full) {
				said.Add(1)
			}
		}
		s.sync = func(f *os.File) error {
			if f.Name() != h.dir && f.Name() != s.path && f.Name() != s.path+".new" {
				t.Errorf("%s is synced", f.Name())
			}
			if f.Name() != s.path+".new" {
				time.Sleep(time.Second) // virtual: nobody below waits for it
			}
			syncs.Add(1)
			if broken.Load() {
				return full
			}
			return nil
		}
		waits := func() bool { // for a look
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.looks
		}
		for i := range 50 { // a hub that answers
			must(t, s.Add(report(fmt.Sprintf("j/1/%d", i))))
			time.Sleep(syncAfter / 3)
			s.Done(fmt.Sprintf("j/1/%d", i))
		}
		time.Sleep(time.Minute)
		if syncs.Load() != 0 || waits() {
			t.Errorf("%d syncs for what was acknowledged at once; some wait: %v", syncs.Load(), waits())
		}

		must(t, s.Add(report("j/2/0"))) // a hub that is away
		time.Sleep(2*syncAfter + time.Millisecond)
		before := time.Now()
		must(t, s.Add(report("j/2/1"))) // while the disk is busy
		s.Done("j/9/9")
		if time.Since(before) != 0 {
			t.Errorf("a completion waited %v for the disk", time.Since(before))
		}
		time.Sleep(time.Minute)
		if syncs.Load() != 4 || waits() {
			t.Errorf("%d syncs of the file and its directory for two completions, some wait: %v", syncs.Load(),
				waits())
		}

		broken.Store(true)
		must(t, s.Add(report("j/3/0")))
		time.Sleep(time.Minute)
		if said.Load() != 1 || !waits() {
			t.Errorf("said %d times, and some wait: %v", said.Load(), waits())
		}
		broken.Store(false)
		time.Sleep(time.Minute)
		if waits() {
			t.Error("a disk takes it again, and some wait")
		}
		must(t, s.Close())
		openSpool(t, h, "j/2/0 j/2/1 j/3/0")
	})
}

func BenchmarkSpool(b *testing.B) {
	h, err := OpenHome(b.TempDir(), "n1")
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	s, _, _, err := h.Spool("a1", 100)
	if err != nil {
		b.Fatal(err)
	}
	r := report("j/1/0")
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Add(r); err != nil {
			b.Fatal(err)
		}
		s.Done("j/1/0")
	}
}
