package vllm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"souk/agentd"
	"souk/agentd/kvevent"
	"souk/agentd/vllm/zmtp"
	"souk/agentd/vllmsim"
	"souk/bus/bustest"
)

// belief follows an engine's cache by its events: the number of copies of each block.
type belief struct {
	mu           sync.Mutex
	held         map[uint64]int
	told         []string // of resets
	batches      int
	unknown, bad int
	gone         int // removed, and not known
}

func (b *belief) take(u kvevent.Update) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if u.Restarted || u.Blind {
		b.held = map[uint64]int{}
		b.told = append(b.told, fmt.Sprintf("blind %v: %s", u.Blind, u.Why))
		return
	}
	b.batches++
	b.unknown, b.bad = b.unknown+u.Batch.Unknown, b.bad+u.Batch.Bad
	for _, e := range u.Batch.Events {
		switch e.Kind {
		case kvevent.Cleared:
			b.held = map[uint64]int{}
		case kvevent.Stored:
			for _, k := range e.Blocks {
				b.held[uint64(k)]++
			}
		case kvevent.Removed:
			for _, k := range e.Blocks {
				switch b.held[uint64(k)] {
				case 0:
					b.gone++
				case 1:
					delete(b.held, uint64(k))
				default:
					b.held[uint64(k)]--
				}
			}
		}
	}
}

func (b *belief) is(held map[uint64]int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Equal(b.held, held)
}

// within reports whether nothing is believed that is not held.
func (b *belief) within(held map[uint64]int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, n := range b.held {
		if n > held[k] {
			return false
		}
	}
	return true
}

func (b *belief) last() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.told) == 0 {
		return ""
	}
	return b.told[len(b.told)-1]
}

func (b *belief) resets() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.told)
}

// publishing is a stand-in with a small cache that publishes, and what a listener believes of it.
func publishing(t *testing.T, c vllmsim.KVEvents) (*vllmsim.Server, *belief) {
	t.Helper()
	c.On = true
	s, err := vllmsim.New(vllmsim.Config{NumGPUBlocks: 70, MaxModelLen: 512, KVEvents: c, AnswerTokens: 40})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	return s, listens(t, s)
}

// listens hears a stand-in that says itself where it publishes.
func listens(t *testing.T, s *vllmsim.Server) *belief {
	b := &belief{held: map[uint64]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { New(agentd.EngineConfig{URL: s.URL()}).Events(ctx, b.take) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return b
}

// asks has a stand-in answer prompts, some of which begin alike.
func asks(t *testing.T, s *vllmsim.Server, n int) {
	t.Helper()
	for range n {
		var ids []string
		first := rand.IntN(6)
		for i := range 20 + rand.IntN(200) {
			ids = append(ids, fmt.Sprint(300+first*1000+i))
		}
		body := fmt.Sprintf(`{"prompt":[%s],"max_tokens":%d,"ignore_eos":true,"cache_salt":"%d"}`,
			strings.Join(ids, ","), 1+rand.IntN(60), rand.IntN(2))
		r, err := http.Post(s.URL()+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != 200 {
			t.Fatal(r.Status)
		}
	}
}

func post(t *testing.T, s *vllmsim.Server, path string) {
	t.Helper()
	r, err := http.Post(s.URL()+path, "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
}

// Over whatever connection, in whatever form: what is believed is what the cache holds, across evictions, a
// reset, a restart, and for who comes late.
func TestEventsAreTheCache(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	for name, c := range map[string]func() vllmsim.KVEvents{
		"tcp, it listens": func() vllmsim.KVEvents {
			return vllmsim.KVEvents{Endpoint: "tcp://*:0", Replay: "tcp://127.0.0.1:0"}
		},
		"tcp, it connects": func() vllmsim.KVEvents {
			at := "tcp://" + bustest.FreePort(t)
			return vllmsim.KVEvents{Endpoint: at, Replay: "tcp://*:0", Topic: "kv"}
		},
		"ipc": func() vllmsim.KVEvents {
			dir := t.TempDir()
			return vllmsim.KVEvents{Endpoint: "ipc://" + dir + "/kv", Replay: "ipc://" + dir + "/again"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := publishing(t, c())
			agree := func(when string, b *belief) {
				t.Helper()
				bustest.Eventually(t, when, func() bool { return b.is(s.Held()) })
			}
			asks(t, s, 30)
			agree("after evictions", b)
			post(t, s, "/reset_prefix_cache")
			asks(t, s, 3)
			agree("after a reset", b)
			if err := s.Restart(0); err != nil {
				t.Fatal(err)
			}
			agree("after a restart", b)
			asks(t, s, 5)
			agree("in the new life", b)
			if name != "tcp, it connects" { // or one listens there already
				agree("for who comes late", listens(t, s))
			}
			if err := s.FaultEvents(vllmsim.EventsLost, 3); err != nil {
				t.Fatal(err)
			}
			asks(t, s, 12)
			agree("after some were lost on the way", b)
			b.mu.Lock()
			defer b.mu.Unlock()
			told := strings.Join(b.told, "\n")
			told = strings.ReplaceAll(told, "blind true: the engine has begun a new life", "")
			if b.unknown+b.bad+b.gone > 0 || strings.Contains(told, "blind true") {
				t.Errorf("%d unknown, %d bad, %d gone, told %q", b.unknown, b.bad, b.gone, b.told)
			}
		})
	}
}

// What is missed for good makes blind, and then what is believed is held, though it is not all.
func TestEventsMissedForGood(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]vllmsim.KVEvents{
		"no replay": {Endpoint: "ipc://" + dir + "/kv1"},
		"short replay": {Endpoint: "ipc://" + dir + "/kv2", Replay: "ipc://" + dir + "/again",
			BufferSteps: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := publishing(t, c)
			bustest.Eventually(t, "something is known", func() bool {
				asks(t, s, 1)
				return b.resets() > 0
			})
			told := b.resets()
			if err := s.FaultEvents(vllmsim.EventsLost, 5); err != nil {
				t.Fatal(err)
			}
			blind := func(b *belief, told int) {
				t.Helper()
				bustest.Eventually(t, "blind", func() bool {
					asks(t, s, 1)
					return b.resets() > told && strings.HasPrefix(b.last(), "blind true")
				})
				bustest.Eventually(t, "no more than is held", func() bool { return b.within(s.Held()) })
			}
			blind(b, told)
			blind(listens(t, s), 0)
		})
	}
}

// Who is told of a replay that nobody answers is told why there is none.
func TestEventsWithoutTheReplayThatIsNamed(t *testing.T) {
	dir := t.TempDir()
	s, _ := publishing(t, vllmsim.KVEvents{Endpoint: "ipc://" + dir + "/kv"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := &belief{held: map[uint64]int{}}
	source := kvevent.Source{Endpoint: "ipc://" + dir + "/kv", Replay: "ipc://" + dir + "/nobody"}
	err := Events(ctx, source, func(u kvevent.Update) {
		if b.take(u); u.Blind {
			cancel()
		}
	})
	if err != nil || !strings.Contains(b.last(), "nobody: connect: no such file") {
		t.Errorf("%v; told %q", err, b.last())
	}
	if asks(t, s, 1); len(s.Held()) == 0 {
		t.Error("the engine serves no more")
	}
}

// An engine's lies: events that never come, or that nobody can apply, leave nothing believed that is not so;
// those that say too much are believed, and only other evidence tells.
func TestEventsThatLie(t *testing.T) {
	dir := t.TempDir()
	play := func(fault vllmsim.EventFault, n int) (*vllmsim.Server, *belief) {
		s, b := publishing(t, vllmsim.KVEvents{Endpoint: "ipc://" + dir + "/" + string(fault),
			Replay: "ipc://" + dir + "/again-" + string(fault)})
		bustest.Eventually(t, "connected", func() bool { return b.last() != "" })
		if n == 1 { // that one is missed unless the engine knows by now that somebody listens
			bustest.Eventually(t, "something is heard", func() bool {
				asks(t, s, 1)
				return !b.is(map[uint64]int{})
			})
			bustest.Eventually(t, "all is", func() bool { return b.is(s.Held()) })
			// With room in the cache the next batch stores: in a full one it may only remove, and what is
			// removed twice is removed once.
			post(t, s, "/reset_prefix_cache")
			asks(t, s, 1)
			bustest.Eventually(t, "all is, after a reset", func() bool { return b.is(s.Held()) })
		}
		if err := s.FaultEvents(fault, n); err != nil {
			t.Fatal(err)
		}
		asks(t, s, 3)
		return s, b
	}
	t.Run("silent", func(t *testing.T) {
		s, b := play(vllmsim.EventsSilent, 1<<30)
		if len(s.Held()) == 0 || !b.is(map[uint64]int{}) {
			t.Errorf("%d held, believed %v", len(s.Held()), b.held)
		}
	})
	t.Run("alien", func(t *testing.T) {
		s, b := play(vllmsim.EventsAlien, 1<<30)
		bustest.Eventually(t, "counted", func() bool {
			asks(t, s, 1) // what was published before anybody listened is told by what comes next
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.unknown > 0
		})
		if !b.is(map[uint64]int{}) {
			t.Errorf("believed %v", b.held)
		}
	})
	t.Run("double", func(t *testing.T) {
		s, b := play(vllmsim.EventsDouble, 1)
		bustest.Eventually(t, "one too many of some", func() bool {
			return !b.within(s.Held()) && b.covers(s.Held())
		})
	})
	t.Run("false", func(t *testing.T) {
		s, b := play(vllmsim.EventsFalse, 1)
		bustest.Eventually(t, "two too many", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.held) == len(s.Held())+2
		})
	})
}

// covers reports whether all that is held is believed.
func (b *belief) covers(held map[uint64]int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, n := range held {
		if b.held[k] < n {
			return false
		}
	}
	return true
}

// An engine that publishes nothing is said to; one that is not heard is not asked.
func TestEventsOfNone(t *testing.T) {
	s, err := vllmsim.New(vllmsim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	b := listens(t, s)
	bustest.Eventually(t, "said", func() bool { return strings.Contains(b.last(), "--kv-events-config") })
	var c agentd.EngineConfig
	c.URL, c.KVEvents.Endpoint = s.URL(), kvevent.NoEvents
	New(c).Events(t.Context(), func(kvevent.Update) { t.Error("it is asked") })
	c.KVEvents.Endpoint = "tcp://node-7:5557"
	told := ""
	New(c).Events(t.Context(), func(u kvevent.Update) { told = u.Why })
	if !strings.Contains(told, "kv_events.endpoint") {
		t.Errorf("told %q", told)
	}
}

// What real servers say of where they publish.
func TestSources(t *testing.T) {
	rank := `{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:22001",` +
		`"replay_endpoint":"tcp://127.0.0.1:23001","buffer_steps":10000,"hwm":100000,"topic":"kv"}`
	noReplay := strings.Replace(rank, `"tcp://127.0.0.1:23001"`, "null", 1)
	for said, want := range map[string]kvevent.Source{
		recorded(t, "kv_event_sources").Response.Body: {Endpoint: "tcp://*:22001",
			Replay: "tcp://127.0.0.1:23001"},
		`{}`:                     {},
		`{"0":` + noReplay + `}`: {Endpoint: "tcp://*:22001"},
		`{"0":` + strings.Replace(rank, "true", "false", 1) + `}`: {},
		`{"0":` + strings.Replace(rank, "zmq", "null", 1) + `}`:   {},
		`{"0":` + rank + `,"1":` + rank + `}`:                     {},
	} {
		if got, err := readSources([]byte(said)); got != want || err != nil {
			t.Errorf("%s: %+v %v, want %+v", said, got, err, want)
		}
	}
	if _, err := readSources([]byte("<html>")); err == nil {
		t.Error("a page is taken for an answer")
	}
}

// A publisher whose endpoint is taken is waited for. What is said of it has what to write where the engine is
// who listens there.
func TestEventsWhereSomebodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	err = Events(ctx, kvevent.Source{Endpoint: "tcp://" + l.Addr().String()}, func(u kvevent.Update) {
		if !u.Blind || !strings.Contains(u.Why, "address already in use") ||
			!strings.Contains(u.Why, fmt.Sprintf("write tcp://*:%d", l.Addr().(*net.TCPAddr).Port)) {
			t.Errorf("%+v", u)
		}
		cancel()
	})
	if err != nil {
		t.Error(err)
	}
}

// An engine that is started anew may be back before it is seen that its last life has ended: then it is
// listened to from that moment on, though it says nothing yet.
func TestTheNextLifeIsThereBeforeTheLastHasEnded(t *testing.T) {
	var told []kvevent.Update
	l := &listener{deliver: func(u kvevent.Update) { told = append(told, u) }}
	ended := errors.New("EOF")
	hear := func(peer uint64, wanted uint64, h zmtp.Heard) {
		t.Helper()
		h.Peer = peer
		if l.heard(t.Context(), h); l.leader != wanted {
			t.Errorf("connection %d is listened to, want %d", l.leader, wanted)
		}
	}
	said := zmtp.Heard{Frames: [][]byte{nil, make([]byte, 8), {0x93, 0, 0x90, 0xc0}}}
	hear(1, 1, zmtp.Heard{})
	hear(1, 1, said)
	hear(2, 1, zmtp.Heard{}) // anybody may connect
	before := len(told)
	hear(1, 2, zmtp.Heard{Err: ended})
	if len(told) == before {
		t.Errorf("nothing is told of the new life: %+v", told)
	}
	hear(3, 2, zmtp.Heard{})
	hear(3, 2, zmtp.Heard{Err: ended}) // who has gone is not listened to
	hear(2, 0, zmtp.Heard{Err: ended})
	hear(4, 4, zmtp.Heard{})
	hear(5, 4, zmtp.Heard{})
	hear(5, 5, said)
	hear(4, 5, zmtp.Heard{Err: ended})
}
