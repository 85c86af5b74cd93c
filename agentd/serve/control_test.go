package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/agentd"
	"souk/bus"
)

// narrow is a bus over a link of so many bytes a second, one message after another.
type narrow struct {
	bus.Bus
	link chan struct{}
	rate int
}

func (n *narrow) Publish(m bus.Msg) error {
	n.link <- struct{}{}
	<-time.After(time.Duration(len(m.Data)) * time.Second / time.Duration(n.rate))
	err := n.Bus.Publish(m)
	<-n.link
	return err
}

// A client that asks for its answers again and again, from every number, beside all else that it can say,
// gets each once a second at most, and all of them together within the agent's budget. Meanwhile another's
// answer keeps its pace, a dispatch is answered and a cancel obeyed.
func TestRepeatsAreBounded(t *testing.T) {
	const kept, greedy, link = 256 * 2048, 8, 32 << 20
	const repeatRate, strangers = 4 << 20, 256 // bytes, and readers of what is not kept, in a second
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	synctest.Test(t, func(t *testing.T) {
		o := newTownOn(t, func(b bus.Bus) bus.Bus { return &narrow{b, make(chan struct{}, 1), link} }, nil,
			func(c *agentd.Config) {
				c.Agents[0].Slots = greedy + 3
				c.Heartbeat = time.Minute // none of them here: all that is said is said by answers
			})
		<-o.server.Ready()
		epoch := o.claim()
		synctest.Wait()
		send := func(client, id string) bus.DispatchReply {
			d := dispatch(id)
			d.Epoch, d.Task.Client, d.Task.ID, d.Task.Reply, d.MaxTokens = epoch, client, id,
				bus.ReplyTo(client, id), 1000
			return o.dispatch(d)
		}
		bytes, steady := 0, []time.Time{}
		o.listen("souk.v1.reply.eve.*.a1", func(m bus.Msg) { bytes += len(m.Data) })
		o.listen("souk.v1.reply.ann.steady.a1", func(m bus.Msg) { steady = append(steady, time.Now()) })
		large := make([]string, 256)
		for i := range large {
			large[i] = strings.Repeat("x", 2048)
		}
		o.engine.acts = nil
		for range greedy {
			o.engine.acts = append(o.engine.acts,
				func(ctx context.Context, token func(agentd.Chunk) error) (agentd.Answer, error) {
					speak(0, large...)(ctx, token)
					<-ctx.Done()
					return agentd.Answer{Unmetered: true}, context.Cause(ctx)
				})
		}
		words := strings.Split(strings.Repeat("a ", 500), " ")
		o.engine.acts = append(o.engine.acts, speak(10*time.Millisecond, words...))
		for i := range greedy {
			send("eve", fmt.Sprint("g", i))
		}
		pass(time.Second)
		send("ann", "steady")
		send("ann", "other")
		pass(time.Second)

		o.mu.Lock()
		bytes, steady = 0, nil
		o.mu.Unlock()
		asked := 0
		for range 1000 {
			for range 4 {
				task := fmt.Sprint("g", rng.IntN(greedy+4)) // some that are not there
				c := bus.StreamControl{Token: task, Resume: new(uint64(rng.IntN(300)))}
				switch rng.IntN(10) {
				case 0:
					c.Resume = new(uint64(1<<50 + rng.IntN(9)))
				case 1:
					c = bus.StreamControl{Token: task, Ack: new(uint64(1<<50 + rng.IntN(9)))}
				case 3, 4, 5:
					c.Resume = new(uint64(0))
				}
				asked++
				o.hub.Publish(bus.Msg{Subject: bus.StreamSubject("a1", "eve"), Data: encoded(t, &c)})
			}
			<-time.After(time.Millisecond)
		}
		begun := time.Now()
		if r := send("ann", "late"); r.Code != "" {
			t.Errorf("a dispatch is answered with %+v", r)
		}
		o.control(bus.StreamControl{Token: "other", Cancel: true})
		if took := time.Since(begun); took > 50*time.Millisecond {
			t.Errorf("a dispatch and a cancel took %v", took)
		}
		pass(50 * time.Millisecond)
		ended := 0
		for _, c := range o.done() {
			if c.Task == "other" {
				ended++
			}
		}
		if ended != 1 {
			t.Error("the cancel is not obeyed")
		}
		o.mu.Lock()
		// those of a second at once, those of a second and a bit, those that are told that it is unknown
		most := repeatRate + repeatRate*5/4 + strangers*2*400
		if bytes > most || bytes < kept {
			t.Errorf("%d controls brought %d bytes, want at most %d", asked, bytes, most)
		}
		t.Logf("%d controls brought %d bytes", asked, bytes)
		if len(steady) < 90 {
			t.Errorf("%d chunks of the answer beside it in a second, want 100", len(steady))
		}
		for i := 1; i < len(steady); i++ {
			if gap := steady[i].Sub(steady[i-1]); gap > 20*time.Millisecond {
				t.Errorf("the answer beside it stood still for %v", gap)
			}
		}
		o.mu.Unlock()

		pass(5 * time.Second) // one that only reads what it lost still gets it, and all of it
		o.mu.Lock()
		o.chunks = nil
		o.mu.Unlock()
		o.hub.Publish(bus.Msg{Subject: bus.StreamSubject("a1", "eve"),
			Data: encoded(t, &bus.StreamControl{Token: "g1", Resume: new(uint64(16))})})
		pass(100 * time.Millisecond)
		o.mu.Lock()
		if len(o.chunks) < 240 || o.chunks[0].Seq != 16 {
			t.Errorf("of 240 chunks that were lost %d came", len(o.chunks))
		}
		o.mu.Unlock()
		o.close()
	})
}
