package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/follow"
)

// One client whose bodies do not come keeps nobody else's from the node.
func TestBodiesThatDoNotComeKeepNoOtherAway(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		asked := map[string]map[string]bool{} // tokens of bodies, by who was to send them
		o.listen("souk.v1.body.*.a1", func(m bus.Msg) {
			var a bus.BodyAsk
			o.decode(m, &a)
			sender := strings.Split(m.Subject, ".")[3]
			if asked[sender] == nil {
				asked[sender] = map[string]bool{}
			}
			asked[sender][a.Token] = true
		})
		send := func(client string, i int) {
			own := *d
			own.Hold = fmt.Sprint(client, "-", i)
			own.Task.ID, own.Task.Client = own.Hold, client
			own.Task.Reply = bus.ReplyTo(client, own.Hold)
			own.Task.Body, own.Task.Large = nil, bus.LargeOf(make([]byte, bus.MaxBody+1))
			if r := o.dispatch(&own); r.Code != "" {
				t.Fatal(r)
			}
		}
		for i := range 2 * mostFetches {
			send("slow", i)
		}
		pass(time.Second)
		send("ann", 0)
		send("bob", 0)
		pass(time.Second)
		o.mu.Lock()
		defer o.mu.Unlock()
		if n := len(asked["slow"]); n != mostFetches/2 || len(asked["ann"]) != 1 || len(asked["bob"]) != 1 {
			t.Errorf("%d bodies of one client are awaited, %d and %d of others", n, len(asked["ann"]),
				len(asked["bob"]))
		}
	}, func(c *agentd.Config) { c.Agents[0].Slots = 3 * mostFetches })
}

// What a client may have in hand is half of what others leave, and is there again once it has ended.
func TestAClientsShareOfBodies(t *testing.T) {
	b := bodies{of: map[string]load{}}
	fill := func(client string) (n int) {
		for b.hold(client, bus.MaxLarge) {
			n++
		}
		return n
	}
	if a, c, d := fill("a"), fill("b"), fill("c"); a != 8 || c != 4 || d != 2 {
		t.Errorf("of room for 16 bodies clients have %d, %d and %d", a, c, d)
	}
	for range 8 {
		b.leave("a", bus.MaxLarge)
	}
	if n := fill("b"); n != 3 || len(b.of) != 2 {
		t.Errorf("once one has left the next has %d more; %d clients are remembered", n, len(b.of))
	}
	for client, own := range map[string]int{"b": 7, "c": 2} {
		for range own {
			b.leave(client, bus.MaxLarge)
		}
	}
	if len(b.of) != 0 || b.all != (load{}) {
		t.Errorf("nobody is left: %+v", b.all)
	}
}

// A client whose bodies the node has may have them come, whatever others have taken since: their bytes are
// counted already.
func TestABodyThatTheNodeHasRoomForComes(t *testing.T) {
	b := bodies{of: map[string]load{}}
	for _, client := range []string{"a", "b"} {
		for b.hold(client, bus.MaxLarge) {
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody waits
	for _, client := range []string{"a", "b"} {
		if err := b.begin(ctx, client); err != nil {
			t.Errorf("%s, whose bodies fill its share, waits for others to end", client)
		}
	}
}

// A body that may not come soon goes elsewhere: an agent is not to be late for the client's other bodies.
func TestABodyThatMayNotBeginGoesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bodies{of: map[string]load{}}
		for range mostFetches / 2 {
			if err := b.begin(t.Context(), "slow"); err != nil {
				t.Fatal(err)
			}
		}
		began, no := time.Now(), (*agentd.EngineError)(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.begin(ctx, "slow"); !errors.As(err, &no) || no.Code != bus.CodeNoSlot {
			t.Errorf("it is told %v", err)
		}
		most := time.Since(began) + follow.BodyWithin(&bus.Large{Bytes: bus.MaxLarge})
		if most >= 30*time.Second { // which hubs give an agent that they know nothing of
			t.Errorf("with the time that it then has that would be %v", most)
		}
	})
}
