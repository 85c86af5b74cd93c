package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	runtimepolicy "souk/bus/policy"
	"souk/bus/tip"
	"souk/hub"
	"souk/hub/policy"
	"souk/hub/policy/fair"
	"souk/hub/policy/kvcache"
	"souk/hub/policy/pd"
	"souk/hub/predict"
	"souk/hub/predict/tree"
	"souk/hub/regime/router"
	"souk/ledger"
	"souk/market"
)

var start = time.Unix(1_800_000_000, 0)

// house is a hub as its process sees it: messages go in by Step, and what Ready says is done. A replica of
// its book is fed only what was made durable, there is a treasury with money, and everything that the Node
// said is kept, in order. What tests see inside a Node beside that is in export_test.go.
type house struct {
	t       *testing.T
	n       *hub.Node
	now     time.Time
	replica *ledger.Book
	frames  []ledger.Frame
	begun   []string // holds that may be open

	prepaid map[string]market.Credits // with the treasury; a client without an entry is unknown to it
	grants  []bus.Grant
	granted map[string]bus.Grant // by the request's id
	silent  bool                 // the treasury does not answer
	unended bool                 // it does not let the hub end
	ended   bool                 // it counts the hub as ended
	taken   uint64               // returns that it says it has
	sure    bool                 // it says how far its own journal is, and how far it knows the hub's
	marked  *tip.Mark            // the highest mark of the hub's journal
	back    map[string]bool      // returns that it took in
	asked   []hub.Funds
	pending []hub.Funds // of these, not answered

	agents map[string]*said // by name: what each has said of itself
	seq    uint64           // of the last summary

	dispatched []bus.Dispatch // not yet answered
	again      []bus.Dispatch // that had been dispatched before
	holds      map[string]bool
	messages   []hub.Message
	status     *bus.Status
	faults     []error
	probes     []string
	wake       time.Time
	tell       func(*hub.Ready) // hears first what the Node wants
}

// said holds an agent's word about itself: its registration, with what its last summary changed.
type said struct {
	bus.Registration
	joined bool
}

// testParts names the policies and gates that a market has.
var testParts = hub.Parts{
	Policies: policy.Known{
		policy.Place: {
			"fair": func() runtimepolicy.Policy { return fair.New() },
			"pd":   func() runtimepolicy.Policy { return pd.New() },
		},
		policy.Keep: {"kvcache": func() runtimepolicy.Policy { return kvcache.New(1 << 16) }},
	},
	Toll:  router.Router{},
	Gates: func(features int) predict.Gate { return tree.NewGate(tree.Default(), features) },
}

func testConfig() hub.Config {
	c := hub.Default()
	c.Domain, c.Hub, c.Journal = "math", "hub-1", "hub-math"
	c.Labels = []string{"gsm8k"}
	c.DrainTimeout = 2 * time.Second
	c.SlowestITL = 100 * time.Millisecond // so that holds end in a minute or two
	c.Parts = testParts
	return c
}

// newHouse is a house whose hub leads. Those of before are called while it does not yet.
func newHouse(t *testing.T, change func(*hub.Config), before ...func(*house)) *house {
	t.Helper()
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	n, err := hub.NewNode(cfg, [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, n: n, now: start, seq: 1, replica: ledger.NewBook(), holds: map[string]bool{},
		back: map[string]bool{}, agents: map[string]*said{},
		granted: map[string]bus.Grant{},
		prepaid: map[string]market.Credits{"ann": 1000 * market.Credit, "bob": 1000 * market.Credit}}
	for _, f := range before {
		f(h)
	}
	if err := n.Lead(h.now, 7); err != nil {
		t.Fatal(err)
	}
	h.run()
	return h
}

// oneRunning is a house where a-1 and a-2 have a slot each and ann's t1 was handed to a-1.
func oneRunning(t *testing.T) (*house, bus.Dispatch) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.join("a-2", "llama", 1, 0.5, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	return h, h.take("ann", "t1")
}

// run does what the Node wants, until it wants no more: frames first, into the replica, which refuses what no
// ledger would take; then the rest.
func (h *house) run() {
	h.t.Helper()
	for {
		r := h.n.Ready()
		h.wake = r.Wake
		if h.tell != nil {
			h.tell(&r)
		}
		for _, f := range r.Frames {
			if err := h.replica.ApplyFrame(f); err != nil {
				h.t.Fatalf("the ledger refuses frame %d: %v", f.Seq, err)
			}
			h.frames = append(h.frames, f)
			for i := range f.Records {
				if f.Records[i].Kind == ledger.KindHold {
					h.begun = append(h.begun, f.Records[i].ID)
				}
			}
		}
		for _, d := range r.Dispatches {
			if err := d.Validate(); err != nil {
				h.t.Fatalf("dispatch: %v", err)
			}
			rec, ok := h.replica.Hold(d.Hold)
			if !ok || rec.Agent == "" || d.CostCap != rec.Amount-rec.Premium {
				h.t.Fatalf("dispatch of %s without its durable hold (I9): %+v", d.Hold, rec)
			}
			if h.holds[d.Hold] {
				h.again = append(h.again, d)
				continue
			}
			h.holds[d.Hold] = true
			h.dispatched = append(h.dispatched, d)
		}
		for _, l := range r.Messages {
			if err := l.Body.Validate(); err != nil {
				h.t.Fatalf("message to %s: %v", l.Subject, err)
			}
		}
		h.messages = append(h.messages, r.Messages...)
		h.faults = append(h.faults, r.Faults...)
		h.probes = append(h.probes, r.Probes...)
		if r.Status != nil {
			if err := r.Status.Validate(); err != nil {
				h.t.Fatalf("status: %v", err)
			}
			h.status = r.Status
		}
		for i := range r.Funds {
			h.mark(&r.Funds[i].Request)
		}
		h.asked = append(h.asked, r.Funds...)
		if h.silent {
			h.pending = append(h.pending, r.Funds...)
		}
		if len(r.Funds) == 0 || h.silent {
			return
		}
		for _, f := range r.Funds {
			if err := f.Request.Validate(); err != nil {
				h.t.Fatalf("request to the treasury: %v", err)
			}
			err := h.n.Step(h.now, h.treasury(f))
			if err != nil && strings.HasSuffix(err.Error(), "to the treasury is under way") {
				err = nil // it was asked again meanwhile, and waits for that answer
			}
			h.must(err)
		}
	}
}

// askGrants has the hub ask for grants that it has not heard of.
func (h *house) askGrants() {
	h.must(h.step(&bus.Recall{ID: "r", Hub: "hub-math", Client: "nobody", Look: true, Granted: 1 << 40,
		Inbox: "_INBOX.treasury.1"}))
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) step(m bus.Message) error {
	h.t.Helper()
	err := h.n.Step(h.now, m)
	h.run()
	return err
}

func (h *house) pass(d time.Duration) {
	h.t.Helper()
	h.now = h.now.Add(d)
	h.n.Tick(h.now)
	h.run()
}

// card is a price card in credits per million tokens.
func card(miss, hit, out market.Credits) market.Price {
	return market.Price{Miss: miss * market.Credit, Hit: hit * market.Credit, Out: out * market.Credit}
}

func registration(id, model string, slots int, score float64, p market.Price) bus.Registration {
	return bus.Registration{
		Agent: id, Boot: 1, Model: model, Domains: []bus.DomainScore{{Domain: "math", Score: score}},
		MaxModelLen: 8192, BlockSize: 16, KVTokens: 100_000, Slots: slots, Price: p, State: bus.StateReady,
	}
}

func (h *house) join(id, model string, slots int, score float64, p market.Price) {
	h.t.Helper()
	h.must(h.register(registration(id, model, slots, score, p)))
	h.run()
}

// register has an agent join by its registration.
func (h *house) register(reg bus.Registration) error {
	err := h.n.Join(h.now, reg)
	if err == nil {
		h.agents[reg.Agent] = &said{Registration: reg, joined: true}
	}
	return err
}

// leave has an agent's registration, or the claim on it, be gone.
func (h *house) leave(id string) {
	h.n.Leave(h.now, id)
	if a := h.agents[id]; a != nil {
		a.joined = false
	}
}

// depose ends the hub's leadership: it sells no agent until it is told of it again.
func (h *house) depose() {
	h.n.Depose(h.now)
	for _, a := range h.agents {
		a.joined = false
	}
}

// openHolds returns all open holds, by round and slot.
func (h *house) openHolds() (open []ledger.Hold) {
	h.begun = slices.DeleteFunc(h.begun, func(id string) bool {
		rec, is := h.replica.Hold(id)
		if is {
			open = append(open, rec)
		}
		return !is
	})
	return open
}

// runningAt counts the open holds at an agent.
func (h *house) runningAt(id string) (n int) {
	for _, rec := range h.openHolds() {
		if rec.Agent == id {
			n++
		}
	}
	return n
}

// summary has an agent say that it is well, with what it said before, or what change says otherwise.
func (h *house) summary(id string, change func(*bus.Summary)) error {
	h.t.Helper()
	a := h.agents[id]
	h.seq++
	m := &bus.Summary{Agent: id, Boot: a.Boot, Seq: h.seq, State: bus.StateReady, Slots: a.Slots,
		InFlight: h.runningAt(id), Price: a.Price}
	if change != nil {
		change(m)
	}
	if m.Slots > 0 {
		a.Slots = m.Slots
	}
	if m.Price.Validate() == nil {
		a.Price = m.Price
	}
	return h.step(m)
}

// task is a request of some 100 prompt tokens.
func (h *house) task(client, id string, change ...func(*bus.Task)) *bus.Task {
	m := &bus.Task{Client: client, ID: id, Kind: bus.KindChat, Body: []byte(`{"messages":[]}`), Stream: true,
		MaxTokens: 100,
		Session:   "s-" + id, Prompt: bus.Prompt{Bytes: 400, Messages: 1, Tokens: 100,
			Prefixes: []bus.PrefixHash{{Bytes: 400}}},
		Inbox: "inbox." + client + "." + id}
	for _, c := range change {
		c(m)
	}
	// every session has its own text
	if prefixes := m.Prompt.Prefixes; len(prefixes) == 1 && prefixes[0].Hash == 0 {
		prefixes[0].Hash = bus.SessionKey(client, m.Session)
	}
	return m
}

// lastRound is the round recorded last.
func (h *house) lastRound() ledger.Round {
	h.t.Helper()
	for _, f := range slices.Backward(h.frames) {
		for _, r := range slices.Backward(f.Records) {
			if r.Round != nil {
				return *r.Round
			}
		}
	}
	h.t.Fatal("no round is recorded")
	return ledger.Round{}
}

// inNoHurry gives a task long patience and much to lose.
func inNoHurry(m *bus.Task) {
	w, p := market.Credit, int64(600_000)
	m.Terms.Worth, m.Terms.PatienceMS = &w, &p
}

func worth(c market.Credits) func(*bus.Task) { return func(m *bus.Task) { m.Terms.Worth = &c } }

// answerTo is the last word that the inbox of a task got: "accepted by a-1", or a code.
func (h *house) answerTo(inbox string) string {
	for _, l := range slices.Backward(h.messages) {
		if a, ok := l.Body.(*bus.Answer); ok && l.Subject == inbox {
			if a.Accepted != nil {
				return "accepted by " + a.Accepted.Agent
			}
			return string(a.Result.Code)
		}
	}
	return ""
}

func (h *house) want(inbox, answer string) {
	h.t.Helper()
	if got := h.answerTo(inbox); got != answer {
		h.t.Errorf("answer to %s: %q, want %q", inbox, got, answer)
	}
}

// take removes and returns the dispatch of a task, which must exist.
func (h *house) take(client, id string) bus.Dispatch {
	h.t.Helper()
	for i, d := range h.dispatched {
		if d.Task.Client == client && d.Task.ID == id {
			h.dispatched = slices.Delete(h.dispatched, i, i+1)
			return d
		}
	}
	h.t.Fatalf("task %s/%s was not dispatched; dispatched are %s", client, id, h.running())
	return bus.Dispatch{}
}

// running names the tasks handed out and not yet taken: "ann/t1>a-1 ...".
func (h *house) running() string {
	var s []string
	for _, d := range h.dispatched {
		rec, _ := h.replica.Hold(d.Hold)
		s = append(s, fmt.Sprintf("%s/%s>%s", d.Task.Client, d.Task.ID, rec.Agent))
	}
	slices.Sort(s)
	return strings.Join(s, " ")
}

func (h *house) agentOf(d bus.Dispatch) string {
	rec, ok := h.n.Book().Hold(d.Hold)
	if !ok {
		h.t.Fatalf("hold %s is not open", d.Hold)
	}
	return rec.Agent
}

func (h *house) accept(d bus.Dispatch) {
	h.t.Helper()
	h.must(h.step(&bus.DispatchReply{Agent: h.agentOf(d), Boot: d.Boot, Hold: d.Hold}))
}

func (h *house) refuse(d bus.Dispatch, code bus.Code) {
	h.t.Helper()
	h.must(h.step(&bus.DispatchReply{Agent: h.agentOf(d), Boot: d.Boot, Hold: d.Hold, Code: code}))
}

// completion is an honest agent's account of a dispatch.
func completion(agent string, d bus.Dispatch, u market.Usage) *bus.Completion {
	return &bus.Completion{
		Agent: agent, Boot: 1, Hold: d.Hold, Client: d.Task.Client, Task: d.Task.ID, Outcome: bus.OutcomeDone,
		Finish: "stop",
		Usage:  u, Relayed: u.Output,
		Cost: market.Settle(d.Settle, d.Price, d.Tariff, d.Quoted, u, d.CostCap), TTFTUS: 50_000,
		ITLUS: 10_000,
		Inbox: "ack." + d.Hold,
	}
}

// serve accepts a dispatch and completes it.
func (h *house) serve(d bus.Dispatch, u market.Usage) *bus.Completion {
	h.t.Helper()
	c := completion(h.agentOf(d), d, u)
	h.accept(d)
	h.must(h.step(c))
	return c
}

// ack is the code of the last acknowledgement of a hold; "none" if there is none.
func (h *house) ack(hold string) string {
	for _, l := range slices.Backward(h.messages) {
		if a, ok := l.Body.(*bus.CompletionAck); ok && a.Hold == hold {
			return "ack " + string(a.Code)
		}
	}
	return "none"
}

// restart puts a new Node in the place of the last, which has read all that is durable.
func (h *house) restart() {
	h.t.Helper()
	h.restartFrom(h.frames)
}

// restartFrom does so from the frames of an older copy.
func (h *house) restartFrom(frames []ledger.Frame) {
	h.t.Helper()
	again, err := hub.NewNode(h.n.Config(), [32]byte{2})
	h.must(err)
	for i := range frames {
		f := &frames[i]
		h.must(again.Past.Apply(f.Seq, f.Epoch, ledger.AppendFrame(nil, f)))
	}
	h.n = again
	h.started()
}

// started holds whatever changes where a Node takes the place of another.
func (h *house) started() {
	for _, a := range h.agents {
		a.joined = false
	}
}

// audited checks every frame that the house has recorded, at every level.
func (h *house) audited() {
	h.t.Helper()
	if found := h.findings(ledger.MaxLevel); len(found) > 0 {
		h.t.Errorf("the audit finds %v", found)
	}
}

func (h *house) findings(level int) []ledger.Finding {
	a := ledger.NewAudit("hub-math", level)
	for i := range h.frames {
		f := &h.frames[i]
		a.Frame(f.Seq, f.Epoch, ledger.AppendFrame(nil, f))
	}
	return a.Finish().Findings
}

// told is the last word to a client's task, and nil if there was none.
func (h *house) told(who string) *bus.Result {
	for _, l := range h.messages {
		if a, ok := l.Body.(*bus.Answer); ok && l.Subject == "inbox."+who && a.Result != nil {
			return a.Result
		}
	}
	return nil
}
