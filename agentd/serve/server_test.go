package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"souk/agentd"
	"souk/agentd/kvevent"
	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/follow"
	"souk/bus/membus"
	"souk/market"
)

// script is an engine that does what a test says. Each Complete takes the next act, the last one for ever.
type script struct {
	mu      sync.Mutex
	info    agentd.Info
	infoErr error
	sick    error
	acts    []act
	asked   []agentd.Request
}

type act func(ctx context.Context, token func(agentd.Chunk) error) (agentd.Answer, error)

func (s *script) Info(context.Context) (agentd.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.infoErr == nil && s.sick == agentd.ErrAnother { // it is told apart now
		s.sick = nil
	}
	return s.info, s.infoErr
}

func (*script) Events(context.Context, func(kvevent.Update)) {}

func (s *script) Load(context.Context) (agentd.Load, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return agentd.Load{Models: s.info.Models}, s.sick
}

func (s *script) set(f func()) { s.mu.Lock(); defer s.mu.Unlock(); f() }

func (s *script) Complete(ctx context.Context, r agentd.Request,
	token func(agentd.Chunk) error) (agentd.Answer, error) {
	s.mu.Lock()
	s.asked = append(s.asked, r)
	do := s.acts[0]
	if len(s.acts) > 1 {
		s.acts = s.acts[1:]
	}
	s.mu.Unlock()
	return do(ctx, token)
}

// speak says each word after a pause and finishes.
func speak(pause time.Duration, said ...string) act {
	return func(ctx context.Context, token func(agentd.Chunk) error) (agentd.Answer, error) {
		for i, w := range said {
			if !follow.Pause(ctx, pause) {
				return agentd.Answer{Unmetered: true}, context.Cause(ctx)
			}
			c := agentd.Chunk{Text: w, Tokens: []uint32{uint32(i)}, Count: 1, Events: 1,
				Finish: i == len(said)-1}
			if i == 0 {
				c.Prompt = 20
			}
			if err := token(c); err != nil {
				return agentd.Answer{Unmetered: true}, err
			}
		}
		return agentd.Answer{Finish: "stop", Usage: market.Usage{Prompt: 20, Cached: 16, Output: len(said)},
			TTFT: pause}, nil
	}
}

// town is an agent's surroundings: a hub, a reader, a registry, all by hand.
type town struct {
	t      *testing.T
	world  *membus.World
	hub    bus.Bus
	reg    bus.Registry
	agent  *membus.Registry
	engine *script
	server *Server
	stop   context.CancelFunc
	ended  chan error
	home   *Home
	log    bustest.Buffer
	wrap   func(bus.Bus) bus.Bus // of the node's; nil: as it is

	mu          sync.Mutex
	summaries   []bus.Summary
	completions []bus.Completion
	ack         func(bus.Completion) *bus.CompletionAck // nil answer: silence
	chunks      []bus.Chunk
	beats       int
	heard       []time.Time // when something came for the reader
}

func newTown(t *testing.T, change ...func(*agentd.Config)) *town { return newTownAt(t, nil, change...) }

// newTownAt is a town whose agent has a directory.
func newTownAt(t *testing.T, home *Home, change ...func(*agentd.Config)) *town {
	return newTownOn(t, nil, home, change...)
}

// newTownOn is a town whose node has a bus of its own kind.
func newTownOn(t *testing.T, wrap func(bus.Bus) bus.Bus, home *Home, change ...func(*agentd.Config)) *town {
	w := membus.New(1)
	o := &town{t: t, wrap: wrap, home: home, world: w, hub: w.Bus("hub"), reg: w.Registry(),
		agent: w.Registry(), ended: make(chan error, 1),
		engine: &script{info: agentd.Info{Models: []string{"tiny"}, Version: "0.32.0", MaxModelLen: 8192,
			BlockSize: 16, KVTokens: 1 << 20}, acts: []act{speak(time.Millisecond, "so", " it", " is")}}}
	o.ack = func(c bus.Completion) *bus.CompletionAck { return &bus.CompletionAck{Hold: c.Hold} }
	o.listen("souk.v1.hub.math.summary.*", func(m bus.Msg) {
		var s bus.Summary
		o.decode(m, &s)
		o.summaries = append(o.summaries, s)
	})
	o.listen("souk.v1.hub.math.completion.*", func(m bus.Msg) {
		var c bus.Completion
		o.decode(m, &c)
		o.completions = append(o.completions, c)
		if ack := o.ack(c); ack != nil {
			data, _ := bus.Encode(ack)
			o.hub.Publish(bus.Msg{Subject: m.Reply, Data: data})
		}
	})
	o.listen("souk.v1.reply.*.*.a1", func(m bus.Msg) {
		var c bus.Chunk
		o.decode(m, &c)
		o.heard = append(o.heard, time.Now())
		if c.Heartbeat {
			o.beats++
		} else {
			o.chunks = append(o.chunks, c)
		}
	})
	cfg := agentd.Config{Node: "n1", Agents: []agentd.AgentConfig{oneAgent("a1", 2)}}
	for _, f := range change {
		f(&cfg)
	}
	o.server = o.node("agentd", cfg)
	ctx, stop := context.WithCancel(context.Background())
	o.stop = stop
	go func() { o.ended <- o.server.Run(ctx) }()
	return o
}

func (o *town) node(name string, cfg agentd.Config) *Server {
	var b bus.Bus = o.world.Bus(name)
	if o.wrap != nil {
		b = o.wrap(b)
	}
	s, err := NewServer(cfg, Deps{Bus: b, Registry: o.agent,
		Engine: func(agentd.EngineConfig) agentd.Engine { return o.engine },
		Home:   o.home, Log: slog.New(slog.NewTextHandler(&o.log, nil))})
	if err != nil {
		o.t.Fatal(err)
	}
	return s
}

func (o *town) listen(subject string, h func(bus.Msg)) {
	if _, err := o.hub.Subscribe(subject, "", func(m bus.Msg) {
		o.mu.Lock()
		defer o.mu.Unlock()
		h(m)
	}); err != nil {
		o.t.Fatal(err)
	}
}

func (o *town) decode(m bus.Msg, v bus.Message) {
	if err := bus.Decode(m.Data, v); err != nil {
		o.t.Errorf("%s: %v", m.Subject, err)
	}
}

// claim elects a hub and gives it the agent; it returns the epoch.
func (o *town) claim() int64 { return o.claimAll("a1") }

// under has a dispatch name the claim that the registry has of an agent, and this start of the node.
func (o *town) under(agent string, d *bus.Dispatch) *bus.Dispatch {
	kvs, err := o.reg.Get(context.Background(), bus.ClaimKey(agent))
	if err != nil {
		o.t.Error(err)
	}
	d.Boot = o.server.boot
	for _, kv := range kvs {
		d.Fence = kv.Create
	}
	return d
}

// dispatch hands an agent a dispatch under the claim that the registry has, unless it names one of its own.
func (o *town) dispatch(d *bus.Dispatch) bus.DispatchReply {
	o.t.Helper()
	if d.Fence == dispatch("").Fence {
		own := *d
		d = o.under("a1", &own)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := bustest.Hand(ctx, o.hub, "math", "a1", d,
		bus.Header{"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}})
	if err != nil {
		o.t.Fatal(err)
	}
	return r
}

func (o *town) control(c bus.StreamControl) {
	o.t.Helper()
	data, err := bus.Encode(&c)
	if err != nil {
		o.t.Fatal(err)
	}
	o.hub.Publish(bus.Msg{Subject: bus.StreamSubject("a1", "ann"), Data: data})
	synctest.Wait()
}

// say has a domain's hub say something of a hold.
func (o *town) say(domain string, c bus.HoldControl) {
	o.t.Helper()
	o.hub.Publish(bus.Msg{Subject: bus.ControlSubject("a1", domain), Data: encoded(o.t, &c)})
	synctest.Wait()
}

// summary is the last that the agent said of itself.
func (o *town) summary() bus.Summary {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.summaries[len(o.summaries)-1]
}

// answer is everything the reader has, in order of arrival.
func (o *town) answer() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b strings.Builder
	for _, c := range o.chunks {
		fmt.Fprintf(&b, "%d%s", c.Seq, c.Text)
		if r := c.Result; r != nil {
			fmt.Fprintf(&b, "[%s%s %s]", r.Code, r.Finish, r.Text)
		}
		b.WriteByte('|')
	}
	return b.String()
}

func (o *town) done() []bus.Completion {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]bus.Completion(nil), o.completions...)
}

// pass lets fake time go by, until all that it brings about is done.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// close shuts the node down and waits for everything to end.
func (o *town) close() {
	o.t.Helper()
	o.stop()
	if err := <-o.ended; err != nil {
		o.t.Error(err)
	}
	o.hub.Close()
	synctest.Wait()
}

// inTown runs a test in a bubble of fake time, the agent registered and claimed.
func inTown(t *testing.T, f func(o *town, d *bus.Dispatch), change ...func(*agentd.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := newTown(t, change...)
		<-o.server.Ready()
		d := dispatch("h")
		d.Epoch = o.claim()
		synctest.Wait()
		f(o, d)
		o.close()
	})
}

func TestServesATask(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		if r := o.dispatch(d); r.Code != "" {
			t.Fatalf("%+v", r)
		}
		pass(50 * time.Millisecond)
		if got, want := o.answer(), "0so|1 it|2 is|3[stop ]|"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
		c, last := o.done(), o.chunks[len(o.chunks)-1].Result
		if len(c) != 1 || c[0].Outcome != bus.OutcomeDone || c[0].Cost != last.Cost ||
			last.Cost != 4*1000+16*100+3*4000 || last.Paid() != last.Cost+4 {
			t.Errorf("%+v\n%+v", c, last)
		}
		if q := o.engine.asked[0]; q.ID != "h" || q.Model != "tiny" || q.MaxTokens != 100 ||
			q.Trace.Parent != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" ||
			string(q.Body) != `{"messages":[]}` || q.Kind != bus.KindChat {
			t.Errorf("%+v", q)
		}
		s := o.server.Stats().Agents[0]
		if s.Done != 1 || s.Output != 3 || s.Cached*5 != s.Prompt*4 ||
			s.InFlight != 0 || s.Pending != 0 ||
			s.Domain != "math" || s.Earned != last.Cost {
			t.Errorf("%+v", s)
		}
	})
}

func TestCollectsATask(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		d.Task.Stream = false
		o.engine.acts = []act{speak(3*time.Second, "so", " it", " is")}
		o.dispatch(d)
		pass(10 * time.Second)
		if got, want := o.answer(), "0[stop so it is]|"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
		if o.beats < 3 || o.beats > 7 {
			t.Errorf("%d heartbeats in 9 s", o.beats)
		}
	})
}

// What its reader gives whole comes in few messages, the end when it would come anyway, and the first too
// where the end carries no text. All of it that is paid comes, also where it is cancelled.
func TestAWholeAnswerComesInFewMessages(t *testing.T) {
	var said []string
	for i := range 100 {
		said = append(said, fmt.Sprintf(" w%d", i))
	}
	for _, c := range []struct {
		of     int           // words of the engine
		cancel time.Duration // 0: never
		words  int           // that come
		tail   bool
		most   int // messages
	}{
		{100, 0, 100, false, 7}, {100, 505 * time.Millisecond, 50, false, 5},
		{100, 0, 100, true, 5}, {100, 505 * time.Millisecond, 50, true, 3},
		{15, 0, 15, true, 1}, {15, 105 * time.Millisecond, 10, true, 1},
	} {
		inTown(t, func(o *town, d *bus.Dispatch) {
			d.Task.Whole, d.Task.Tail = true, c.tail
			o.engine.acts = []act{speak(10*time.Millisecond, said[:c.of]...)}
			begun := time.Now()
			o.dispatch(d)
			end := time.Duration(c.of) * 10 * time.Millisecond
			if c.cancel > 0 {
				pass(c.cancel)
				o.control(bus.StreamControl{Token: "t-h", Cancel: true})
				end = time.Since(begun)
			}
			pass(2 * time.Second)
			text, last := "", o.chunks[len(o.chunks)-1]
			for _, c := range o.chunks {
				text += c.Text
			}
			if want := strings.Join(said[:c.words], ""); text != want {
				t.Errorf("%q, want %q", text, want)
			}
			if first := o.chunks[0].Text; !c.tail && first != said[0] {
				t.Errorf("%q is first, want %q", first, said[0])
			}
			if n := len(o.chunks); n > c.most || last.Result == nil || o.done()[0].Relayed != c.words {
				t.Errorf("%d messages, the last %+v, %+v", n, last, o.done())
			}
			first, ended := o.heard[0].Sub(begun), o.heard[len(o.heard)-1].Sub(begun)
			late := !c.tail && first > 12*time.Millisecond
			if late || ended > end+10*time.Millisecond {
				t.Errorf("the first came after %v, the end after %v", first, ended)
			}
		})
	}
}

// While the engine is silent the reader hears that its task is alive, at least every two seconds.
func TestHeartbeats(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.engine.acts = []act{speak(9*time.Second, "so", " it")}
		begun := time.Now()
		o.dispatch(d)
		pass(20 * time.Second)
		last := begun
		for i, at := range o.heard {
			if gap := at.Sub(last); gap > 2*time.Second {
				t.Errorf("silent for %v before message %d", gap, i)
			}
			last = at
		}
		if got, want := o.answer(), "0so|1 it|2[stop ]|"; got != want || o.beats < 8 || o.beats > 12 {
			t.Errorf("answer %q, want %q, and %d heartbeats in 18 s", got, want, o.beats)
		}
	})
}

// A dispatch in an epoch that the watch has not brought yet is looked up, not refused.
func TestClaimNotYetSeen(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.agent.Cut() // the node's registry is away
		o.reg.Delete(context.Background(), bus.ClaimKey("a1"))
		value, _ := bus.EncodeEntry(&bus.Claim{Agent: "a1", Domain: "math", Hub: "h2", Epoch: d.Epoch + 7})
		o.reg.Put(context.Background(), bus.ClaimKey("a1"), value)
		d.Epoch += 7
		if r := o.dispatch(d); r.Code != bus.CodeNotClaimed {
			t.Errorf("with the registry away: %+v", r)
		}
		o.agent.Heal()
		pass(5 * time.Second)
		if r := o.dispatch(d); r.Code != bus.CodeNotClaimed { // its hub has ended that hold
			t.Errorf("sent again: %+v", r)
		}
		d.Hold = "the next"
		if r := o.dispatch(d); r.Code != "" {
			t.Errorf("%+v", r)
		}
		pass(time.Second)
	})
}

// Dispatches of one round come together. None of them is refused because another waits for the claim to be
// looked up.
func TestDispatchesOfAClaimNotYetSeen(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.agent.Cut() // the node's registry is slow
		o.reg.Delete(t.Context(), bus.ClaimKey("a1"))
		d.Epoch += 7
		value, _ := bus.EncodeEntry(&bus.Claim{Agent: "a1", Domain: "math", Hub: "h2", Epoch: d.Epoch})
		o.reg.Put(t.Context(), bus.ClaimKey("a1"), value)
		other := dispatch("g")
		other.Epoch = d.Epoch
		var wg sync.WaitGroup
		for _, d := range []*bus.Dispatch{d, other} {
			wg.Go(func() {
				if r := o.dispatch(d); r.Code != "" {
					t.Errorf("%+v", r)
				}
			})
		}
		pass(100 * time.Millisecond)
		o.agent.Heal()
		wg.Wait()
		pass(time.Second)
	})
}

func TestHostileDispatches(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		for _, data := range [][]byte{nil, []byte("{}"), {0x81, 0xa4}, []byte(strings.Repeat("x", 100))} {
			r, err := bustest.HandBytes(context.Background(), o.hub, "math", "a1", data, nil)
			if err != nil || r.Code != bus.CodeBadRequest || r.Agent != "a1" {
				t.Errorf("%q: %+v %v", data, r, err)
			}
			o.hub.Publish(bus.Msg{Subject: bus.StreamSubject("a1", "ann"), Data: data})
			o.hub.Publish(bus.Msg{Subject: bus.ControlSubject("a1", "math"), Data: data})
		}
	})
}

// The hub is away: the answer is served all the same, the account waits.
func TestCompletionSurvivesOutage(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		ack := o.ack
		tries := 0
		o.ack = func(c bus.Completion) *bus.CompletionAck {
			if tries++; tries < 3 {
				return nil
			}
			if tries == 3 {
				return &bus.CompletionAck{Hold: c.Hold, Code: bus.CodeUnavailable} // a hub that cannot write
			}
			return ack(c)
		}
		o.dispatch(d)
		pass(time.Millisecond)
		o.world.Cut("agentd")
		pass(time.Minute)
		if n := len(o.done()); n != 0 {
			t.Fatalf("%d completions through a cut", n)
		}
		o.world.Heal("agentd")
		pass(time.Minute)
		c := o.done()
		if len(c) != 4 || c[0].Hold != "h" || c[3].Hold != "h" || o.server.Stats().Agents[0].Pending != 0 {
			t.Errorf("%d completions", len(c))
		}
	})
}

func TestResume(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.engine.acts = []act{speak(time.Second, "a", "b", "c", "d")}
		o.dispatch(d)
		pass(2500 * time.Millisecond)
		o.control(bus.StreamControl{Token: "t-h", Resume: new(uint64(0))})
		if got, want := o.answer(), "0a|1b|0a|1b|"; got != want {
			t.Errorf("answer %q, want %q at once", got, want)
		}
		// within a second: sent once, from the lowest number on
		o.control(bus.StreamControl{Token: "t-h", Resume: new(uint64(1))})
		o.control(bus.StreamControl{Token: "t-h", Resume: new(uint64(0))})
		o.control(bus.StreamControl{Token: "t-h", Resume: new(uint64(1))})
		pass(time.Second)
		if got, want := o.answer(), "0a|1b|0a|1b|2c|0a|1b|2c|"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
		pass(5 * time.Second)
		o.chunks = nil
		o.control(bus.StreamControl{Token: "t-h", Ack: new(uint64(3))})
		o.control(bus.StreamControl{Token: "t-h", Resume: new(uint64(3))})
		pass(time.Second)
		o.control(bus.StreamControl{Token: "t-h", Resume: new(uint64(2))})
		if got, want := o.answer(), "3d|4[stop ]|2[answer_gone ]|"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
		o.chunks = nil
		o.control(bus.StreamControl{Token: "t-h", Ack: new(uint64(5))})
		o.control(bus.StreamControl{Token: "t-h", Resume: new(uint64(0))})
		if got, want := o.answer(), "0[unknown ]|"; got != want {
			t.Errorf("all read: answer %q, want %q", got, want)
		}
		if _, n := o.server.agents[0].streams.Size(); n != 0 {
			t.Errorf("%d bytes kept of nothing", n)
		}
	})
}

func TestEndedAnswersAreKeptForAWhile(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.dispatch(d)
		pass(20 * time.Second)
		o.chunks = nil
		o.control(bus.StreamControl{Token: "t-h", Resume: new(uint64(0))})
		if got, want := o.answer(), "0so|1 it|2 is|3[stop ]|"; got != want {
			t.Errorf("after 20 s: %q, want %q", got, want)
		}
		pass(15 * time.Second)
		a := o.server.agents[0]
		ended, bytes := a.streams.Size()
		named := a.streams.Find(agentd.StreamID{Reader: "ann", Token: "t-h"}) != nil
		if named || ended != 0 || bytes != 0 {
			t.Errorf("after 35 s: %d ended, %d bytes; found: %v", ended, bytes, named)
		}
		for i := range 50 { // and never more than KeepTotal
			e := *d
			e.Hold = fmt.Sprint("x", i)
			e.Task.ID = e.Hold
			o.dispatch(&e)
			pass(100 * time.Millisecond)
		}
		if ended, bytes := a.streams.Size(); bytes > 2000 || ended == 0 {
			t.Errorf("%d bytes kept of %d answers", bytes, ended)
		}
	}, func(c *agentd.Config) { c.KeepTotal = 2000 })
}

func TestCancel(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.engine.acts = []act{speak(time.Second, "a", "b", "c", "d")}
		o.dispatch(d)
		pass(1500 * time.Millisecond)
		o.hub.Publish(bus.Msg{Subject: bus.StreamSubject("a1", "bob"),
			Data: encoded(t, &bus.StreamControl{Token: "t-h", Cancel: true})})
		synctest.Wait()
		if o.server.Stats().Agents[0].InFlight != 1 {
			t.Fatal("another client cancelled it")
		}
		o.control(bus.StreamControl{Token: "t-h", Cancel: true})
		if got, want := o.answer(), "0a|1[cancelled ]|"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
		c := o.done()
		if len(c) != 1 || c[0].Outcome != bus.OutcomeCancelled ||
			c[0].Usage != (market.Usage{Prompt: 20, Output: 1}) || !c[0].Unmetered ||
			c[0].Cost != 20*1000+4000 {
			t.Errorf("%+v", c)
		}
		o.control(bus.StreamControl{Token: "t-h", Cancel: true}) // again: nothing
		if len(o.done()) != 1 {
			t.Error("completed twice")
		}
	})
}

// A cancel before the first token waits for it, since it says how long the prompt was that the engine has
// computed; but no longer than the first token was quoted to take.
func TestCancelBeforeTheFirstToken(t *testing.T) {
	for _, c := range []struct {
		name  string
		first time.Duration // token of the engine
		most  int64         // ms that were quoted; 0: an earlier hub's dispatch
		ends  time.Duration
		usage market.Usage
		cost  market.Credits
	}{
		{"it comes: the prompt is due", time.Second, 2000, time.Second, market.Usage{Prompt: 20, Cached: 16},
			4*1000 + 16*100},
		{"it is late: nothing is due", 10 * time.Second, 2000, 2 * time.Second, market.Usage{}, 0},
		{"nothing was quoted: nothing is due", time.Second, 0, 100 * time.Millisecond, market.Usage{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTown(t, func(o *town, d *bus.Dispatch) {
				o.engine.acts = []act{speak(c.first, "a", "b")}
				d.FirstMS, d.Cached = c.most, 31
				begun := time.Now()
				o.dispatch(d)
				pass(100 * time.Millisecond)
				o.control(bus.StreamControl{Token: "t-h", Cancel: true})
				if wait := c.ends - time.Since(begun); wait > 0 {
					pass(wait - time.Millisecond)
					if o.server.Stats().Agents[0].InFlight != 1 {
						t.Error("the slot was given away while the engine computed")
					}
					pass(time.Millisecond)
				}
				if got, want := o.answer(), "0[cancelled ]|"; got != want {
					t.Errorf("answer %q, want %q", got, want)
				}
				done := o.done()
				if len(done) != 1 || done[0].Outcome != bus.OutcomeCancelled || done[0].Usage != c.usage ||
					done[0].Cost != c.cost || done[0].NoCacheReport == (c.usage.Cached > 0) {
					t.Errorf("%+v", done)
				}
				if o.server.Stats().Agents[0].InFlight != 0 {
					t.Error("the slot is not free")
				}
			})
		})
	}
}

// What a session had here under another text is no hit of this one.
func TestHitsAreOfTheTextNotOfTheSession(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.engine.acts = []act{speak(time.Millisecond, "so"), speak(time.Second, "a", "b")}
		o.dispatch(d)
		pass(time.Second)
		again := *d
		again.Hold, again.Task.ID, again.Task.Reply = "h2", "t-h2", "souk.v1.reply.ann.t-h2"
		o.dispatch(&again)
		pass(1500 * time.Millisecond)
		o.control(bus.StreamControl{Token: "t-h2", Cancel: true})
		done := o.done()
		if len(done) != 2 || done[1].Usage != (market.Usage{Prompt: 20, Output: 1}) ||
			!done[1].NoCacheReport {
			t.Errorf("%+v", done)
		}
	})
}

// A hub that heard no reply takes a dispatch back: what nobody has heard of yet ends unsaid, for the hub to
// hand on; what has begun goes on, and the hub hears that it was accepted; what has not come is refused, at
// once and if it comes yet.
func TestWithdraw(t *testing.T) {
	replies := func(o *town, hold string) *[]bus.DispatchReply {
		said := new([]bus.DispatchReply)
		o.listen(bus.TakenSubject("*", hold, "a1"), func(m bus.Msg) {
			var r bus.DispatchReply
			o.decode(m, &r)
			*said = append(*said, r)
		})
		return said
	}
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.engine.acts = []act{speak(time.Second, "a", "b")}
		o.dispatch(d)
		another, stranger := replies(o, "another"), replies(o, "stranger")
		o.say("math", bus.HoldControl{})
		o.say("math", bus.HoldControl{Hold: "another", Withdraw: true})
		o.say("code", bus.HoldControl{Hold: "stranger", Withdraw: true})
		late := *d
		if late.Hold = "another"; len(*another) != 1 || (*another)[0].Code != bus.CodeLate ||
			(*another)[0].Boot != o.server.boot || o.dispatch(&late).Code != bus.CodeLate {
			t.Errorf("of a dispatch that had not come its hub hears %+v", *another)
		}
		if len(*stranger) > 0 {
			t.Errorf("a hub that does not sell the agent's slots hears %+v", *stranger)
		}
		o.say("code", bus.HoldControl{Hold: d.Hold, Withdraw: true})
		o.say("code", bus.HoldControl{Hold: d.Hold, Cancel: true})
		if o.server.Stats().Agents[0].InFlight != 1 {
			t.Fatal("it was taken back by another hub, or by a word on another hold")
		}
		o.dispatch(d) // by its hub that was started again
		o.say("math", bus.HoldControl{Hold: d.Hold, Withdraw: true})
		c := o.done()
		if len(c) != 1 || c[0].Outcome != bus.OutcomeFailed || c[0].Code != bus.CodeAgentFailed ||
			!c[0].Unsaid || c[0].Cost != 0 {
			t.Errorf("%+v", c)
		}
	})
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.engine.acts = []act{speak(time.Second, "a", "b")}
		o.dispatch(d)
		pass(1500 * time.Millisecond)
		said := replies(o, d.Hold)
		o.say("math", bus.HoldControl{Hold: d.Hold, Withdraw: true})
		if len(*said) != 1 || (*said)[0].Code != "" {
			t.Errorf("of what had begun its hub hears %+v", *said)
		}
		pass(5 * time.Second)
		if c := o.done(); len(c) != 1 || c[0].Outcome != bus.OutcomeDone || c[0].Usage.Output == 0 {
			t.Errorf("what had begun ended with %+v", c)
		}
	})
}

// An agent says that a first token is late as soon as it is, and gives the task up where its hub says so. Its
// engine has said nothing at all meanwhile, so it is looked at before it is sold again.
func TestALateFirstToken(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.engine.acts = []act{speak(time.Minute, "a", "b")}
		d.WatchMS = 700
		o.dispatch(d)
		pass(600 * time.Millisecond)
		if late := o.summary().Late; len(late) != 0 {
			t.Fatalf("late are %v", late)
		}
		pass(200 * time.Millisecond)
		if late := o.summary().Late; len(late) != 1 || late[0] != d.Hold {
			t.Fatalf("late are %v", late)
		}
		o.say("code", bus.HoldControl{Hold: d.Hold, Late: true}) // no hub of this agent
		o.summaries = nil
		o.say("math", bus.HoldControl{Hold: d.Hold, Late: true})
		c := o.done()
		if len(c) != 1 || c[0].Outcome != bus.OutcomeFailed || c[0].Code != bus.CodeEngineFailed ||
			!c[0].Unsaid || c[0].Cost != 0 {
			t.Errorf("%+v", c)
		}
		pass(150 * time.Millisecond)
		if s := o.summary(); len(s.Late) != 0 || o.summaries[0].State != bus.StateUnhealthy {
			t.Errorf("then it says %+v", o.summaries)
		}
	})
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.engine.acts = []act{speak(time.Second, "a", "b")}
		d.Task.Stream = false
		o.dispatch(d)
		pass(1500 * time.Millisecond)
		o.say("math", bus.HoldControl{Hold: d.Hold, Late: true})
		pass(5 * time.Second)
		if c := o.done(); len(c) != 1 || c[0].Outcome != bus.OutcomeDone {
			t.Errorf("an answer that has begun, and comes as a whole, ended with %+v", c)
		}
	})
}

// The hub cancels for a client, by the hold.
func TestTheHubCancels(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.engine.acts = []act{speak(time.Second, "a", "b", "c", "d")}
		o.dispatch(d)
		pass(1500 * time.Millisecond)
		o.say("math", bus.HoldControl{Hold: d.Hold, Cancel: true})
		if got, want := o.answer(), "0a|1[cancelled ]|"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
	})
}

// A hub hears the reply to its dispatch on its own subject, by the agent's name. A dispatch that wants it
// elsewhere, where the agent may publish and the asker may not, is not served, and nobody is told.
func TestADispatchIsAnsweredToItsHubAlone(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		said := 0
		o.listen(">", func(m bus.Msg) {
			own := strings.Contains(m.Subject, ".summary.") || strings.Contains(m.Subject, ".dispatch.")
			if !own && bus.Decode(m.Data, new(bus.DispatchReply)) == nil {
				said++
			}
		})
		for _, reply := range []string{"", o.hub.Inbox(), bus.TakenSubject("code", "1-0", "a1"),
			bus.TakenSubject("math", "1-0", "a2"), bus.CompletionSubject("math", "a1"),
			bus.ReplySubject("bob", "t", "a1"), "souk.v1.hub.math.taken.a1", "_INBOX.a1"} {
			o.hub.Publish(bus.Msg{Subject: bus.DispatchSubject("a1", "math"), Reply: reply,
				Data: encoded(t, d)})
			synctest.Wait()
			if st := o.server.Stats().Agents[0]; st.InFlight != 0 || said != 0 {
				t.Errorf("reply %q: %d run, %d replies were said", reply, st.InFlight, said)
			}
		}
		if st := o.server.Stats().Agents[0]; st.Refused[bus.CodeBadRequest] != 8 {
			t.Errorf("refused: %v, want all 8 counted", st.Refused)
		}
	})
}

func encoded(t *testing.T, m bus.Message) []byte {
	t.Helper()
	data, err := bus.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTimeLimit(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		d.TimeoutMS = 1500
		o.engine.acts = []act{speak(time.Second, "a", "b")}
		o.dispatch(d)
		pass(1600 * time.Millisecond)
		if got, want := o.answer(), "0a|1[timeout ]|"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
		if c := o.done(); len(c) != 1 || c[0].Outcome != bus.OutcomeFailed || c[0].Code != bus.CodeTimeout ||
			c[0].Cost != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// An engine that went silent is asked for a token before it is trusted again.
func TestStalledEngine(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		stall := func(context.Context, func(agentd.Chunk) error) (agentd.Answer, error) {
			return agentd.Answer{Unmetered: true},
				&agentd.EngineError{Code: bus.CodeEngineFailed, Message: "silent", Stalled: true}
		}
		o.engine.acts = []act{stall, stall, stall, speak(0, "x")}
		d.Task.Request = "req-7"
		o.dispatch(d)
		pass(100 * time.Millisecond)
		if log := o.log.String(); !strings.Contains(log, "request=req-7") {
			t.Errorf("its log does not say whose request failed:\n%s", log)
		}
		if got := o.server.Stats().Agents[0].State; got != bus.StateUnhealthy {
			t.Errorf("state %s", got)
		}
		second := *d
		second.Hold = "h2"
		if r := o.dispatch(&second); r.Code != bus.CodeNoSlot {
			t.Errorf("%+v", r)
		}
		pass(5 * time.Second)
		if got := o.server.Stats().Agents[0].State; got != bus.StateReady {
			t.Errorf("state %s", got)
		}
		probe := o.engine.asked[len(o.engine.asked)-1]
		if len(o.engine.asked) != 4 || probe.MaxTokens != 1 || probe.Kind != bus.KindCompletion {
			t.Errorf("asked %+v", o.engine.asked)
		}
	})
}

// A vLLM server that shuts down answers 500 to new requests and 200 to /health. It gets no more tasks, and a
// server that failed a single request goes on.
func TestEngineThatShutsDown(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		refuse := func(context.Context, func(agentd.Chunk) error) (agentd.Answer, error) {
			return agentd.Answer{Unmetered: true},
				&agentd.EngineError{Code: bus.CodeEngineFailed, Status: 500,
					Message: "cannot schedule new futures after shutdown"}
		}
		o.engine.acts = []act{refuse, speak(0, "x"), refuse, refuse}
		o.dispatch(d)
		pass(100 * time.Millisecond)
		if got := o.server.Stats().Agents[0].State; got != bus.StateReady {
			t.Errorf("after one failed request: %s", got)
		}
		o.dispatch(func() *bus.Dispatch { e := *d; e.Hold = "h2"; return &e }())
		pass(100 * time.Millisecond)
		if got := o.server.Stats().Agents[0].State; got != bus.StateUnhealthy {
			t.Errorf("after the probe failed too: %s", got)
		}
	})
}

func TestDeadEngine(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		size := 0
		entry := func() string {
			kvs, _ := o.reg.Get(context.Background(), bus.AgentKey("a1"))
			var r bus.Registration
			if len(kvs) == 1 {
				json.Unmarshal(kvs[0].Value, &r)
			}
			size = r.KVTokens
			return r.State
		}
		o.engine.set(func() { o.engine.sick = errors.New("connection refused") })
		pass(5 * time.Second)
		if got := entry(); got != bus.StateUnhealthy {
			t.Errorf("registered as %q", got)
		}
		o.engine.set(func() { o.engine.sick, o.engine.info.Models = nil, []string{"other"} })
		pass(5 * time.Second)
		if got := entry(); got != "" {
			t.Errorf("back with another model, registered as %q", got)
		}
		if why := o.server.Stats().Agents[0].Why; !strings.Contains(why, `serves ["other"], not "tiny"`) {
			t.Errorf("why is %q", why)
		}
		o.engine.set(func() { o.engine.info.Models, o.engine.info.KVTokens = []string{"tiny"}, 4096 })
		pass(3 * time.Second)
		if got := entry(); got != bus.StateReady || size != 4096 {
			t.Errorf("registered as %q with %d tokens", got, size)
		}
		if why := o.server.Stats().Agents[0].Why; why != "" {
			t.Errorf("why is %q", why)
		}
		// another kind of server has its address: each look fails until it is asked what it is
		o.engine.set(func() { o.engine.sick = errors.New("connection refused") })
		pass(5 * time.Second)
		o.engine.set(func() { o.engine.sick, o.engine.info.KVTokens = agentd.ErrAnother, 8192 })
		pass(3 * time.Second)
		if got := entry(); got != bus.StateReady || size != 8192 {
			t.Errorf("as another server, registered as %q with %d tokens", got, size)
		}
	})
}

// An engine that answers 404 has lost the model, or the adapter: its tasks are for others, who have it begin
// anew. Its agent leaves the market, says so in one line, and is back when the model is.
func TestAnEngineThatLostItsModel(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		listed := func() bool {
			kvs, _ := o.reg.Get(context.Background(), bus.AgentKey("a1"))
			return len(kvs) == 1
		}
		o.engine.set(func() {
			o.engine.info.Models = []string{"other"}
			gone := &agentd.EngineError{Code: bus.CodeUnknownModel, Status: 404, Message: "it answered 404"}
			o.engine.acts = []act{func(context.Context, func(agentd.Chunk) error) (agentd.Answer, error) {
				return agentd.Answer{Unmetered: true}, gone
			}}
		})
		o.dispatch(d)
		synctest.Wait()
		pass(time.Second)
		o.mu.Lock()
		if n := len(o.completions); n != 1 || o.completions[0].Code != bus.CodeUnknownModel ||
			!o.completions[0].Unsaid {
			t.Errorf("completions %+v", o.completions)
		}
		o.mu.Unlock()
		if listed() {
			t.Error("it is in the market without its model")
		}
		pass(20 * time.Second)
		const said = "model tiny is not offered until its engine serves it again"
		if log := o.log.String(); strings.Count(log, said) != 1 || strings.Contains(log, "failed a task") {
			t.Errorf("it says:\n%s", log)
		}
		o.engine.set(func() { o.engine.info.Models = []string{"other", "tiny"} })
		pass(5 * time.Second)
		if s := o.summary(); !listed() || s.State != bus.StateReady {
			t.Errorf("back with the model: in the market %v, %+v", listed(), s)
		}
		// now and then its lists are asked for without any task
		o.engine.set(func() { o.engine.info.Models = []string{"other"} })
		if pass(3 * time.Second); listed() {
			t.Error("it is in the market without its model, of which no task told")
		}
	})
}

// An engine that has no endpoint for completions is sold for chats alone, and is not unhealthy: else one
// client could have it be so for all.
func TestAnEngineWithoutAnEndpoint(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		features := func() string {
			kvs, _ := o.reg.Get(context.Background(), bus.AgentKey("a1"))
			var r bus.Registration
			if len(kvs) != 1 || bus.DecodeEntry(kvs[0].Value, &r) != nil {
				t.Fatalf("%v", kvs)
			}
			return strings.Join(r.Features, " ")
		}
		states, n, answer := "", 0, o.engine.acts
		ask := func(kind string, missing bool) {
			n++
			o.engine.set(func() {
				if o.engine.acts = answer; missing {
					none := &agentd.EngineError{Code: bus.CodeUnknownModel, Status: 404, Missing: true,
						Message: "it answered 404"}
					refuse := func(context.Context, func(agentd.Chunk) error) (agentd.Answer, error) {
						return agentd.Answer{Unmetered: true}, none
					}
					o.engine.acts = []act{refuse}
				}
			})
			x := *d
			x.Hold, x.Task.ID, x.Task.Kind = fmt.Sprint("h", n), fmt.Sprint("t", n), kind
			o.dispatch(&x)
			synctest.Wait()
			states += " " + o.server.Stats().Agents[0].State
			pass(time.Second)
		}
		ask(bus.KindCompletion, true)
		if got := features(); states != " ready" || got != "no_completions" {
			t.Errorf("without completions it is%s, of %q", states, got)
		}
		ask(bus.KindCompletion, true)
		ask(bus.KindChat, false)
		if got := features(); states != " ready ready ready" || got != "no_completions" {
			t.Errorf("asked for them again it is%s, of %q", states, got)
		}
		if log := o.log.String(); strings.Count(log, "no endpoint for such tasks") != 1 {
			t.Errorf("it says:\n%s", log)
		}
		pass(2 * time.Minute) // asked by one token, it has them
		if got := features(); got != "" {
			t.Errorf("minutes later it is still without: %q", got)
		}
		o.mu.Lock()
		if c := o.completions[0]; c.Code != bus.CodeUnknownModel || !c.Unsaid {
			t.Errorf("%+v", c)
		}
		o.mu.Unlock()
	})
}

func TestRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTown(t)
		<-o.server.Ready()
		kvs, _ := o.reg.Get(context.Background(), bus.AgentsPrefix)
		var r bus.Registration
		if len(kvs) != 1 || bus.DecodeEntry(kvs[0].Value, &r) != nil {
			t.Fatalf("%v", kvs)
		}
		if r.Agent != "a1" || r.Node != "n1" || r.Model != "tiny" || r.Slots != 2 || r.KVTokens != 1<<20 ||
			r.BlockSize != 16 || r.Engine != "0.32.0" || r.Price != card || r.Domains[0].Domain != "math" {
			t.Errorf("%+v", r)
		}
		// Lost, it is registered anew.
		if !o.world.Expire(bus.AgentKey("a1")) {
			t.Fatal("no lease")
		}
		pass(3 * time.Second)
		if kvs, _ := o.reg.Get(context.Background(), bus.AgentKey("a1")); len(kvs) != 1 {
			t.Error("not registered again")
		}
		// A lease that it had lost, and that the registry keeps for its time all the same, is its own to end.
		kvs, _ = o.reg.Get(context.Background(), bus.AgentKey("a1"))
		if !o.world.Expire(bus.AgentKey("a1")) {
			t.Fatal("no lease")
		}
		left, err := o.world.Registry().Register(context.Background(), bus.AgentKey("a1"), kvs[0].Value,
			time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Second)
		select {
		case <-left.Lost():
		default:
			t.Error("it waits for its own lease to end")
		}
		if kvs, _ := o.reg.Get(context.Background(), bus.AgentKey("a1")); len(kvs) != 1 {
			t.Error("not registered again")
		}
		// A second agent of the same name on another node is refused, and told who has it.
		other := o.node("agentd2", agentd.Config{Node: "n2", Agents: []agentd.AgentConfig{oneAgent("a1", 2)}})
		err = other.Run(context.Background())
		if err == nil || !strings.Contains(err.Error(),
			`agent a1: the id is already registered by node "n1"`) {
			t.Errorf("error %v", err)
		}
		o.close()
		if kvs, _ := o.reg.Get(context.Background(), bus.AgentsPrefix); len(kvs) != 0 {
			t.Error("still registered after shutdown")
		}
	})
}

// A node that was killed and is started again is sold at once: by the lock of its directory it knows that its
// last life is dead. Another node of that name, with a directory of its own, knows nothing of the kind.
func TestALeaseOfAnEarlierLife(t *testing.T) {
	data := t.TempDir()
	killed := openHome(t, data, "n1")
	life := killed.Life()
	must(t, killed.Close()) // as the system does with what a process had that died
	again, other := openHome(t, data, "n1"), openHome(t, t.TempDir(), "n1")
	synctest.Test(t, func(t *testing.T) {
		o := newTown(t)
		<-o.server.Ready()
		kvs, _ := o.reg.Get(t.Context(), bus.AgentKey("a1"))
		o.close()
		var r bus.Registration
		must(t, bus.DecodeEntry(kvs[0].Value, &r))
		r.Boot--
		r.Life = life
		value, err := bus.EncodeEntry(&r)
		must(t, err)
		world := membus.New(2)
		left, err := world.Registry().Register(t.Context(), bus.AgentKey("a1"), value, time.Hour)
		must(t, err)
		node := func(name string, h *Home) *Server {
			s, err := NewServer(agentd.Config{Node: "n1", Agents: []agentd.AgentConfig{oneAgent("a1", 2)}},
				Deps{Bus: world.Bus(name), Registry: world.Registry(),
					Engine: func(agentd.EngineConfig) agentd.Engine { return o.engine }, Home: h,
					Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
			must(t, err)
			return s
		}
		if err := node("stranger", other).Run(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "already registered") {
			t.Errorf("a node that can prove nothing: %v", err)
		}
		s := node("again", again)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		begun := time.Now()
		go func() { ended <- s.Run(ctx) }()
		<-s.Ready()
		if d := time.Since(begun); d > time.Second {
			t.Errorf("registered after %v", d)
		}
		select {
		case <-left.Lost():
		default:
			t.Error("the old lease is still there")
		}
		stop()
		must(t, <-ended)
	})
}

// Twenty nodes are started on copies of the directory of one that lives. None ends its lease or answers for
// it: each says once what it waits for and why, and ends as it sees that the first one lives.
func TestTwentyTwinsOfANode(t *testing.T) {
	data := t.TempDir()
	living := openHome(t, data, "n1")
	var copies []*Home
	for range 20 {
		to := t.TempDir()
		out, err := exec.Command("cp", "-a", data+"/.", to).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		copies = append(copies, openHome(t, to, "n1"))
	}
	synctest.Test(t, func(t *testing.T) {
		o := newTownAt(t, living)
		<-o.server.Ready()
		key := bus.AgentKey("a1")
		before, err := o.reg.Get(t.Context(), key)
		must(t, err)
		epoch := o.claim()
		synctest.Wait()
		var replies atomic.Int64
		_, err = o.hub.Subscribe("souk.v1.hub.math.taken.*.a1", "", func(bus.Msg) { replies.Add(1) })
		must(t, err)
		for i, h := range copies {
			time.Sleep(time.Millisecond) // no two processes begin at once
			var log bytes.Buffer
			s, err := NewServer(agentd.Config{Node: "n1", Agents: []agentd.AgentConfig{oneAgent("a1", 2)}},
				Deps{Bus: o.world.Bus(fmt.Sprint("twin-", i)), Registry: o.world.Registry(),
					Engine: func(agentd.EngineConfig) agentd.Engine { return o.engine }, Home: h,
					Log: slog.New(slog.NewTextHandler(&log, nil))})
			must(t, err)
			ended := make(chan error, 1)
			go func() { ended <- s.Run(t.Context()) }()
			pass(time.Second)
			replies.Store(0)
			d := dispatch(fmt.Sprint("h-", i))
			d.Epoch, d.Boot = epoch, o.server.boot
			if r := o.dispatch(d); r.Code != "" {
				t.Errorf("beside twin %d a dispatch is refused: %+v", i, r)
			}
			pass(time.Second)
			if n := replies.Load(); n != 1 {
				t.Errorf("beside twin %d a dispatch has %d replies", i, n)
			}
			if err := <-ended; err == nil || !strings.Contains(err.Error(), "already registered") {
				t.Errorf("twin %d ended with %v", i, err)
			}
			if got := log.String(); strings.Count(got, "waiting for the lease") != 1 ||
				!strings.Contains(got, "this directory is a copy") || !strings.Contains(got, "within=") {
				t.Errorf("twin %d says\n%s", i, got)
			}
		}
		after, err := o.reg.Get(t.Context(), key)
		must(t, err)
		if len(after) != 1 || after[0].Create != before[0].Create {
			t.Errorf("the first has been registered anew: %+v, then %+v", before, after)
		}
		o.close()
	})
}

// A node on a copy of another's directory sends nothing of the copied spool while the other has the id: that
// is the other's to send.
func TestATwinSendsNothingOfTheSpool(t *testing.T) {
	data := t.TempDir()
	h := openHome(t, data, "n1")
	synctest.Test(t, func(t *testing.T) {
		o := newTownAt(t, h)
		<-o.server.Ready()
		o.mu.Lock()
		ack := o.ack
		o.ack = func(bus.Completion) *bus.CompletionAck { return nil }
		o.mu.Unlock()
		d := dispatch("h")
		d.Epoch = o.claim()
		synctest.Wait()
		if r := o.dispatch(d); r.Code != "" {
			t.Fatalf("%+v", r)
		}
		pass(time.Second)
		to := t.TempDir()
		if out, err := exec.Command("cp", "-a", data+"/.", to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		o.mu.Lock()
		o.ack = ack
		o.mu.Unlock()
		pass(10 * time.Second) // the living one is acknowledged
		n := len(o.done())
		var log bytes.Buffer
		s, err := NewServer(agentd.Config{Node: "n1", Agents: []agentd.AgentConfig{oneAgent("a1", 2)}},
			Deps{Bus: o.world.Bus("twin"), Registry: o.world.Registry(),
				Engine: func(agentd.EngineConfig) agentd.Engine { return o.engine },
				Home:   openHome(t, to, "n1"), Log: slog.New(slog.NewTextHandler(&log, nil))})
		must(t, err)
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "already registered") {
			t.Errorf("it ended with %v", err)
		}
		if got := log.String(); !strings.Contains(got, "completions of an earlier life") {
			t.Errorf("its spool is empty: %s", got)
		}
		if more := len(o.done()) - n; more > 0 {
			t.Errorf("a twin that has not the id sends %d completions", more)
		}
		o.close()
	})
}

// What was served and not acknowledged is sent by the next life, under the name of the one that served it;
// and its hub is told to wait for it.
func TestCompletionsOfAnEarlierLife(t *testing.T) {
	data := t.TempDir()
	h := openHome(t, data, "n1")
	synctest.Test(t, func(t *testing.T) {
		o := newTownAt(t, h)
		<-o.server.Ready()
		ack := o.ack
		o.ack = func(bus.Completion) *bus.CompletionAck { return nil }
		d := dispatch("h")
		d.Epoch = o.claim()
		synctest.Wait()
		if r := o.dispatch(d); r.Code != "" {
			t.Fatalf("%+v", r)
		}
		o.stop() // nobody acknowledges it for as long as a stop takes
		must(t, <-o.ended)
		before := o.done()
		if len(before) == 0 {
			t.Fatal("nothing was sent")
		}
		run := func(name string) (s *Server, stop func()) {
			must(t, o.home.Close())
			o.home = openHome(t, data, "n1")
			o.home.boot += int64(len(name)) // no two lives begin at once
			s = o.node(name, agentd.Config{Node: "n1", Agents: []agentd.AgentConfig{oneAgent("a1", 2)}})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			<-s.Ready()
			return s, func() { cancel(); must(t, <-ended) }
		}
		second, stop := run("second")
		registered := func() (r bus.Registration) {
			kvs, err := o.reg.Get(t.Context(), bus.AgentKey("a1"))
			must(t, err)
			must(t, bus.DecodeEntry(kvs[0].Value, &r))
			return r
		}
		if r := registered(); len(r.Former) != 1 || r.Former[0] != before[0].Boot ||
			r.Boot == before[0].Boot {
			t.Errorf("registered as %+v, want the former boot %d", r, before[0].Boot)
		}
		o.mu.Lock()
		o.ack = ack
		o.mu.Unlock()
		if r := o.dispatch(d); r.Code != "" { // its hub died as well, and asks again
			t.Errorf("what it has served is not its own: %+v", r)
		}
		pass(10 * time.Second)
		last := o.done()[len(o.done())-1]
		if !reflect.DeepEqual(last, before[0]) {
			t.Errorf("sent\n%+v\nwant\n%+v", last, before[0])
		}
		if r := registered(); len(r.Former) != 0 || second.Stats().Agents[0].Pending != 0 ||
			len(o.engine.asked) != 1 {
			t.Errorf("after the acknowledgement: %+v", r)
		}
		stop()
		n := len(o.done())
		_, stop = run("third")
		pass(10 * time.Second)
		if len(o.done()) != n {
			t.Error("it is sent again")
		}
		stop()
		o.hub.Close()
		synctest.Wait()
	})
}

// While the bus is away nobody can say what of an answer is delivered: it is written down once its reader has
// it.
func TestWhatNobodyHasIsNotWrittenDown(t *testing.T) {
	h := openHome(t, t.TempDir(), "n1")
	synctest.Test(t, func(t *testing.T) {
		o := newTownAt(t, h)
		<-o.server.Ready()
		o.ack = func(bus.Completion) *bus.CompletionAck { return nil }
		o.engine.set(func() { o.engine.acts = []act{speak(time.Second, "so", " it", " is")} })
		written := func() string {
			data, err := os.ReadFile(o.server.agents[0].spool.path)
			must(t, err)
			left, _, err := agentd.ReadSpool(data, "a1", 10)
			must(t, err)
			return holds(left)
		}
		d := dispatch("h")
		d.Epoch = o.claim()
		synctest.Wait()
		o.dispatch(d)
		pass(1500 * time.Millisecond)
		o.world.Cut("agentd")
		pass(5 * time.Second)
		o.world.Heal("agentd")
		pass(time.Second)
		if got := written(); got != "" {
			t.Errorf("%q is written down, and nobody has it", got)
		}
		var all uint64 = 4
		o.control(bus.StreamControl{Token: "t-h", Ack: &all})
		if got := written(); got != "h" {
			t.Errorf("%q is written down, and its reader has it", got)
		}
		o.close()
	})
}

func TestWaitsForABootingEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTown(t)
		o.engine.set(func() { o.engine.infoErr = errors.New("connection refused") })
		o.stop()
		<-o.ended // before anything was ready
		o.server = o.node("agentd2",
			agentd.Config{Node: "n1", Agents: []agentd.AgentConfig{oneAgent("a1", 2)}})
		ctx, stop := context.WithCancel(context.Background())
		o.stop = stop
		go func() { o.ended <- o.server.Run(ctx) }()
		pass(time.Minute)
		select {
		case <-o.server.Ready():
			t.Error("ready without an engine")
		default:
		}
		if s := o.server.Stats().Agents[0]; s.State != "booting" || s.Why != "connection refused" {
			t.Errorf("%+v", s)
		}
		o.engine.set(func() { o.engine.infoErr, o.engine.info.Models = nil, []string{"other"} })
		pass(time.Minute)
		o.engine.set(func() { o.engine.info.Models = []string{"other", "tiny"} })
		<-o.server.Ready()
		o.close()
	})
}

// After SIGTERM what runs is finished and settled; nothing new is taken.
func TestDrain(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.engine.acts = []act{speak(2*time.Second, "a", "b", "c")}
		o.dispatch(d)
		pass(time.Second)
		o.stop()
		pass(time.Second)
		late := *d
		late.Hold = "h2"
		if r := o.dispatch(&late); r.Code != bus.CodeDraining {
			t.Errorf("%+v", r)
		}
		o.mu.Lock()
		if s := o.summaries[len(o.summaries)-1]; s.State != bus.StateDraining {
			t.Errorf("%+v", s)
		}
		o.mu.Unlock()
		if err := <-o.ended; err != nil {
			t.Error(err)
		}
		o.ended <- nil
		synctest.Wait() // until the bus has delivered what was sent
		if got, want := o.answer(), "0a|1b|2c|3[stop ]|"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
		if c := o.done(); len(c) != 1 || c[0].Outcome != bus.OutcomeDone {
			t.Errorf("%+v", c)
		}
	})
}

func TestDrainTimeout(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.engine.acts = []act{speak(time.Minute, "a", "b", "c")}
		o.dispatch(d)
		begun := time.Now()
		o.stop()
		<-o.ended
		o.ended <- nil
		if took := time.Since(begun); took < 5*time.Second || took > 7*time.Second {
			t.Errorf("took %v", took)
		}
		if got, want := o.answer(), "0[agent_failed ]|"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
	}, func(c *agentd.Config) { c.DrainTimeout = 5 * time.Second })
}

// Summaries come at least every second, and reach the hub that sells the slots.
func TestSummariesArrive(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.mu.Lock()
		n := len(o.summaries)
		o.mu.Unlock()
		pass(10 * time.Second)
		o.mu.Lock()
		defer o.mu.Unlock()
		if got := len(o.summaries) - n; got < 9 || got > 30 {
			t.Errorf("%d summaries in 10 s", got)
		}
		for i := 1; i < len(o.summaries); i++ {
			if o.summaries[i].Seq <= o.summaries[i-1].Seq {
				t.Error("out of order")
			}
		}
	})
}

// A node that is told to stop while the bus is away sends what it has to settle as soon as the bus is back,
// as it always does.
func TestTheBusIsBackDuringADrain(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.dispatch(d)
		o.world.Cut("agentd")
		pass(20 * time.Second) // the pauses have grown
		o.stop()
		pass(time.Second)
		o.world.Heal("agentd")
		back := time.Now()
		if err := <-o.ended; err != nil {
			t.Error(err)
		}
		o.ended <- nil
		if took := time.Since(back); len(o.done()) == 0 || took > 500*time.Millisecond {
			t.Errorf("stopped %v after the bus was back, with %d completions sent", took, len(o.done()))
		}
	}, func(c *agentd.Config) { c.SettleTimeout = time.Minute })
}

// A hub that is gone for good does not hold up a shutdown.
func TestShutdownWithoutAHub(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.ack = func(bus.Completion) *bus.CompletionAck { return nil }
		o.dispatch(d)
		pass(time.Second)
		begun := time.Now()
		o.stop()
		if err := <-o.ended; err != nil {
			t.Error(err)
		}
		o.ended <- nil
		if took := time.Since(begun); took < 3*time.Second || took > 6*time.Second {
			t.Errorf("took %v", took)
		}
		if s := o.server.Stats().Agents[0]; s.Pending != 1 || s.Done != 1 {
			t.Errorf("%+v", s)
		}
		if len(o.done()) < 2 {
			t.Errorf("the completion was sent %d times", len(o.done()))
		}
	}, func(c *agentd.Config) { c.SettleTimeout = 3 * time.Second })
}

// A node may have several engines; each is an agent of its own, and the node is ready when all are.
func TestSeveralAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTown(t, func(c *agentd.Config) {
			for i := 2; i < 12; i++ {
				c.Agents = append(c.Agents, oneAgent(fmt.Sprint("a", i), i))
			}
		})
		<-o.server.Ready()
		d := dispatch("h")
		d.Epoch = o.claim() // of a1, not of a10 or a11
		synctest.Wait()
		claimed := ""
		for _, s := range o.server.Stats().Agents {
			if s.Domain != "" {
				claimed += s.Agent + " "
			}
		}
		kvs, _ := o.reg.Get(context.Background(), bus.AgentsPrefix)
		if claimed != "a1 " || len(kvs) != 11 {
			t.Errorf("claimed %q of %d", claimed, len(kvs))
		}
		if r := o.dispatch(d); r.Code != "" {
			t.Errorf("%+v", r)
		}
		pass(time.Second)
		if got, want := o.answer(), "0so|1 it|2 is|3[stop ]|"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
		o.close()
	})
}

// unreached is a bus that is away, or refuses.
type unreached struct {
	bus.Bus
	err error
}

func (b unreached) Publish(bus.Msg) error { return b.err }

// A bus that is away is said once by whoever watches it, and not for each message that it does not take.
func TestAnOutageIsNotLoggedForEachMessage(t *testing.T) {
	for err, lines := range map[error]int{bus.ErrNotSent: 0, bus.ErrDisconnected: 0, bus.ErrClosed: 0,
		bus.ErrTooLarge: 1} {
		var log bytes.Buffer
		s, wrong := NewServer(agentd.Config{Agents: []agentd.AgentConfig{oneAgent("a1", 4)}},
			Deps{Bus: unreached{err: err}, Engine: func(agentd.EngineConfig) agentd.Engine { return nil },
				Log: slog.New(slog.NewTextHandler(&log, nil))})
		if wrong != nil {
			t.Fatal(wrong)
		}
		s.agents[0].send(bus.SummarySubject("math", "a1"), &bus.Summary{Agent: "a1", State: bus.StateReady})
		if got := strings.Count(log.String(), "\n"); got != lines {
			t.Errorf("%v: %d lines, want %d:\n%s", err, got, lines, log.String())
		}
	}
}

// Who forgot the flag by which an engine counts what it had cached is told, once, and nobody else is.
func TestAnEngineThatDoesNotCountWhatItCachesIsNamed(t *testing.T) {
	none := bus.Completion{Outcome: bus.OutcomeDone, Usage: market.Usage{Prompt: 9}, NoCacheReport: true}
	says, broken := none, none
	says.NoCacheReport, broken.Unmetered = false, true
	for name, c := range map[string]struct {
		answers []bus.Completion
		named   int
	}{
		"never":  {slices.Repeat([]bus.Completion{none}, 30), 1},
		"always": {slices.Repeat([]bus.Completion{says}, 30), 0},
		"where it is not nothing": {slices.Concat(slices.Repeat([]bus.Completion{none}, 5),
			[]bus.Completion{says}, slices.Repeat([]bus.Completion{none}, 30)), 0},
		"of answers that broke off": {slices.Repeat([]bus.Completion{broken}, 30), 0},
	} {
		var a agent
		named := 0
		for i := range c.answers {
			if a.countsNoHits(&c.answers[i]) {
				named++
			}
		}
		if named != c.named {
			t.Errorf("%s: named %d times, want %d", name, named, c.named)
		}
	}
}

// A registry that answers with errors for ten minutes, in which the agent loses its lease, is named when it
// begins, once a minute, and when it is back.
func TestARegistryThatFailsIsNamedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTown(t)
		<-o.server.Ready()
		registry := o.world.Registry()
		var log bustest.Buffer
		s, err := NewServer(agentd.Config{Node: "n2", Agents: []agentd.AgentConfig{oneAgent("a2", 2)}},
			Deps{Bus: o.world.Bus("agentd2"), Registry: registry,
				Engine: func(agentd.EngineConfig) agentd.Engine { return o.engine },
				Log: slog.New(slog.NewTextHandler(&log,
					nil))})
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		<-s.Ready()
		log.Take()
		registry.Away(true)
		pass(10 * time.Second)
		o.world.Expire(bus.AgentKey("a2"))
		pass(10*time.Minute - 5*time.Second)
		if got := log.Take(); strings.Count(got, "; trying on") != 11 || strings.Count(got, "\n") != 11 ||
			registry.Failed() < 300 {
			t.Errorf("of %d calls that failed in ten minutes it said\n%s", registry.Failed(), got)
		}
		registry.Away(false)
		pass(10 * time.Second)
		if got := log.Take(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "after=") {
			t.Errorf("when it was back it said\n%s", got)
		}
		stop()
		must(t, <-ended)
		o.close()
	})
}

// An agent goes from the hub of one domain to that of another and back, whichever was elected first, and
// serves each; the one that has lost it is refused.
func TestAnAgentGoesToAnotherHubAndBack(t *testing.T) {
	for _, first := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			o := newTown(t)
			<-o.server.Ready()
			domains := []string{"math", "code"}
			leads := make([]bus.Leadership, 2)
			for _, i := range []int{first, 1 - first} {
				lead, err := o.reg.Elect(t.Context(), bus.HubKey(domains[i]), []byte(`{}`), time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				defer lead.Close(context.Background())
				leads[i] = lead
			}
			fences := make([]int64, 2)
			for n := range 6 {
				i := n % 2
				if n > 0 {
					if err := leads[1-i].Release(t.Context(), bus.ClaimKey("a1")); err != nil {
						t.Fatal(err)
					}
				}
				value, _ := bus.EncodeEntry(&bus.Claim{Agent: "a1", Domain: domains[i], Hub: "h",
					Epoch: leads[i].Epoch()})
				var err error
				if fences[i], err = leads[i].Claim(t.Context(), bus.ClaimKey("a1"), value); err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
				for _, j := range []int{i, 1 - i} {
					d := dispatch(fmt.Sprintf("h-%d-%d", n, j))
					d.Task.ID, d.Domain, d.Epoch, d.Fence = d.Hold, domains[j], leads[j].Epoch(), fences[j]
					d.Boot = o.server.boot
					r, err := bustest.Hand(t.Context(), o.hub, domains[j], "a1", d, nil)
					if err != nil {
						t.Fatal(err)
					}
					switch {
					case j == i && r.Code != "":
						t.Errorf("%s elected first, move %d to %s: %+v", domains[first], n, domains[i], r)
					case j != i && n > 0 && r.Code != bus.CodeStaleEpoch:
						t.Errorf("%s elected first, move %d: %s, which has lost the agent, gets %+v",
							domains[first], n, domains[j], r)
					}
				}
				pass(time.Second)
			}
			o.close()
		})
	}
}

// A hostile client cancels the same prompt at any moment, again and again: each time the agent is paid
// for what its engine had to compute, or the engine was later than it was quoted to be.
func TestNoCancelHasAPromptForNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	inTown(t, func(o *town, d *bus.Dispatch) {
		for i := range 60 {
			first, pause := time.Duration(1+r.IntN(3000))*time.Millisecond,
				time.Duration(1+r.IntN(50))*time.Millisecond
			words := make([]string, 20)
			for k := range words {
				words[k] = "w"
			}
			o.engine.set(func() {
				o.engine.acts = []act{func(ctx context.Context,
					token func(agentd.Chunk) error) (agentd.Answer, error) {
					if !follow.Pause(ctx, first) {
						return agentd.Answer{Unmetered: true}, context.Cause(ctx)
					}
					return speak(pause, words...)(ctx, token)
				}}
			})
			again := *d
			again.Hold, again.FirstMS = fmt.Sprint("h", i), 2000
			again.Task.ID, again.Task.Reply = "t-"+again.Hold, "souk.v1.reply.ann.t-"+again.Hold
			o.dispatch(&again)
			after := time.Duration(r.IntN(4000)) * time.Millisecond
			if after > 0 {
				pass(after)
			}
			o.control(bus.StreamControl{Token: again.Task.ID, Cancel: true})
			pass(10 * time.Second)
			c := o.done()[i]
			came := first + pause
			want := "the prompt"
			switch {
			case after < came && came > 2*time.Second && c.Outcome == bus.OutcomeCancelled:
				want = "nothing"
			}
			if paid := c.Cost > 0 && c.Usage.Prompt == 20; paid != (want == "the prompt") ||
				c.Cost < card.Cost(c.Usage) {
				t.Errorf("%d: first token after %v, cancelled after %v: due is %s, paid were %v for %+v (%s)",
					i, came, after, want, c.Cost, c.Usage, c.Outcome)
			}
			if o.server.Stats().Agents[0].InFlight != 0 {
				t.Fatal("a slot is lost")
			}
		}
	})
}
