package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/follow"
)

// A node is cut off from etcd alone for longer than its lease, and a copy of its directory has its agent by
// then. The node is silent: what it said of the other's tasks would pass for the other's word. The answer
// that it had begun goes on to its reader. Once the other is gone it serves again. Nor does it matter that it
// has news for the registry, and waits to tell them.
func TestANodeWhoseAgentIsAnothersIsSilent(t *testing.T) {
	for _, news := range []bool{false, true} {
		t.Run(fmt.Sprint("news ", news), func(t *testing.T) { isSilent(t, news) })
	}
}

func isSilent(t *testing.T, news bool) {
	data, to := t.TempDir(), t.TempDir()
	living := openHome(t, data, "n1")
	must(t, os.CopyFS(to, os.DirFS(data)))
	for time.Now().UnixMilli() <= living.boot { // no two lives begin at once
		runtime.Gosched()
	}
	other := openHome(t, to, "n1")
	synctest.Test(t, func(t *testing.T) {
		o := newTownAt(t, living)
		<-o.server.Ready()
		begun := dispatch("begun")
		begun.Epoch = o.claim()
		synctest.Wait()
		o.engine.acts = []act{speak(20*time.Second, "so", " it", " is"),
			speak(time.Second, "no", " it", " is")}
		if r := o.dispatch(begun); r.Code != "" {
			t.Fatalf("%+v", r)
		}
		o.agent.Cut()
		if news {
			follow.Nudge(o.server.agents[0].changed)
		}
		twin, err := NewServer(agentd.Config{Node: "n1", Agents: []agentd.AgentConfig{oneAgent("a1", 2)}},
			Deps{Bus: o.world.Bus("twin"), Registry: o.world.Registry(),
				Engine: func(agentd.EngineConfig) agentd.Engine { return o.engine }, Home: other,
				Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		must(t, err)
		ended := make(chan error, 1)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go func() { ended <- twin.Run(ctx) }()
		<-twin.Ready()
		pass(time.Second)

		var replies, asks atomic.Int64
		o.listen("souk.v1.hub.math.taken.*.a1", func(bus.Msg) { replies.Add(1) })
		o.listen(bus.AskSubject("math", "a1"), func(bus.Msg) { asks.Add(1) })
		serves := func(s *Server, hold string) {
			t.Helper()
			replies.Store(0)
			asks.Store(0)
			d := o.under("a1", dispatch(hold))
			d.Epoch, d.Boot = begun.Epoch, s.boot
			if r, err := bustest.Hand(t.Context(), o.hub, "math", "a1", d, nil); err != nil || r.Code != "" {
				t.Errorf("%s: a dispatch to the one that has the agent is answered %+v, %v", hold, r, err)
			}
			pass(1500 * time.Millisecond)
			o.control(bus.StreamControl{Token: "t-" + hold, Resume: new(uint64(0))})
			o.hub.Publish(bus.Msg{Subject: bus.CallSubject("a1", "math"),
				Data: encoded(t, &bus.Call{Agent: "a1", Class: "tiny", Epoch: 1, Lead: begun.Epoch})})
			pass(5 * time.Second)
			if r, a := replies.Load(), asks.Load(); r != 1 || a != 1 {
				t.Errorf("%s: a dispatch has %d replies, a call %d asks", hold, r, a)
			}
		}
		serves(twin, "away")
		o.agent.Heal()
		pass(time.Second)
		serves(twin, "back")
		pass(time.Minute)
		end()
		must(t, <-ended)
		pass(5 * time.Second)
		serves(o.server, "gone")
		var first strings.Builder
		for _, c := range o.chunks {
			switch {
			case c.Result != nil && c.Result.Code == bus.CodeUnknown:
				t.Errorf("the reader of %s is told that nobody has its answer", c.Task)
			case c.Task == "t-begun":
				fmt.Fprintf(&first, "%d%s|", c.Seq, c.Text)
			}
		}
		if got, want := first.String(), "0so|1 it|2 is|3|"; got != want {
			t.Errorf("of the answer that the first had begun its reader has %q, want %q", got, want)
		}
		o.close()
	})
}
