package hub

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	runtimepolicy "souk/bus/policy"
	"souk/bus/tip"
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

// house is a Node with its surroundings: a replica of its book that is fed only what was made durable, a
// treasury with money, and everything that the Node said, in order.
type house struct {
	t       *testing.T
	n       *Node
	now     time.Time
	replica *ledger.Book
	frames  []ledger.Frame

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
	asked   []Funds
	pending []Funds // of these, not answered

	dispatched []bus.Dispatch // not yet answered
	again      []bus.Dispatch // that had been dispatched before
	holds      map[string]bool
	messages   []Message
	status     *bus.Status
	faults     []error
	probes     []string
	wake       time.Time
	tell       func(*Ready) // hears first what the Node wants
}

// testParts are as a market has them.
var testParts = Parts{
	Policies: policy.Known{
		policy.Place: {
			"fair": func() runtimepolicy.Policy { return fair.New() },
			"pd":   func() runtimepolicy.Policy { return pd.New(pd.Default()) },
		},
		policy.Keep: {"kvcache": func() runtimepolicy.Policy { return kvcache.New(1 << 16) }},
	},
	Toll: router.Router{},
	Gates: func(features int) predict.Gate {
		g, err := tree.NewGate(tree.Default(), features)
		if err != nil {
			panic(err)
		}
		return g
	},
}

func testConfig() Config {
	c := Default()
	c.Domain, c.Hub, c.Journal = "math", "hub-1", "hub-math"
	c.Labels = []string{"gsm8k"}
	c.DrainTimeout = 2 * time.Second
	c.Parts = testParts
	return c
}

func newHouse(t *testing.T, change func(*Config)) *house {
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	n, err := NewNode(cfg, [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, n: n, now: start, replica: ledger.NewBook(), holds: map[string]bool{},
		back:    map[string]bool{},
		granted: map[string]bus.Grant{},
		prepaid: map[string]market.Credits{"ann": 1000 * market.Credit, "bob": 1000 * market.Credit}}
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
			_, under := h.n.treasury.requests[f.Request.ID]
			if err := h.n.Step(h.now, h.treasury(f)); under { // else it was asked twice, and is answered
				h.must(err)
			}
		}
	}
}

// mark adds to a request what who sends it does: the checksum of the frame that it speaks of.
func (h *house) mark(q *bus.FundsRequest) {
	if q.Mark != nil {
		m := *q.Mark
		m.Sum = h.sum(m.Seq)
		q.Mark = &m
	}
}

// sum is the checksum of a frame of the hub's journal; none, if there is no such frame.
func (h *house) sum(seq uint64) tip.Sum {
	if seq == 0 || seq > uint64(len(h.frames)) {
		return tip.Sum{}
	}
	return tip.SumOf(ledger.AppendFrame(nil, &h.frames[seq-1]))
}

// treasury answers as the design says: at least Least or nothing, at most half of what is left unless Least
// needs more.
func (h *house) treasury(f Funds) *bus.FundsReply {
	q := f.Request
	r := &bus.FundsReply{ID: q.ID, Client: q.Client}
	if m := q.Mark; m != nil && !q.Unsure && (h.marked == nil || m.Seq > h.marked.Seq) {
		h.marked = m
	}
	if h.sure {
		r.Journal = tip.Sum{9}
		r.Mark = &tip.Mark{Journal: r.Journal, Seq: uint64(len(h.grants) + len(h.back) + 1),
			Sum: tip.Sum{8}}
	}
	switch f.Op {
	case bus.OpAllotted:
		if h.sure && h.marked != nil {
			r.Known, r.Here = h.marked, h.sum(h.marked.Seq)
		}
		r.Returned, r.Ended = h.taken, h.ended
		for _, g := range h.grants {
			if g.Number > q.After {
				r.Grants = append(r.Grants, g)
			}
		}
	case bus.OpReturn:
		if !h.back[q.ID] {
			h.prepaid[q.Client] += q.Amount
		}
		h.back[q.ID] = true
	case bus.OpClose:
		if h.unended {
			r.Code, r.Message = bus.CodeBadRequest, "another number"
		}
	case bus.OpAllot:
		have, known := h.prepaid[q.Client]
		amount := min(q.Amount, max(q.Least, have/2))
		g, repeated := h.granted[q.ID]
		switch {
		case repeated:
			r.Grants = append(r.Grants, g)
		case !known:
			r.Code = bus.CodeUnknownClient
		case amount > have:
			r.Code = bus.CodeInsufficientFunds
		default:
			h.prepaid[q.Client] -= amount
			g = bus.Grant{Number: uint64(len(h.grants) + 1), Client: q.Client, Hub: q.Hub, Amount: amount}
			h.grants, h.granted[q.ID] = append(h.grants, g), g
			r.Grants = append(r.Grants, g)
		}
		r.Prepaid = h.prepaid[q.Client]
	}
	return r
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
	h.must(h.n.Join(h.now, registration(id, model, slots, score, p)))
	h.run()
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
	rec, ok := h.n.book.Hold(d.Hold)
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
	again, err := NewNode(h.n.cfg, [32]byte{2})
	h.must(err)
	for _, f := range h.frames {
		h.must(again.Replay(f))
	}
	h.n = again
}

// Replay takes in one stored frame of the hub's own journal, from the first, before Restore.
func (n *Node) Replay(f ledger.Frame) error {
	return n.history.Apply(f.Seq, f.Epoch, ledger.AppendFrame(nil, &f))
}

// said is the last word to a client's task, and nil if there was none.
func (h *house) said(who string) *bus.Result {
	for _, l := range h.messages {
		if a, ok := l.Body.(*bus.Answer); ok && l.Subject == "inbox."+who && a.Result != nil {
			return a.Result
		}
	}
	return nil
}
