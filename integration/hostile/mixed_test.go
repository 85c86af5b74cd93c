package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/agentd"
	"souk/bus"
	buyer "souk/bus/client"
	"souk/ledger"
	"souk/market"
)

// roles are the parts of each kind, as house.connect and a play name them.
var roles = map[string][]string{
	"treasury": {"treasury"}, "hub": {"hub"}, "agents": {"node-1", "node-2"}, "door": {"door"},
	"clients": {"ann", "bob"},
}

// fleet is which parts are of the version before.
type fleet []string

func (f fleet) old(part string) bool { return slices.Contains(f, part) }

// Whatever parts of a fleet are of the version before, it serves: every task has one last word, what it says
// was paid is what the ledger has, all journals audit clean, nothing stays held, and no money is lost or
// made. What new agents are paid for, they are paid for by any hub that asks them for it.
func TestMixedVersions(t *testing.T) {
	everybody := slices.Concat(slices.Collect(maps.Values(roles))...)
	fleets := map[string]fleet{"nobody is old": nil, "everybody is old": everybody,
		"one agent is old": {"node-1"}}
	for role, parts := range roles {
		fleets["old: "+role] = parts
		fleets["new: "+role] = slices.DeleteFunc(slices.Clone(everybody),
			func(part string) bool { return slices.Contains(parts, part) })
	}
	said := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(fleets)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				maps.Copy(said, playMixed(t, fleets[name]))
			})
		})
	}
	for name, words := range added {
		if name == "bus.Result json" || name == "bus.ModelStatus json" || name == "bus.Task json" ||
			strings.HasPrefix(name, "bus.Funds") && strings.HasSuffix(name, " json") {
			continue // as people write it by hand, and read it
		}
		for _, word := range strings.Fields(words) {
			if elsewhere[name+" "+word] != "" {
				continue
			}
			if !said[name+" "+word] {
				t.Errorf("%s: field %s is new, and nobody says it in these plays, so they show nothing "+
					"of it: "+
					"add what it is for", name, word)
			}
		}
	}
}

// play is a fleet of mixed versions and what two clients do with it.
type play struct {
	*house
	fleet    fleet
	ann, bob *buyer.Client
	line     bus.Bus // of ann
	count    int     // tasks

	mu    sync.Mutex
	paid  map[string]market.Credits // by client, as it was told
	ends  map[string]expectation    // of holds, as clients were told
	hurts func() (late time.Duration, fails bool)
}

// expectation is what a journal is to say of a hold.
type expectation struct {
	paid market.Credits // cost and premium, for what its agent's card says of what its engine computed
	void bool
}

// playMixed returns which new fields were said among new parts.
func playMixed(t *testing.T, f fleet) map[string]bool {
	o := &older{t: t, answers: map[string]reflect.Type{}, said: map[string]bool{}}
	looks := &older{t: t, looks: true, answers: map[string]reflect.Type{}, said: map[string]bool{}}
	p := &play{fleet: slices.Clone(f), paid: map[string]market.Credits{}, ends: map[string]expectation{}}
	p.house = open(t, func(part string, b bus.Bus, r bus.Registry) (bus.Bus, bus.Registry) {
		by := looks
		if p.fleet.old(part) {
			by = o
		}
		return olderBus{b, by}, olderRegistry{r, by}
	}, &bus.Template{Fixed: 8, Each: 8, Tools: 64, Wide: 1})
	for _, e := range p.engine {
		e.hurt = p.hurt
	}
	client := func(id string) *buyer.Client {
		b, _ := p.connect(id)
		if id == "ann" {
			p.line = b
		}
		c, err := buyer.New(buyer.Default(id), b)
		p.must(err)
		return c
	}
	p.ann, p.bob = client("ann"), client("bob")

	p.plain()
	p.session()
	p.cancels()
	p.crowd()
	p.low()
	p.failover()
	p.askedAgain()
	p.recalled()
	p.turn("hub", "node-1") // from here on it is another fleet
	p.plain()
	p.session()
	p.cancels()
	p.recalled()
	p.money()
	p.ending()

	p.must(p.ann.Close())
	p.must(p.bob.Close())
	p.judge(p.close())
	return looks.said
}

// turn has parts go, and come back as what they were not: of this version, or of the one before.
func (p *play) turn(parts ...string) {
	for _, part := range parts {
		p.house.stop(part)
		if p.fleet.old(part) {
			p.fleet = slices.DeleteFunc(p.fleet, func(s string) bool { return s == part })
		} else {
			p.fleet = append(p.fleet, part)
		}
		if part == "hub" {
			p.runHub()
		} else {
			p.runNode(part)
		}
	}
	p.pass(2 * bus.FundsEvery) // and the treasury knows what it has before it
}

// hurt is asked by engines.
func (p *play) hurt(agentd.Request) (late time.Duration, fails bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hurts == nil {
		return 0, false
	}
	late, fails = p.hurts()
	p.hurts = nil // once
	return late, fails
}

func (p *play) hurtNext(late time.Duration, fails bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hurts = func() (time.Duration, bool) { return late, fails }
}

// task is one that asks for so many tokens about a text.
func (p *play) task(content any, tokens int, more map[string]any) bus.Task {
	body := map[string]any{"messages": []any{map[string]any{"role": "user", "content": content}},
		"max_tokens": tokens, "ignore_eos": true}
	maps.Copy(body, more)
	data, err := json.Marshal(body)
	p.must(err)
	p.count++
	return bus.Task{ID: fmt.Sprintf("t-%d", p.count), Body: data}
}

// told notes a last word, and what it means for the ledger.
func (p *play) told(what string, r bus.Result) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paid[r.Client] += r.Paid()
	if r.Receipt == nil {
		if r.Paid() != 0 {
			p.t.Errorf("%s: %s were paid and there is no receipt: %+v", what, r.Paid(), r)
		}
		return
	}
	for _, id := range r.Receipt.Earlier {
		p.ends[id] = expectation{void: true}
	}
	if _, twice := p.ends[r.Receipt.ID]; twice {
		p.t.Errorf("%s: hold %s was on a receipt before: %+v", what, r.Receipt.ID, r)
	}
	p.ends[r.Receipt.ID] = expectation{paid: r.Paid(), void: r.Cost == 0}
}

// stream asks for a stream and does something at its beginning and after its first chunk.
func (p *play) stream(what string, task bus.Task, begun, first func(*buyer.Stream)) bus.Result {
	p.t.Helper()
	s, err := p.ann.Submit(p.t.Context(), task)
	if err != nil {
		p.t.Errorf("%s: %v", what, err)
		return bus.Result{}
	}
	defer s.Close()
	if begun != nil {
		begun(s)
	}
	for seq := uint64(0); ; seq++ {
		c, err := s.Next(p.t.Context())
		if err != nil {
			var refused *bus.Error
			if err != io.EOF && !errors.As(err, &refused) {
				p.t.Errorf("%s: %v", what, err)
			}
			break
		}
		if c.Seq != seq {
			p.t.Errorf("%s: chunk %d comes as number %d", what, c.Seq, seq)
		}
		if seq == 0 && first != nil {
			first(s)
		}
	}
	r, ok := s.Result()
	if !ok {
		p.t.Errorf("%s: there is no last word", what)
	}
	synctest.Wait()
	p.told(what, r)
	return r
}

// whole is stream for an answer that is to be served to its end.
func (p *play) whole(what string, task bus.Task, begun, first func(*buyer.Stream)) bus.Result {
	p.t.Helper()
	r := p.stream(what, task, begun, first)
	if r.Code != "" || r.Cost == 0 {
		p.t.Errorf("%s: %+v", what, r)
	}
	return r
}

// collected has the door collect an answer, for whoever can read no stream.
func (p *play) collected(task bus.Task) {
	data, err := bus.Encode(&task)
	p.must(err)
	m, err := p.line.Request(p.t.Context(), bus.Msg{Subject: bus.TaskSubject("ann", ""), Data: data})
	p.must(err)
	var a bus.Answer
	p.must(bus.Decode(m.Data, &a))
	if a.Result == nil || a.Result.Code != "" || a.Result.Usage.Output != task.MaxTokens {
		p.t.Fatalf("a plain task that the door collects: %+v", a)
	}
	p.told("a plain task that the door collects", *a.Result)
}

func (p *play) plain() {
	r, err := p.ann.Ask(p.t.Context(), p.task("tell me of the sea", 5, nil))
	if err != nil || r.Usage.Output != 5 {
		p.t.Errorf("a plain task: %+v, %v", r, err)
	}
	p.told("a plain task", r)
	whole := p.task("tell me of the shore", 5, nil)
	whole.MaxTokens = 5 // as the door reads it in the body, too
	p.collected(whole)
	tool := map[string]any{"type": "function", "function": map[string]any{"name": "f"}}
	parts := []any{map[string]any{"type": "text", "text": "what is in this café?"},
		map[string]any{"type": "image_url", "image_url": map[string]any{"url": "http://x/y.png"}}}
	p.whole("a task with a picture and a tool", p.task(parts, 5, map[string]any{"tools": []any{tool}}), nil,
		nil)
}

func (p *play) session() {
	say := func(role, text string) any { return map[string]any{"role": role, "content": text} }
	dialogue := []any{say("user", strings.Repeat("the long way home ", 60))}
	next := func(turn, tokens int) bus.Task {
		task := p.task(nil, tokens, map[string]any{"messages": dialogue})
		task.Session, task.Turn = "s", turn
		dialogue = append(dialogue, say("assistant", "so so so "), say("user", "and back"))
		return task
	}
	for turn := range 3 {
		r := p.whole(fmt.Sprintf("turn %d", turn), next(turn, 5), nil, nil)
		if turn > 0 && r.Usage.Cached == 0 {
			p.t.Errorf("turn %d: nothing was found in the cache: %+v", turn, r.Usage)
		}
		p.pass(time.Second)
	}
	// What it found in its cache an engine says at the end: until then the hub's word counts, of which a part
	// of the version before says and knows nothing.
	r := p.stream("a turn that is cancelled", next(3, 60), nil, (*buyer.Stream).Cancel)
	if r.Code != bus.CodeCancelled || r.Usage.Output == 0 || r.Usage.Output == 60 ||
		(r.Usage.Cached > 0) != p.newPair(r.Agent) {
		p.t.Errorf("a turn that is cancelled: %+v", r)
	}
}

// newPair reports whether neither the hub nor an agent is of the version before.
func (p *play) newPair(agent string) bool {
	return !p.fleet.old("hub") && !p.fleet.old(nodeOf(agent))
}

func (p *play) cancels() {
	r := p.stream("cancelled after its first token", p.task(texts[7], 60, nil), nil, (*buyer.Stream).Cancel)
	if r.Code != bus.CodeCancelled || r.Usage.Output == 0 || r.Usage.Output == 60 || r.Cost == 0 {
		p.t.Errorf("cancelled after its first token: %+v", r)
	}
	r = p.stream("cancelled before its first token", p.task("of "+texts[7], 60, nil), (*buyer.Stream).Cancel,
		nil)
	if r.Code != bus.CodeCancelled || r.Usage.Output != 0 || (r.Cost > 0) != p.newPair(r.Agent) {
		p.t.Errorf("cancelled before its first token: %+v", r)
	}
}

// askedAgain asks for one task twice, as a reader does that hears nothing of the market.
func (p *play) askedAgain() {
	b := p.line
	task := p.task("of doors that die", 5, nil)
	ended := make(chan bus.Result, 1)
	sub, err := b.Subscribe(bus.ReplySubject("ann", task.ID, "*"), "", func(m bus.Msg) {
		var c bus.Chunk
		if bus.Decode(m.Data, &c) == nil && c.Result != nil {
			select {
			case ended <- *c.Result:
			default:
			}
		}
	})
	p.must(err)
	defer sub.Stop()
	task.Stream, task.Again = true, bus.AgainUnheard
	data, err := bus.Encode(&task)
	p.must(err)
	for range 2 {
		m, err := b.Request(p.t.Context(), bus.Msg{Subject: bus.TaskSubject("ann", ""), Data: data})
		p.must(err)
		var a bus.Answer
		if err := bus.Decode(m.Data, &a); err != nil || a.Accepted == nil {
			p.t.Errorf("a task that is asked for again: %+v, %v", a, err)
			return
		}
	}
	r := <-ended
	if r.Code != "" || r.Usage.Output != 5 {
		p.t.Errorf("a task that is asked for again: %+v", r)
	}
	synctest.Wait()
	p.told("a task that is asked for again", r)
}

// crowd asks for more at once than there are slots, so that some pay for being first.
func (p *play) crowd() {
	var all sync.WaitGroup
	premium := market.Credits(0)
	for i := range 14 {
		c := []*buyer.Client{p.ann, p.bob}[i%2]
		task := p.task(fmt.Sprintf("of crowds %d", i), 20+i, nil)
		all.Go(func() {
			r, err := c.Ask(p.t.Context(), task)
			if err != nil || r.Usage.Output != 20+i {
				p.t.Errorf("one of a crowd: %+v, %v", r, err)
			}
			p.told("one of a crowd", r)
			p.mu.Lock()
			premium += r.Premium
			p.mu.Unlock()
		})
	}
	all.Wait()
	if premium == 0 {
		p.t.Error("14 tasks on 8 slots, and nobody pays a premium")
	}
}

// low asks for so much that the hub, which has the money of eight tasks like those before, has too little for
// four of these: it asks the treasury ahead. (A crowd has it ask, too, if its tasks come in such an order.)
func (p *play) low() {
	r := p.stream("a long one", p.task("of long ones", 10_000, nil), nil, (*buyer.Stream).Cancel)
	if r.Code != bus.CodeCancelled {
		p.t.Errorf("a long one that is cancelled: %+v", r)
	}
	p.pass(time.Second)
}

func (p *play) failover() {
	p.hurtNext(0, true)
	r := p.whole("its engine fails", p.task("of engines", 20, nil), nil, nil)
	if r.Receipt == nil || len(r.Receipt.Earlier) != 1 || r.Usage.Output != 20 {
		p.t.Errorf("its engine fails: %+v", r)
	}
	p.pass(10 * time.Second) // it is looked at, and found well

	node := ""
	r = p.whole("its agent is cut off", p.task("of agents", 60, nil), nil, func(s *buyer.Stream) {
		node = nodeOf(s.Accepted().Agent)
		p.world.Cut(node)
	})
	if node == "" {
		return
	}
	if r.Receipt == nil || len(r.Receipt.Earlier) != 1 || r.Usage.Output != 60 {
		p.t.Errorf("its agent is cut off: %+v", r)
	}
	p.world.Heal(node)
	p.pass(10 * time.Second)
}

func (p *play) recalled() {
	p.hurtNext(20*time.Second, false)
	p.world.DropNext(3, bus.TakenSubject("*", "*", "*")) // what its agent answers the hub
	begun := time.Now()
	r := p.whole("it is recalled", p.task("of recalls", 5, nil), nil, nil)
	if took := time.Since(begun); took > 15*time.Second {
		p.t.Errorf("it is recalled, and served again only after %v: %+v", took, r)
	}
	p.pass(10 * time.Second)
}

// ask asks the treasury, as an operator does.
func (p *play) ask(op string, q bus.FundsRequest) bus.FundsReply {
	p.t.Helper()
	data, err := bus.Encode(&q)
	p.must(err)
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
	defer cancel()
	subject := bus.LedgerSubject(op, p.me.Name())
	if op == bus.OpBalance {
		subject = bus.BalanceSubject(q.Client, p.me.Name())
	}
	m, err := p.me.Request(ctx, bus.Msg{Subject: subject, Data: data})
	p.must(err)
	var r bus.FundsReply
	p.must(bus.Decode(m.Data, &r))
	return r
}

func (p *play) money() {
	recalls := !p.fleet.old("hub") && !p.fleet.old("treasury")
	r := p.ask(bus.OpBalance, bus.FundsRequest{ID: "b", Client: "ann", Hubs: true})
	if r.Prepaid+r.Allotted != market.Credit {
		p.t.Errorf("of %s that were deposited %s are with the treasury and %s with hubs", market.Credit,
			r.Prepaid, r.Allotted)
	}
	left := market.Credit - p.paid["ann"]
	if recalls && (len(r.Hubs) != 1 || r.Hubs[0].AtMS == 0 || r.Prepaid+r.Hubs[0].Avail != left) {
		p.t.Errorf("%s are left, and the balance is %+v", left, r)
	}

	// There and back: the version before knows no moves and no budgets.
	for i, m := range []struct {
		op string
		q  bus.FundsRequest
	}{
		{bus.OpMove, bus.FundsRequest{Client: "ann", To: "eve", Amount: 1}},
		{bus.OpMove, bus.FundsRequest{Client: "eve", To: "ann", Amount: 1}},
		{bus.OpBudget, bus.FundsRequest{Client: "ann", To: "ann-k", Every: "day", Amount: 1}},
		{bus.OpBudget, bus.FundsRequest{Client: "ann", To: "ann-k"}},
	} {
		want := bus.Code("")
		if p.fleet.old("treasury") {
			want = bus.CodeBadRequest
		}
		m.q.ID = fmt.Sprint("move-", i)
		if r := p.ask(m.op, m.q); r.Code != want {
			p.t.Errorf("a %s of %s to %s: %+v, want %q", m.op, m.q.Client, m.q.To, r, want)
		}
	}

	// All of it is wanted while the hub that has a part of it cannot be asked.
	p.world.Cut("hub")
	out := bus.FundsRequest{ID: "all", Client: "ann", Amount: left}
	r = p.ask(bus.OpPayout, out)
	want := bus.CodeInsufficientFunds
	if recalls {
		want = bus.CodeAllotmentPending
	}
	if r.Code != want {
		p.t.Errorf("a payout of all with the hub away: %+v, want %s", r, want)
	}
	p.world.Heal("hub")
	for n := 0; r.Code == bus.CodeAllotmentPending && n < 50; n++ {
		p.pass(time.Duration(r.RetryMS)*time.Millisecond + time.Millisecond)
		r = p.ask(bus.OpPayout, out)
	}
	if recalls != (r.Code == "") {
		p.t.Errorf("a payout of all: %+v", r)
	}
	if r.Code != "" { // a hub that cannot be asked keeps what it has
		r = p.ask(bus.OpPayout, bus.FundsRequest{ID: "some", Client: "ann", Amount: r.Prepaid})
		if r.Code != "" || r.Prepaid != 0 {
			p.t.Errorf("a payout of what there is: %+v", r)
		}
	}
	last, err := p.ann.Ask(p.t.Context(), p.task("of money", 5, nil))
	if broke := bus.CodeOf(err) == bus.CodeInsufficientFunds; broke != recalls || !broke && err != nil {
		p.t.Errorf("a task after all money was paid out: %+v, %v", last, err)
	}
	p.told("the last task", last)
}

// ending ends the hub, its surplus first. Of that the version before knows nothing: no hub of it does so, and
// a treasury of it refuses. A hub that cannot end serves on.
func (p *play) ending() {
	if p.fleet.old("hub") {
		return
	}
	p.house.stop("hub")
	p.newHub(true)
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.hub.Run(ctx) }()
	p.pass(2 * bus.FundsEvery)
	r := p.ask(bus.OpDistribute, bus.FundsRequest{ID: "look", Hub: "hub"})
	if p.fleet.old("treasury") {
		p.pass(10 * time.Second)
		cancel()
		if err := <-ended; r.Code != bus.CodeBadRequest || err == nil {
			p.t.Errorf("a hub ends that its treasury knows nothing of: %+v, %v", r, err)
		}
		p.must(p.buses["hub"].Close())
		p.runHub()
		p.pass(2 * time.Second)
		if last, err := p.bob.Ask(p.t.Context(), p.task("of ends", 5, nil)); err != nil {
			p.t.Errorf("a task after a hub did not end: %+v, %v", last, err)
		} else {
			p.told("a task after a hub did not end", last)
		}
		return
	}
	if r.Code != "" || r.Surplus <= 0 {
		p.t.Errorf("the surplus of a hub to which premiums were paid: %+v", r)
	}
	r = p.ask(bus.OpDistribute, bus.FundsRequest{ID: bus.DistributeID("hub", r.Number),
		Hub: "hub", Amount: r.Surplus})
	if r.Code != "" || r.Surplus != 0 {
		p.t.Errorf("the surplus leaves: %+v", r)
	}
	p.pass(10 * time.Second)
	select {
	case err := <-ended:
		p.must(err)
	default:
		p.t.Error("the hub has not ended")
		cancel()
		<-ended
	}
}

// judge holds what was told against the journals.
func (p *play) judge(ends map[string]ending) {
	for id, want := range p.ends {
		end, ok := ends[id]
		switch {
		case !ok:
			p.t.Errorf("hold %s is on a receipt and in no journal", id)
		case want.void != (end.void != nil) || want.void == (end.capture != nil):
			p.t.Errorf("hold %s: the client was told %+v, and the journal says %+v", id, want, end)
		case want.void:
		case end.capture.Cost+end.hold.Premium != want.paid:
			p.t.Errorf("hold %s: the client was told of %s, and %s and %s are on record", id, want.paid,
				end.capture.Cost, end.hold.Premium)
		default:
			p.paidInFull(id, p.engine[end.hold.Agent].served[id], end)
		}
	}
	for id, end := range ends {
		if _, told := p.ends[id]; !told && end.void == nil {
			p.t.Errorf("hold %s is on no receipt: %+v", id, end)
		}
	}
	hub, bank := p.book(&p.hubBook), p.book(&p.treasuryBook)
	if n := hub.OpenCount(); n > 0 {
		p.t.Errorf("%d holds remain", n)
	}
	out := map[string]market.Credits{}
	for _, f := range p.treasuryBook.frames {
		for _, r := range f.Records {
			if r.Kind == ledger.KindPayout {
				out[r.Transfer.Client] += r.Transfer.Amount
			}
		}
	}
	for _, c := range clients {
		prepaid, _ := bank.Prepaid(c)
		if hub.Held(c) != 0 || prepaid+out[c]+hub.Avail(c)+p.paid[c] != market.Credit {
			p.t.Errorf("of %s that %s deposited %s are with the treasury, %s with the hub and %s held "+
				"there, %s "+
				"were paid out and %s paid for answers", market.Credit, c, prepaid, hub.Avail(c), hub.Held(c),
				out[c], p.paid[c])
		}
	}
}

func (p *play) book(m *memory) *ledger.Book {
	b := ledger.NewBook()
	for _, f := range m.frames {
		p.must(b.ApplyFrame(f))
	}
	return b
}
