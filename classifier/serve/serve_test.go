package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/membus"
	"souk/classifier"
	"souk/classifier/serve"
)

// world is a market of one door and scripted hubs, on a clock that runs as fast as nobody has anything to do.
type world struct {
	t     *testing.T
	bus   *membus.World
	reg   bus.Registry     // of hubs
	own   *membus.Registry // of the door
	me    bus.Bus          // of clients, hubs and agents alike
	door  *serve.Server
	line  *line // of the door
	stop  context.CancelFunc
	ended chan error
	over  chan struct{}
	hubs  map[string]*hub
	// what the door may not read in the registry; "": it may all
	forbidden string
}

// closed is a registry that shows its user all but one key.
type closed struct {
	bus.Registry
	key string
}

func (c closed) Watch(ctx context.Context, key string) (<-chan bus.Event, error) {
	if key == c.key {
		return nil, bus.ErrForbidden
	}
	return c.Registry.Watch(ctx, key)
}

// hub answers tasks as its script says and publishes its status every second.
type hub struct {
	w      *world
	domain string
	lease  bus.Leadership
	answer func(m bus.Msg, t *bus.Task) // nil: accepts
	ear    bus.Subscription

	mu      sync.Mutex
	status  bus.Status
	tasks   []bus.Task
	headers []bus.Header
}

// A registry that answers with errors is named when that begins, once a minute, and when it is back.
func TestARegistryThatFailsIsNamedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := membus.New(1)
		registry := w.Registry()
		var mu sync.Mutex
		var said []string
		log := slog.New(slog.NewTextHandler(writer(func(line []byte) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, string(line))
		}), nil))
		take := func() []string {
			mu.Lock()
			defer mu.Unlock()
			defer func() { said = nil }()
			return said
		}
		c := classifier.Default()
		c.ID = "door"
		doorBus := w.Bus("door")
		door, err := serve.New(c, serve.Deps{Bus: doorBus, Registry: registry, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- door.Run(ctx) }()
		<-door.Ready()
		take()
		registry.Away(true)
		time.Sleep(10*time.Minute + 5*time.Second)
		if got := take(); len(got) < 10 || len(got) > 11 ||
			!strings.Contains(got[0], "registry is out of reach") ||
			registry.Failed() < 1000 {
			t.Errorf("of %d calls that failed in ten minutes it said %q", registry.Failed(), got)
		}
		registry.Away(false)
		time.Sleep(5 * time.Second)
		if got := take(); len(got) != 1 || !strings.Contains(got[0], "the registry answers again") {
			t.Errorf("when it was back it said %q", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		doorBus.Close()
	})
}

// writer is called with each line of a log.
type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

func inWorld(t *testing.T, change func(*classifier.Config), f func(t *testing.T, w *world)) {
	inWorldAfter(t, change, func(*world) {}, f)
}

// inWorldAfter has something happen before the door begins.
func inWorldAfter(t *testing.T, change func(*classifier.Config), before func(*world),
	f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, bus: membus.New(1), ended: make(chan error, 1), over: make(chan struct{}),
			hubs: map[string]*hub{}}
		w.reg, w.own, w.me = w.bus.Registry(), w.bus.Registry(), w.bus.Bus("me")
		c := classifier.Default()
		c.ID, c.Drain = "door", 5*time.Second
		if change != nil {
			change(&c)
		}
		before(w)
		doorBus := w.bus.Bus("door")
		w.line = &line{Bus: doorBus}
		var err error
		w.door, err = serve.New(c,
			serve.Deps{Bus: w.line, Registry: closed{w.own, w.forbidden}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		w.stop = cancel
		go func() { w.ended <- w.door.Run(ctx) }()
		<-w.door.Ready()
		f(t, w)
		cancel()
		if err := <-w.ended; err != nil {
			t.Errorf("the door ended with %v", err)
		}
		for _, h := range w.hubs {
			h.lease.Close(context.Background())
		}
		close(w.over)
		w.me.Close()
		doorBus.Close()
	})
}

func (w *world) hub(domain string, st bus.Status) *hub {
	entry := &bus.HubEntry{Domain: domain, Labels: st.Labels, Hub: domain + "-1", Journal: domain,
		General: st.General}
	value, err := bus.EncodeEntry(entry)
	if err != nil {
		w.t.Fatal(err)
	}
	lead, err := w.reg.Elect(w.t.Context(), bus.HubKey(domain), value, 10*time.Second)
	if err != nil {
		w.t.Fatal(err)
	}
	if st.Models == nil {
		st.Models = []bus.ModelStatus{{Model: "m", Agents: 1, Free: 1, Quality: 0.5}}
	}
	st.Domain, st.Epoch, st.Agents, st.Slots, st.Free, st.Room = domain, lead.Epoch(), 1, 4, 4, 10
	h := &hub{w: w, domain: domain, lease: lead, status: st}
	w.hubs[domain] = h
	h.ear = w.subscribe(bus.HubTaskSubject(domain, "door"), func(m bus.Msg) {
		var task bus.Task
		if err := bus.Decode(m.Data, &task); err != nil {
			w.t.Errorf("hub %s: %v", domain, err)
		}
		h.mu.Lock()
		h.tasks, h.headers = append(h.tasks, task), append(h.headers, m.Header)
		h.mu.Unlock()
		if h.answer != nil {
			h.answer(m, &task)
			return
		}
		h.accept(m, &task)
	})
	synctest.Wait() // a status of a hub that the registry has not named yet is not news
	h.say(func(*bus.Status) {})
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				h.say(func(*bus.Status) {})
			case <-lead.Lost():
				return
			case <-w.t.Context().Done():
				return
			}
		}
	}()
	synctest.Wait()
	return h
}

func (w *world) subscribe(subject string, f bus.Handler) bus.Subscription {
	sub, err := w.me.Subscribe(subject, "", f)
	if err != nil {
		w.t.Fatal(err)
	}
	return sub
}

func (w *world) send(subject string, m bus.Message) {
	data, err := bus.Encode(m)
	if err != nil {
		w.t.Error(err)
		return
	}
	w.me.Publish(bus.Msg{Subject: subject, Data: data})
}

// pass lets virtual time go by, until the test is over at most.
func (w *world) pass(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.over:
	}
}

func (h *hub) say(change func(*bus.Status)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Seq++
	change(&h.status)
	st := h.status
	h.w.send(bus.StatusSubject(h.domain), &st)
}

func (h *hub) seen() []bus.Task {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tasks
}

func (h *hub) accept(m bus.Msg, t *bus.Task) {
	h.w.send(m.Reply, &bus.Answer{Accepted: &bus.Accepted{Client: t.Client, Task: t.ID, Hub: h.domain,
		Agent: h.domain + "-agent", Model: "m", Reply: t.Reply, Round: 1}})
}

func (h *hub) refuse(code bus.Code) {
	h.answer = func(m bus.Msg, t *bus.Task) {
		h.w.send(m.Reply, &bus.Answer{Result: &bus.Result{Client: t.Client, Task: t.ID, Hub: h.domain,
			Code: code, Message: "said hub " + h.domain}})
	}
}

// serve accepts, sends a heartbeat, and answers after a while.
func (h *hub) serve(text string, after time.Duration) {
	h.answer = func(m bus.Msg, t *bus.Task) {
		h.accept(m, t)
		go func() {
			for left := after; left > 2*time.Second; left -= 2 * time.Second {
				h.w.pass(2 * time.Second)
				h.w.says(t.Reply, &bus.Chunk{Task: t.ID, Heartbeat: true})
			}
			h.w.pass(after % (2 * time.Second))
			h.w.says(t.Reply, &bus.Chunk{Task: t.ID,
				Result: &bus.Result{Client: t.Client, Task: t.ID, Hub: h.domain, Agent: h.domain + "-agent",
					Text: text, Finish: "stop"}})
		}()
	}
}

// ask sends a request as `nats request` does, and returns the answer's JSON.
func (w *world) ask(client, body string, header bus.Header) map[string]any {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
	defer cancel()
	m, err := w.me.Request(ctx,
		bus.Msg{Subject: bus.TaskSubject(client, ""), Data: []byte(body), Header: header})
	if err != nil {
		w.t.Fatalf("no answer: %v", err)
	}
	var out map[string]any
	if err := json.Unmarshal(m.Data, &out); err != nil {
		w.t.Fatalf("answer is not JSON: %v: %q", err, m.Data)
	}
	return out
}

// says has an agent say a chunk where a task's answer goes: the one that its end frame names.
func (w *world) says(reply string, c *bus.Chunk) {
	who := "math-agent"
	if c.Result != nil && c.Result.Agent != "" {
		who = c.Result.Agent
	}
	w.send(reply+"."+who, c)
}

func (w *world) wantCode(answer map[string]any, want bus.Code) {
	w.t.Helper()
	got, _ := answer["code"].(string)
	if got != string(want) {
		w.t.Errorf("code %q (%v), want %q", got, answer["message"], want)
	}
}

const mathQuestion = "Janet has 3 boxes with 12 apples each. She gives away 7 apples. How many apples does " +
	"she have left?"

func chat(question, souk string) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"souk":{%s}}`, question, souk)
}

func stream(question, souk string) string {
	return strings.Replace(chat(question, souk), "{", `{"stream":true,`, 1)
}

func twoHubs(w *world) (math, general *hub) {
	return w.hub("math", bus.Status{Labels: []string{"math"}}),
		w.hub("general", bus.Status{Labels: []string{"general"}, General: true})
}

func TestStreamIsHandedOver(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		a := w.ask("ada", stream(mathQuestion, `"task":"t1","terms":{"worth":0.5}`),
			bus.Header{"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}})
		if a["agent"] != "math-agent" || a["hub"] != "math" || a["reply"] != "souk.v1.reply.ada.t1" {
			t.Errorf("accepted as %v", a)
		}
		got := math.seen()[0]
		if got.Client != "ada" || got.Domain != "math" || got.Reply != "souk.v1.reply.ada.t1" ||
			!got.Stream ||
			got.Session == "" || got.Prompt.Tokens == 0 {
			t.Errorf("the hub got %+v", got)
		}
		if p := math.headers[0].Get("traceparent"); p != "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" {
			t.Errorf("trace context is %q", p)
		}
		if st := w.door.Stats(); st.Accepted != 1 || st.Received != 1 || st.Domains["math"] != 1 ||
			st.Hubs["math"] != 1 {
			t.Errorf("stats %+v", st)
		}
	})
}

func TestWholeAnswerIsCollected(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		math.serve("29", time.Minute) // a long prefill, kept alive by heartbeats
		acks := make(chan bus.StreamControl, 1)
		w.subscribe(bus.StreamSubject("math-agent", "door"), func(m bus.Msg) {
			var c bus.StreamControl
			if bus.Decode(m.Data, &c) == nil {
				acks <- c
			}
		})
		a := w.ask("ada", chat(mathQuestion, ""), nil)
		w.wantCode(a, "")
		if a["text"] != "29" {
			t.Errorf("answer is %v", a)
		}
		if got := math.seen()[0].Reply; !strings.HasPrefix(got, "souk.v1.reply.door.") {
			t.Errorf("the agent was told to answer to %s", got)
		}
		if c := <-acks; c.Ack == nil || *c.Ack != 1 {
			t.Errorf("the agent heard %+v, want an acknowledgement", c)
		}
	})
}

func TestNextBestHub(t *testing.T) {
	for _, code := range []bus.Code{bus.CodeNoRoom, bus.CodeUnavailable, bus.CodeDraining} {
		inWorld(t, nil, func(t *testing.T, w *world) {
			math, general := twoHubs(w)
			math.refuse(code)
			if a := w.ask("ada", stream(mathQuestion, ""), nil); a["hub"] != "general" {
				t.Errorf("%s at hub math: %v", code, a)
			}
			general.refuse(bus.CodeNoRoom)
			a := w.ask("ada", stream("another "+mathQuestion, ""), nil)
			w.wantCode(a, bus.CodeNoRoom)
			if a["message"] != "said hub general" {
				t.Errorf("the last hub's words are lost: %v", a["message"])
			}
			if st := w.door.Stats(); st.Retried < 2 || st.Refused[bus.CodeNoRoom] != 1 {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

func TestARefusalOfTheTaskIsFinal(t *testing.T) {
	for _, code := range []bus.Code{bus.CodeInsufficientFunds, bus.CodeNotWorthIt, bus.CodeIDConflict,
		bus.CodeDuplicate} {
		inWorld(t, nil, func(t *testing.T, w *world) {
			math, general := twoHubs(w)
			math.refuse(code)
			w.wantCode(w.ask("ada", stream(mathQuestion, ""), nil), code)
			if len(general.seen()) != 0 {
				t.Errorf("%s: the task was offered to another hub", code)
			}
		})
	}
}

// A hub that took the task and says nothing may be serving it. Sending the task elsewhere could serve and
// charge it twice.
func TestASilentHubIsNotReplaced(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, general := twoHubs(w)
		math.answer = func(bus.Msg, *bus.Task) {}
		from := time.Now()
		deadline := from.Add(10 * time.Second).UnixMilli()
		w.wantCode(w.ask("ada", stream(mathQuestion, fmt.Sprintf(`"task":"t","deadline_ms":%d`, deadline)),
			nil), bus.CodeUnknown)
		if d := time.Since(from); d < 10*time.Second || d > 15*time.Second {
			t.Errorf("told after %v; the deadline was 10 s", d)
		}
		if len(general.seen()) != 0 {
			t.Error("the task was sent to another hub")
		}
		// the same id again goes to the same hub, which knows it, however the market has changed
		math.say(func(st *bus.Status) { st.Room = 0 })
		math.refuse(bus.CodeDuplicate)
		w.wantCode(w.ask("ada", stream(mathQuestion, `"task":"t"`), nil), bus.CodeDuplicate)
		if len(general.seen()) != 0 {
			t.Error("the repeated id was sent to another hub")
		}
	})
}

// restart ends the hub's leadership and, after a while, has a hub with that journal lead its domain.
func (h *hub) restart(after time.Duration, journal string) {
	h.lease.Close(h.w.t.Context())
	h.w.pass(after)
	value, err := bus.EncodeEntry(&bus.HubEntry{Domain: h.domain, Labels: h.status.Labels,
		Hub: h.domain + "-1", Journal: journal})
	if err != nil {
		h.w.t.Error(err)
		return
	}
	lead, err := h.w.reg.Elect(h.w.t.Context(), bus.HubKey(h.domain), value, 10*time.Second)
	if err != nil {
		h.w.t.Error(err)
		return
	}
	h.lease = lead
}

// A hub that dies with a task, and is there again with its journal, is asked again for the same task; no
// other is ever given it.
func TestARestartedHubIsAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		after   time.Duration
		journal string
		asked   int
		code    bus.Code
		told    time.Duration // at the latest
	}{
		"the same hub": {3 * time.Second, "math", 2, "", 4 * time.Second},
		"with another journal": {3 * time.Second, "math-of-another", 1, bus.CodeUnknown,
			4 * time.Second},
		"too late":                  {time.Minute, "math", 1, bus.CodeUnknown, 10 * time.Second},
		"with a deadline before it": {3 * time.Second, "math", 1, bus.CodeUnknown, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(t *testing.T, w *world) {
				math, general := twoHubs(w)
				restarted := make(chan struct{})
				math.answer = func(m bus.Msg, task *bus.Task) {
					if len(math.seen()) == 2 {
						math.accept(m, task)
						return
					}
					go func() { // it dies before it answers
						defer close(restarted)
						math.restart(c.after, c.journal)
					}()
				}
				from, souk := time.Now(), `"task":"t"`
				if c.told == c.after {
					souk += fmt.Sprintf(`,"deadline_ms":%d`, from.Add(500*time.Millisecond).UnixMilli())
				}
				a := w.ask("ada", stream(mathQuestion, souk), nil)
				took := time.Since(from)
				w.wantCode(a, c.code)
				if took > c.told {
					t.Errorf("told after %v, want at most %v", took, c.told)
				}
				<-restarted
				synctest.Wait()
				tasks := math.seen()
				if len(tasks) != c.asked || len(general.seen()) != 0 {
					t.Fatalf("the hub was asked %d times, the other %d; want %d and 0", len(tasks),
						len(general.seen()), c.asked)
				}
				if c.asked == 2 &&
					(a["hub"] != "math" ||
						!reflect.DeepEqual(withoutInbox(tasks[0]), withoutInbox(tasks[1]))) {
					t.Errorf("%v; asked for\n%+v, then for\n%+v", a, tasks[0], tasks[1])
				}
			})
		})
	}
}

// withoutInbox is a task without where its answer is wanted, which is new in each request.
func withoutInbox(t bus.Task) bus.Task {
	t.Inbox = ""
	return t
}

// A hub that was given a task may be serving it, also where it does not listen just now. The same id, or the
// rest of its answer, is given to no other: that could serve and charge it twice, or would be told that
// nobody knows of it.
func TestATaskStaysWithAHubThatDoesNotListen(t *testing.T) {
	body := []byte(fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, mathQuestion))
	for name, again := range map[string]bus.Task{
		"the same id": {ID: "t", Stream: true, Body: body},
		"the rest of an answer": {ID: "t", Stream: true, Body: body, Hub: "math", Attempt: 1,
			Resume: &bus.Resume{Agent: "math-agent"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(t *testing.T, w *world) {
				math, general := twoHubs(w)
				ask := func(task bus.Task) (a bus.Answer) {
					data, err := bus.Encode(&task)
					if err != nil {
						t.Fatal(err)
					}
					m, err := w.me.Request(t.Context(),
						bus.Msg{Subject: bus.TaskSubject("ada", ""), Data: data})
					if err == nil {
						err = bus.Decode(m.Data, &a)
					}
					if err != nil {
						t.Fatal(err)
					}
					return a
				}
				if a := ask(bus.Task{ID: "t", Stream: true, Body: body}); a.Accepted == nil ||
					a.Accepted.Hub != "math" {
					t.Errorf("%+v", a.Result)
				}
				math.ear.Stop()
				if a := ask(again); a.Result == nil || a.Result.Code != bus.CodeUnavailable ||
					a.Result.RetryMS == 0 || len(general.seen()) != 0 {
					t.Errorf("%+v, %+v; the other hub got %d tasks", a.Accepted, a.Result,
						len(general.seen()))
				}
			})
		})
	}
}

// The door loses the bus while a hub decides: it asks the same hub again, to which the task is the same.
func TestTheDoorLosesTheBusWhileAHubDecides(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, general := twoHubs(w)
		math.answer = func(m bus.Msg, task *bus.Task) {
			if len(math.seen()) > 1 {
				math.accept(m, task)
				return
			}
			w.bus.Cut("door")
			time.AfterFunc(2*time.Second, func() { w.bus.Heal("door") })
		}
		w.wantCode(w.ask("ada", stream(mathQuestion, `"task":"t"`), nil), "")
		if a, b := math.seen(), general.seen(); len(a) != 2 || len(b) != 0 ||
			!reflect.DeepEqual(withoutInbox(a[0]), withoutInbox(a[1])) {
			t.Errorf("the hub got %d tasks, the other %d, want 2 and 0", len(a), len(b))
		}
	})
}

// A hub dies with a task while the registry is out of the door's reach, so that no event tells of it: what
// has become of its task is found out as soon as the registry is back.
func TestAHubThatDiedDuringAnOutageOfTheRegistry(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, general := twoHubs(w)
		math.answer = func(bus.Msg, *bus.Task) {
			math.answer = func(bus.Msg, *bus.Task) {}
			w.own.Cut()
			math.lease.Close(t.Context())
			time.AfterFunc(10*time.Second, w.own.Heal)
		}
		from := time.Now()
		w.wantCode(w.ask("ada", stream(mathQuestion, `"task":"t"`), nil), bus.CodeUnknown)
		if d := time.Since(from); d > 30*time.Second || len(general.seen()) != 0 {
			t.Errorf("told after %v; the other hub got %d tasks", d, len(general.seen()))
		}
	})
}

func TestNobodyListensAtTheHub(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		twoHubs(w)
		value, _ := bus.EncodeEntry(&bus.HubEntry{Domain: "ghost", Labels: []string{"math"}, Hub: "g",
			Journal: "g"})
		lead, err := w.reg.Elect(t.Context(), bus.HubKey("ghost"), value, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer lead.Close(context.Background())
		synctest.Wait()
		w.send(bus.StatusSubject("ghost"),
			&bus.Status{Domain: "ghost", Labels: []string{"math"}, Epoch: lead.Epoch(), Agents: 9, Slots: 9,
				Free: 9, Room: 9,
				Models: []bus.ModelStatus{{Model: "m", Agents: 9, Free: 9, Quality: 1}}})
		synctest.Wait()
		a := w.ask("ada", stream(mathQuestion, ""), nil)
		w.wantCode(a, "")
		if st := w.door.Stats(); st.Retried != 1 {
			t.Errorf("the ghost, best on paper, was not tried first: %+v", st)
		}
	})
}

// Nothing of a collected answer was delivered, so it begins anew at the agent that the hub names when the
// first is silent; what the first says after all is not heard.
func TestALostAgentIsReplaced(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		math.answer = func(m bus.Msg, task *bus.Task) {
			if task.Resume == nil {
				math.accept(m, task)
				return
			}
			if task.Resume.Agent != "math-agent" || task.Attempt != 1 || len(task.Resume.Tokens) != 0 ||
				task.Hub != "math" || len(task.Body) == 0 {
				t.Errorf("asked for a second agent by %+v of %+v", task.Resume, task)
			}
			w.send(m.Reply, &bus.Answer{Accepted: &bus.Accepted{Client: "ada", Task: task.ID, Hub: "math",
				Agent: "second", Reply: task.Reply}})
			w.says(task.Reply,
				&bus.Chunk{Task: task.ID,
					Result: &bus.Result{Client: "ada", Task: task.ID, Agent: "math-agent", Text: "late"}})
			w.says(task.Reply,
				&bus.Chunk{Task: task.ID, Attempt: 1,
					Result: &bus.Result{Client: "ada", Task: task.ID, Agent: "second", Text: "29"}})
		}
		if a := w.ask("ada", chat(mathQuestion, ""), nil); a["text"] != "29" || a["agent"] != "second" {
			t.Errorf("%v", a)
		}
	})
}

// The hub may know sooner that the agent has died, and says so where the chunks come.
func TestADeadAgentIsReplaced(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		another := true
		math.answer = func(m bus.Msg, task *bus.Task) {
			switch {
			case task.Resume == nil:
				math.accept(m, task)
				w.says(task.Reply,
					&bus.Chunk{Task: task.ID,
						Result: &bus.Result{Client: "ada", Task: task.ID, Hub: "math", Agent: "math-agent",
							Code: bus.CodeAgentFailed}})
			case another:
				w.send(m.Reply,
					&bus.Answer{Accepted: &bus.Accepted{Client: "ada", Task: task.ID, Hub: "math",
						Agent: "second", Reply: task.Reply}})
				w.says(task.Reply,
					&bus.Chunk{Task: task.ID, Attempt: 1,
						Result: &bus.Result{Client: "ada", Task: task.ID, Agent: "second", Text: "29"}})
			default:
				w.send(m.Reply,
					&bus.Answer{Result: &bus.Result{Client: "ada", Task: task.ID, Hub: "math",
						Code: bus.CodeNoRoom}})
			}
		}
		if a := w.ask("ada", chat(mathQuestion, ""), nil); a["text"] != "29" || a["agent"] != "second" {
			t.Errorf("%v", a)
		}
		another = false
		w.wantCode(w.ask("ada", chat(mathQuestion, ""), nil), bus.CodeAgentFailed)
	})
}

func TestALostAgent(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		resumes := 0
		var task bus.Task
		answers := false
		math.answer = func(m bus.Msg, t *bus.Task) { task = *t; math.accept(m, t) }
		w.subscribe(bus.StreamSubject("math-agent", "door"), func(m bus.Msg) {
			var c bus.StreamControl
			if bus.Decode(m.Data, &c) == nil && c.Resume != nil {
				resumes++
				if answers {
					w.says(task.Reply,
						&bus.Chunk{Task: task.ID,
							Result: &bus.Result{Client: "ada", Task: task.ID, Text: "29"}})
				}
			}
		})
		a := w.ask("ada", chat(mathQuestion, ""), nil)
		w.wantCode(a, bus.CodeUnknown)
		if resumes != 1 {
			t.Errorf("the agent was asked %d times to repeat, want once", resumes)
		}
		answers = true
		if a := w.ask("ada", chat(mathQuestion, ""), nil); a["text"] != "29" {
			t.Errorf("an answer whose end frame was lost: %v", a)
		}
	})
}

func TestCancel(t *testing.T) {
	t.Run("while the hub decides", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			math, _ := twoHubs(w)
			var parked bus.Msg
			math.answer = func(m bus.Msg, _ *bus.Task) { parked = m }
			w.subscribe(bus.CancelSubject("math", "door"), func(m bus.Msg) {
				var c bus.Cancel
				if bus.Decode(m.Data, &c) != nil || c.Task != "t" || c.Client != "ada" {
					t.Errorf("the hub heard %+v", c)
				}
				w.send(parked.Reply,
					&bus.Answer{Result: &bus.Result{Client: "ada", Task: "t", Code: bus.CodeCancelled}})
			})
			time.AfterFunc(time.Second,
				func() { w.send(bus.DoorCancelSubject("ada", ""), &bus.Cancel{Task: "t"}) })
			w.wantCode(w.ask("ada", chat(mathQuestion, `"task":"t"`), nil), bus.CodeCancelled)
		})
	})
	t.Run("while the agent serves", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			math, _ := twoHubs(w)
			var task bus.Task
			math.answer = func(m bus.Msg, t *bus.Task) { task = *t; math.accept(m, t) }
			w.subscribe(bus.StreamSubject("math-agent", "door"), func(m bus.Msg) {
				var c bus.StreamControl
				if bus.Decode(m.Data, &c) == nil && c.Cancel {
					w.says(task.Reply,
						&bus.Chunk{Task: "t",
							Result: &bus.Result{Client: "ada", Task: "t", Code: bus.CodeCancelled,
								Text: "half"}})
				}
			})
			time.AfterFunc(time.Second, func() {
				w.send(bus.DoorCancelSubject("ada", ""), &bus.Cancel{Task: "other"})
				w.send(bus.DoorCancelSubject("bob", ""), &bus.Cancel{Task: "t"})
			})
			time.AfterFunc(3*time.Second,
				func() { w.send(bus.DoorCancelSubject("ada", ""), &bus.Cancel{Task: "t"}) })
			from := time.Now()
			a := w.ask("ada", chat(mathQuestion, `"task":"t"`), nil)
			w.wantCode(a, bus.CodeCancelled)
			if a["text"] != "half" || time.Since(from) < 3*time.Second {
				t.Errorf("after %v: %v", time.Since(from), a)
			}
		})
	})
}

func TestASessionStaysWhereItIs(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		a := w.hub("a", bus.Status{Labels: []string{"math"}})
		b := w.hub("b", bus.Status{Labels: []string{"math"}})
		first := w.ask("ada", stream(mathQuestion, `"session":"s"`), nil)["hub"]
		if first != "a" {
			t.Fatalf("first turn at %v", first)
		}
		// b becomes the better one
		b.say(func(st *bus.Status) { st.Models[0].Quality = 1 })
		synctest.Wait()
		if hub := w.ask("ada", stream(mathQuestion, `"session":"other"`), nil)["hub"]; hub != "b" {
			t.Errorf("a new session went to %v, want the better hub b", hub)
		}
		if hub := w.ask("ada", stream("a later turn", `"session":"s","turn":1`), nil)["hub"]; hub != "a" {
			t.Errorf("the second turn went to %v", hub)
		}
		if hub := w.ask("bob", stream(mathQuestion, `"session":"s"`), nil)["hub"]; hub != "b" {
			t.Errorf("another client's session of that name went to %v", hub)
		}
		if hub := w.ask("ada", stream("turn three", `"session":"s","turn":2,"hub":"b"`),
			nil)["hub"]; hub != "b" {
			t.Errorf("the hub that the client names was not honoured: %v", hub)
		}
		b.say(func(st *bus.Status) { st.Room = 0 })
		synctest.Wait()
		if hub := w.ask("ada", stream("turn four", `"session":"s","turn":3,"hub":"b"`),
			nil)["hub"]; hub != "a" {
			t.Errorf("a full hub was honoured: %v", hub)
		}
		_ = a
	})
}

func TestHubsComeAndGo(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.wantCode(w.ask("ada", stream(mathQuestion, ""), nil), bus.CodeNoHub)
		math, _ := twoHubs(w)
		if hub := w.ask("ada", stream(mathQuestion, ""), nil)["hub"]; hub != "math" {
			t.Fatalf("went to %v", hub)
		}
		math.lease.Close(t.Context())
		synctest.Wait()
		if hub := w.ask("bob", stream(mathQuestion, ""), nil)["hub"]; hub != "general" {
			t.Errorf("went to %v, though only general is left", hub)
		}
	})
}

func TestAnOutageOfTheRegistryStopsNothing(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		twoHubs(w)
		w.own.Cut()
		w.pass(time.Minute)
		if hub := w.ask("ada", stream(mathQuestion, ""), nil)["hub"]; hub != "math" {
			t.Errorf("went to %v", hub)
		}
		w.own.Heal()
	})
}

func TestLimits(t *testing.T) {
	t.Run("open tasks", func(t *testing.T) {
		inWorld(t, func(c *classifier.Config) { c.MaxOpen, c.MaxOpenPerClient = 3, 2 },
			func(t *testing.T, w *world) {
				math, _ := twoHubs(w)
				math.serve("29", 10*time.Second)
				var wg sync.WaitGroup
				for range 2 {
					wg.Go(func() { w.wantCode(w.ask("ada", chat(mathQuestion, ""), nil), "") })
				}
				synctest.Wait()
				refused := w.ask("ada", chat(mathQuestion, ""), nil)
				w.wantCode(refused, bus.CodeTooManyTasks)
				if refused["retry_ms"] == nil {
					t.Error("nothing says when to try again")
				}
				wg.Go(func() { w.wantCode(w.ask("bob", chat(mathQuestion, ""), nil), "") })
				synctest.Wait()
				w.wantCode(w.ask("eve", chat(mathQuestion, ""), nil), bus.CodeNoRoom)
				if st := w.door.Stats(); st.Open != 3 || st.Clients != 2 {
					t.Errorf("stats %+v", st)
				}
				wg.Wait()
				w.wantCode(w.ask("ada", chat(mathQuestion, ""), nil), "")
				if st := w.door.Stats(); st.Open != 0 || st.Clients != 0 {
					t.Errorf("tasks are left in hand: %+v", st)
				}
			})
	})
	t.Run("sizes", func(t *testing.T) {
		inWorld(t, func(c *classifier.Config) { c.MaxPayload = 4000 },
			func(t *testing.T, w *world) {
				twoHubs(w)
				w.wantCode(w.ask("ada", chat(strings.Repeat("word ", 1000), ""), nil), bus.CodeTooLarge)
				w.wantCode(w.ask("ada", stream(strings.Repeat("word ", 100), ""), nil), "")
			})
	})
}

// Requests are bounded in bytes too: a few hundred of the largest would fill a machine's memory.
func TestOpenBytes(t *testing.T) {
	inWorld(t, func(c *classifier.Config) { c.MaxOpenBytes, c.MaxOpenBytesPerClient = 10_000, 7_000 },
		func(t *testing.T, w *world) {
			math, _ := twoHubs(w)
			math.serve("29", 5*time.Second)
			long := chat(mathQuestion+strings.Repeat(" and so on", 500), "") // about 5,000 bytes
			var wg sync.WaitGroup
			for _, client := range []string{"ada"} {
				wg.Go(func() { w.wantCode(w.ask(client, long, nil), "") })
			}
			synctest.Wait()
			w.wantCode(w.ask("ada", long, nil), bus.CodeTooManyTasks)
			w.wantCode(w.ask("bob", long, nil), bus.CodeNoRoom)
			wg.Wait()
			w.wantCode(w.ask("ada", long, nil), "")
		})
}

// What was served is paid, even where the answer cannot be handed over: its price and receipt must arrive.
// The end of a large answer may come before its hub has named the agent. It is too large to be kept until
// then, so the agent is asked for it again.
func TestAnAnswerTooLargeForOneMessage(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		var end func()
		asked := 0
		w.subscribe(bus.StreamSubject("math-agent", "door"), func(m bus.Msg) {
			var c bus.StreamControl
			if bus.Decode(m.Data, &c) == nil && c.Resume != nil {
				asked++
				end()
			}
		})
		math.answer = func(m bus.Msg, task *bus.Task) {
			end = func() {
				w.says(task.Reply, &bus.Chunk{Task: task.ID, // JSON doubles it
					Result: &bus.Result{Client: "ada", Task: task.ID, Cost: 7,
						Text: strings.Repeat("\n", 900<<10)}})
			}
			end()
			go func() {
				w.pass(time.Millisecond)
				math.accept(m, task)
			}()
		}
		a := w.ask("ada", chat(mathQuestion, ""), nil)
		w.wantCode(a, bus.CodeTooLarge)
		if fmt.Sprint(a["cost"]) != "7e-09" || a["text"] != nil || asked != 1 {
			t.Errorf("cost %v, text of %d bytes; the agent was asked %d times for the end", a["cost"],
				len(fmt.Sprint(a["text"])), asked)
		}
	})
}

func TestAHubThatLeftDuringAnOutageIsForgotten(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		w.own.Cut()
		math.lease.Close(t.Context())
		w.pass(time.Minute)
		w.own.Heal()
		w.pass(10 * time.Second)
		if got := fmt.Sprint(w.door.Stats().Market); got != "[general]" {
			t.Errorf("the door knows %s", got)
		}
	})
}

func TestBadRequestsAreToldWhy(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, general := twoHubs(w)
		for _, c := range []struct {
			body string
			want bus.Code
		}{
			{`{"messages":`, bus.CodeBadRequest},
			{`{}`, bus.CodeBadRequest},
			{`{"messages":[{"role":"user","content":""}]}`, bus.CodeEmptyPrompt},
			{stream("hello there", `"terms":{"worth":-1}`), bus.CodeBadTerms},
			{stream("hello there", `"deadline_ms":1`), bus.CodePastDeadline},
			{stream("hello there", `"task":"a.b"`), bus.CodeBadRequest},
			{strings.Replace(stream("hello there", ""), "{", `{"n":2,`, 1), bus.CodeUnsupportedField},
			{strings.Replace(stream("hello there", ""), "{", `{"model":"nobody-has-this",`, 1),
				bus.CodeUnknownModel},
		} {
			a := w.ask("ada", c.body, bus.Header{"content-type": {"application/json"}})
			if a["code"] != string(c.want) || a["message"] == "" {
				t.Errorf("%.60s: %v, want %s", c.body, a, c.want)
			}
		}
		if n := len(math.seen()) + len(general.seen()); n != 0 {
			t.Errorf("%d bad requests reached a hub", n)
		}
		if st := w.door.Stats(); st.Refused[bus.CodeBadRequest] != 3 || st.Refused[bus.CodeBadTerms] != 1 ||
			st.Open != 0 {
			t.Errorf("stats %+v", st)
		}
	})
}

func TestStrayMessagesAreCountedOnly(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		twoHubs(w)
		// no reply subject, and those that are not the asker's to give
		for _, reply := range []string{"", bus.InboxOf("bob") + ".x", bus.InboxOf("ada"),
			bus.CompletionSubject("math", "math-agent"), bus.ReplySubject("ada", "t", "math")} {
			w.me.Publish(bus.Msg{Subject: bus.TaskSubject("ada", ""), Reply: reply,
				Data: []byte(stream(mathQuestion, ""))})
		}
		w.me.Publish(bus.Msg{Subject: bus.TaskSubject("ada", "g1"), Reply: bus.InboxOf("ada") + ".x",
			Data: []byte(stream(mathQuestion, ""))})
		w.me.Publish(bus.Msg{Subject: "souk.v1.task.ada.g1.x", Reply: bus.InboxOf("x") + ".x",
			Data: []byte(stream(mathQuestion, ""))})
		// nobody waits
		w.me.Publish(bus.Msg{Subject: "souk.v1.reply.door.nobody.a1", Data: []byte("junk")})
		// broken
		w.me.Publish(bus.Msg{Subject: bus.StatusSubject("math"), Data: []byte("\x81\xa6domain\xa4math\xc1")})
		w.me.Publish(bus.Msg{Subject: bus.DoorCancelSubject("ada", ""), Data: []byte("{}")})
		synctest.Wait()
		if st := w.door.Stats(); st.Stray != 8 {
			t.Errorf("stats %+v", st)
		}
		if hub := w.ask("ada", stream(mathQuestion, ""), nil)["hub"]; hub != "math" {
			t.Errorf("went to %v", hub)
		}
	})
}

func TestDrain(t *testing.T) {
	t.Run("tasks in hand finish", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			math, _ := twoHubs(w)
			math.serve("29", 3*time.Second)
			done := make(chan map[string]any, 1)
			go func() { done <- w.ask("ada", chat(mathQuestion, ""), nil) }()
			synctest.Wait()
			w.stop()
			if a := <-done; a["text"] != "29" {
				t.Errorf("the task in hand got %v", a)
			}
		})
	})
	t.Run("those that do not are told the truth", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			math, _ := twoHubs(w)
			math.serve("29", time.Hour)
			done := make(chan map[string]any, 1)
			go func() { done <- w.ask("ada", chat(mathQuestion, ""), nil) }()
			synctest.Wait()
			from := time.Now()
			w.stop()
			w.wantCode(<-done, bus.CodeUnknown)
			if d := time.Since(from); d < 4*time.Second || d > 6*time.Second {
				t.Errorf("told after %v, want the 5 s of Config.Drain", d)
			}
		})
	})
}

// Whatever bytes arrive, there is one answer, it can be read, and nothing is left in hand.
func FuzzDoor(f *testing.F) {
	net := membus.New(1)
	doorBus, me, reg := net.Bus("door"), net.Bus("me"), net.Registry()
	c := classifier.Default()
	c.ID = "door"
	door, err := serve.New(c, serve.Deps{Bus: doorBus, Registry: reg, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- door.Run(ctx) }()
	<-door.Ready()
	f.Cleanup(func() {
		stop()
		<-ended
		doorBus.Close()
		me.Close()
	})
	packed, err := bus.Encode(&bus.Task{Body: []byte(chat("hi", "")), Stream: true})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		"", "{", "[]", `{"messages":`, `{"messages":[`,
		`{"messages":[{"role":"user","content":[{"type":"text"`, `{"prompt":[[1,2]]}`, `{"prompt":"\u`,
		chat("hi", `"terms":{"delta":1e999}`), chat("hi", `"turn":-1`), stream("hi", `"hub":"nowhere"`),
		string(packed), string(packed[:len(packed)-3]),
		"\xdf\xff\xff\xff\xff", "\x81\xa4body\xc6\xff\xff\xff\xff", "\xc7\x08\xff12345678",
		strings.Repeat("[", 10_000), "\xff\xfe{}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		m, err := me.Request(ctx, bus.Msg{Subject: bus.TaskSubject("ada", ""), Data: data})
		if errors.Is(err, bus.ErrTooLarge) {
			return
		}
		if err != nil {
			t.Fatalf("no answer: %v", err)
		}
		var code bus.Code
		if bus.WantsJSON(data, nil) {
			var r struct{ Code bus.Code }
			if err := json.Unmarshal(m.Data, &r); err != nil {
				t.Fatalf("answer %q: %v", m.Data, err)
			}
			code = r.Code
		} else {
			var a bus.Answer
			if err := bus.Decode(m.Data, &a); err != nil {
				t.Fatalf("answer %q: %v", m.Data, err)
			}
			code = a.Result.Code
		}
		if code == "" || code == bus.CodeInternal {
			t.Fatalf("without any hub, the answer has code %q", code)
		}
	})
}
