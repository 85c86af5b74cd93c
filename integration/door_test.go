package integration

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
	"souk/classifier"
	"souk/classifier/model"
	door "souk/classifier/serve"
	"souk/cmd/local"
	"souk/market"
)

// rivals is a market of two hubs that sell the same. The door of the market prefers one, and the door that is
// to die the other.
const rivals = `
listen: 127.0.0.1:0
domains:
  - {name: general, general: true, labels: [general, humanities, social, law, medicine, math, science, finance]}
  - {name: other, labels: [code]}
agents:
  - {id: first, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.7}], slots: 4, engine: {profile: steady}}
  - {id: second, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: other, score: 0.7}], slots: 4, engine: {profile: steady}}
speedup: 20
clients: {dev: 100}
`

// doomed is the bus of a door that dies when a hub has answered it for the third time, or before a third task
// has gone to one: nothing leaves it any more, and what comes to it is lost.
type doomed struct {
	bus.Bus
	before bool

	mu   sync.Mutex
	sent int
	dead bool
}

func (d *doomed) Request(ctx context.Context, m bus.Msg) (bus.Msg, error) {
	if !strings.HasSuffix(m.Subject, ".task.doomed") {
		return d.Bus.Request(ctx, m)
	}
	d.mu.Lock()
	d.sent++
	third, dead := d.sent == 3, d.dead
	if third && d.before {
		d.dead = true
	}
	dead = dead || d.dead
	d.mu.Unlock()
	var a bus.Msg
	var err error
	if !dead {
		a, err = d.Bus.Request(ctx, m)
	}
	d.mu.Lock()
	d.dead = d.dead || third
	dead = d.dead
	d.mu.Unlock()
	if third {
		go d.Bus.Close() // as the kernel does with a dead process's connections
	}
	if dead {
		<-ctx.Done()
		return bus.Msg{}, ctx.Err()
	}
	return a, err
}

func (d *doomed) Publish(m bus.Msg) error {
	if d.has() {
		return nil
	}
	return d.Bus.Publish(m)
}

func (d *doomed) has() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// A door dies at the worst moments: a hub has taken the task and its client has not heard of it, or no hub
// has it yet. Either way the answer comes within seconds, and is served and paid once.
func TestADoorDiesWithTasksInHand(t *testing.T) {
	for _, before := range []bool{false, true} {
		t.Run(fmt.Sprintf("before a hub has it: %v", before), func(t *testing.T) {
			t.Parallel()
			m := start(t, rivals)
			d := openDoomed(t, m, before)
			var mu sync.Mutex
			var wg sync.WaitGroup
			var paid market.Credits
			n := 0
			ask := func() {
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				a, err := m.Ask(ctx, chat("What is a door?"))
				mu.Lock()
				defer mu.Unlock()
				n++
				if took := time.Since(begun); err != nil || a.Result.Code != "" {
					t.Errorf("after %v: %+v %v", took, a.Result, err)
				}
				paid += a.Result.Paid()
			}
			for range 12 {
				wg.Go(ask)
			}
			for i := 0; i < 64 && !d.has(); i++ {
				ask()
			}
			wg.Wait()
			if !d.has() {
				t.Fatal("the door that was to die got no three tasks")
			}
			if left := balance(t, m, "dev"); left != 100*market.Credit-paid {
				t.Errorf("%d tasks cost %v, and their client was told %v", n, 100*market.Credit-left, paid)
			}
		})
	}
}

// openDoomed adds a door that dies to the market.
func openDoomed(t *testing.T, m *local.Market, before bool) *doomed {
	t.Helper()
	d := &doomed{before: before}
	openDoor(t, m, func(b bus.Bus) bus.Bus { d.Bus = b; return d })
	return d
}

// openDoor adds a door, named doomed, to the market, which prefers the hub that the market's own door does
// not.
func openDoor(t *testing.T, m *local.Market, on func(bus.Bus) bus.Bus) {
	t.Helper()
	creds, err := m.Keys.Ensure(bus.RoleDoor, bus.IDs{Name: "doomed"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b, err := natsbus.Connect(natsbus.Config{URL: m.State.NATS, Name: "doomed",
		Creds: natsauth.File(creds)})
	if err != nil {
		t.Fatal(err)
	}
	c := classifier.Default()
	c.ID, c.Drain, c.General, c.MinConfidence = "doomed", time.Millisecond, "code", 0
	for _, l := range model.Default().Labels {
		c.Labels[l] = "code"
	}
	s, err := door.New(c, door.Deps{Bus: on(b), Registry: m.Registry, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
		b.Close()
	})
	<-s.Ready()
}

// stopped is the bus of a door that stops for a while at the worst moment: when it has looked whether anybody
// else has the task, and is about to send it to a hub. The server gives it no more, as of one that is silent.
type stopped struct {
	bus.Bus
	serves chan bus.Subscription // tasks may come before Subscribe returns
	once   sync.Once
	began  chan struct{}
	goOn   chan struct{}
}

func (d *stopped) Subscribe(subject, queue string, h bus.Handler) (bus.Subscription, error) {
	sub, err := d.Bus.Subscribe(subject, queue, h)
	if subject == bus.TaskSubject("", "")+">" {
		d.serves <- sub
	}
	return sub, err
}

func (d *stopped) Request(ctx context.Context, m bus.Msg) (bus.Msg, error) {
	if strings.HasSuffix(m.Subject, ".task.doomed") {
		d.once.Do(func() {
			(<-d.serves).Stop()
			close(d.began)
			<-d.goOn
		})
	}
	return d.Bus.Request(ctx, m)
}

// A door that goes on after seconds, in which its task's reader has asked another door, does not have the
// task served a second time, however short before the sending it stopped.
func TestADoorThatStopsServesNothingTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	m := start(t, rivals)
	d := &stopped{serves: make(chan bus.Subscription, 1), began: make(chan struct{}),
		goOn: make(chan struct{})}
	openDoor(t, m, func(b bus.Bus) bus.Bus { d.Bus = b; return d })
	var mu sync.Mutex
	var wg sync.WaitGroup
	var paid market.Credits
	ask := func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a, err := m.Ask(ctx, chat("What is a door?"))
		mu.Lock()
		defer mu.Unlock()
		if err != nil || a.Result.Code != "" {
			t.Errorf("%+v %v", a.Result, err)
		}
		paid += a.Result.Paid()
	}
	for range 64 {
		asked := make(chan struct{})
		wg.Go(func() { ask(); close(asked) })
		select {
		case <-asked:
			continue
		case <-d.began:
		}
		<-asked // by the other door, seconds later
		break
	}
	select {
	case <-d.began:
	default:
		t.Fatal("the door that was to stop got no task")
	}
	close(d.goOn)
	wg.Wait()
	for range 20 { // it may be served now: by then it would be
		ask()
	}
	if left := balance(t, m, "dev"); left != 100*market.Credit-paid {
		t.Errorf("tasks cost %v, and their client was told %v", 100*market.Credit-left, paid)
	}
}
