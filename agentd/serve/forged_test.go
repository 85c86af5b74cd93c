package serve

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
)

// One forged message of each kind, with each of its numbers at the bustest.Extremes, is said to an agent that
// serves. What it serves comes to its reader in full, and its hub's next task is served.
func TestOneForgedMessageToAnAgent(t *testing.T) {
	inTown(t, func(o *town, first *bus.Dispatch) {
		fence := func() int64 {
			kvs, err := o.reg.Get(context.Background(), bus.ClaimKey("a1"))
			if err != nil || len(kvs) != 1 {
				t.Fatal(kvs, err)
			}
			return kvs[0].Create
		}()
		forgeries := []struct {
			subject string
			make    func(task string) bus.Message
		}{
			{bus.DispatchSubject("a1", "math"), func(string) bus.Message {
				d := dispatch("forged")
				d.Epoch, d.Fence, d.Boot = first.Epoch, fence, o.server.boot
				return d
			}},
			{bus.CallSubject("a1", "math"), func(string) bus.Message {
				return &bus.Call{Agent: "a1", Class: "tiny", Epoch: 3, Lead: first.Epoch}
			}},
			{bus.StreamSubject("a1", "ann"),
				func(task string) bus.Message {
					return &bus.StreamControl{Token: task,
						Resume: new(uint64(1))}
				}},
			{bus.StreamSubject("a1", "ann"),
				func(task string) bus.Message {
					return &bus.StreamControl{Token: task, Ack: new(uint64(0))}
				}},
		}
		tried := 0
		for i, forgery := range forgeries {
			var paths []string
			bustest.Numbers(reflect.ValueOf(forgery.make("t")), "",
				func(path string, _ func(int64)) { paths = append(paths, path) })
			for _, path := range paths {
				for _, n := range bustest.Extremes {
					tried++
					o.engine.acts = []act{speak(100*time.Millisecond, "so", " it", " is")}
					name := fmt.Sprintf("x-%d", tried)
					serve := func(hold string) bus.DispatchReply {
						d := dispatch(hold)
						d.Epoch, d.Fence, d.Boot = first.Epoch, fence, o.server.boot
						return o.dispatch(d)
					}
					o.mu.Lock()
					o.chunks = nil
					o.mu.Unlock()
					if r := serve(name); r.Code != "" {
						t.Fatalf("before %s = %d: %+v", path, n, r)
					}
					pass(150 * time.Millisecond)
					forged := forgery.make("t-" + name)
					bustest.Numbers(reflect.ValueOf(forged), "", func(at string, set func(int64)) {
						if at == path {
							set(n)
						}
					})
					if d, ok := forged.(*bus.Dispatch); ok {
						d.Hold = "forged-" + name
						d.Task.ID = d.Hold
						d.Task.Reply = bus.ReplyTo("ann", d.Hold)
					}
					o.hub.Publish(bus.Msg{Subject: forgery.subject, Data: encoded(t, forged),
						Reply: bus.TakenSubject("math", "9-0", "a1")})
					pass(time.Second)
					if r := serve(name + "-next"); r.Code != "" {
						t.Errorf("after forgery %d, %s = %d: %+v", i, path, n, r)
					}
					pass(time.Second)
					// whoever lost all of it gets all of it
					for _, task := range []string{"t-" + name, "t-" + name + "-next"} {
						if _, acked := forged.(*bus.StreamControl); acked && path == ".Ack" &&
							(n == 0 || n == 1) && !strings.HasSuffix(task, "-next") {
							continue // what was truly sent may be let go
						}
						o.mu.Lock()
						o.chunks = nil
						o.mu.Unlock()
						o.control(bus.StreamControl{Token: task, Resume: new(uint64(0))})
						pass(time.Second)
						if got, want := o.answer(), "0so|1 it|2 is|3[stop ]|"; got != want {
							t.Errorf("after forgery %d, %s = %d: %s came as %q, want %q", i, path, n, task,
								got, want)
						}
					}
				}
			}
		}
		if tried < 150 {
			t.Errorf("only %d messages were tried", tried)
		}
	})
}
