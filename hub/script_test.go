package hub_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest/script"
	"souk/hub"
	"souk/ledger"
	"souk/market"
)

// The scripts of testdata read as a manual of the hub. A line says what happens, the lines below it are what
// the hub wants done: frames to make durable, dispatches, messages, requests to the treasury. A hold's name
// is its round and its place in it. Agents say each second that they are well, and the treasury answers at
// once; ann and bob have 100 credits at the hub and as much with the treasury. A task has a prompt of 100
// tokens, at most 100 tokens of answer, and a session of its own; money is in credits, prices for a million
// tokens.
//
//	hub KEY=VALUE...           first of all: what its configuration says otherwise; poor: nobody has money
//	A joins KEY=VALUE...       agent A is registered and claimed: score, slots, price=MISS/HIT/OUT
//	A leaves                   its registration is gone; A falls silent, A speaks: its summaries
//	A says KEY=VALUE...        a summary: slots, running, state, price, late=HOLD,...
//	C asks TASK KEY=VALUE...   client C sends a task: worth, max_price, deadline, model, inbox, ...;
//	                           goes_on=N of=A: the rest of an answer that broke off at agent A after N
//	                           tokens; reader=WHO token=TOKEN: who reads the answer; by=DOOR
//	C cancels TASK, C judges TASK QUALITY; by=WHO: in its name
//	A accepts HOLD, A refuses HOLD CODE
//	A serves HOLD P+O          its completion: P prompt tokens, O of answer; cancelled: by its client,
//	                           cost=: its claim
//	A fails HOLD KEY=VALUE...  its completion: code, relayed tokens; unsaid: its reader was not told
//	nobody hears A             the bus says so of each probe; somebody hears A
//	bus away, bus back, hub sleeps, hub wakes, hub starts again, hub deposed, hub leads EPOCH, hub drains,
//	hub retires
//	hub full, hub has room     of its journal's disk
//	settings KEY=VALUE...      of the domain, in the registry; settings gone
//	hub starts again frames=N  from a copy of its journal that ends there
//	treasury keeps marks       it says how far its journal is, and how far it knows the hub's
//	treasury has C AMOUNT, treasury falls silent, treasury says CODE to all that it was asked since
//	treasury speaks            it answers what it was asked since; last first; unheard: the answers are lost
//	treasury recalls C [look]  money of client C
//	status, book, wake         print what the hub says of itself, what stands in its book, when it wants to
//	                           be woken
//	watch treasury, watch status, watch probes    print these, too, from now on
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", start, func(t *testing.T, say script.Say) script.Scene {
		return &scene{t: t, say: say, watch: map[string]bool{}, deaf: map[string]bool{},
			speaks: map[string]bool{}, withdrawn: map[string]int{},
			dispatches: map[string]bus.Dispatch{}, epoch: 7}
	})
}

// scene is a house in which a script is played.
type scene struct {
	t   *testing.T
	h   *house
	say script.Say

	watch      map[string]bool
	deaf       map[string]bool // agents that nobody hears
	speaks     map[string]bool // agents that say each second that they are well
	spoke      time.Time
	asleep     bool
	epoch      int64
	dispatches map[string]bus.Dispatch // by the hold's name in scripts
	withdrawn  map[string]int          // how often each hold was, likewise
}

func (s *scene) open(o options) {
	s.h = newHouse(s.t, func(c *hub.Config) { o.configure(c) }, func(h *house) {
		for i, c := range []string{"ann", "bob"} {
			if o.has("poor") {
				break
			}
			h.grants = append(h.grants, bus.Grant{Number: uint64(i + 1), Client: c, Hub: "hub-math",
				Amount: 100 * market.Credit})
			h.prepaid[c] = 100 * market.Credit
		}
	})
	s.spoke = start
	s.h.tell = s.tell
	s.t.Cleanup(func() { // whatever agents claim, level 6 alone may name them
		if found := s.h.findings(ledger.LevelAcross); len(found) > 0 {
			s.t.Errorf("the audit finds %v", found)
		}
	})
}

func (s *scene) Wake(to time.Time) time.Time {
	switch {
	case s.h == nil || s.asleep:
		return time.Time{}
	case len(s.speaks) > 0:
		if next := s.spoke.Add(time.Second); s.h.wake.IsZero() || next.Before(s.h.wake) {
			return next
		}
	}
	return s.h.wake
}

func (s *scene) Tick(now time.Time) {
	s.h.now = now
	if !now.Before(s.spoke.Add(time.Second)) {
		s.spoke = now
		for _, id := range slices.Sorted(maps.Keys(s.speaks)) {
			if a := s.h.agents[id]; a != nil && a.joined {
				s.summary(id, nil)
			}
		}
	}
	s.h.n.Tick(now)
	s.h.run()
	s.probes()
}

// probes answers for the bus.
func (s *scene) probes() {
	for _, id := range s.h.probes {
		if s.watch["probes"] || s.deaf[id] {
			s.say("probe %s", id)
		}
		if s.deaf[id] {
			s.h.n.Absent(s.h.now, id)
			s.h.run()
		}
	}
	s.h.probes = nil
}

func (s *scene) summary(id string, o options) {
	s.error(s.h.summary(id, func(m *bus.Summary) {
		m.Boot, m.State = o.whole("boot", m.Boot), o.word("state", m.State)
		m.Slots = int(o.whole("slots", int64(m.Slots)))
		m.InFlight = int(o.whole("running", int64(m.InFlight)))
		m.Price = o.price(m.Price)
		for _, hold := range strings.FieldsFunc(o.word("late", ""), func(r rune) bool { return r == ',' }) {
			m.Late = append(m.Late, s.h.n.Config().Journal+"/"+hold)
		}
	}))
}

func (s *scene) step(m bus.Message) { s.error(s.h.step(m)) }

func (s *scene) error(err error) {
	if err != nil {
		s.say("error: %v", err)
	}
}

func (s *scene) Do(now time.Time, what string) {
	word := strings.Fields(what)
	if word[0] == "hub" && s.h == nil {
		s.open(word[1:])
		return
	}
	if s.h == nil {
		s.open(nil)
	}
	s.h.now = now
	s.happens(what, word[0], word[1:])
	s.h.run()
	s.probes()
}

func (s *scene) happens(what, who string, word options) {
	n, now := s.h.n, s.h.now
	rest := options(nil)
	if len(word) > 1 {
		rest = word[1:]
	}
	switch what {
	case "bus away":
		n.Hears(now, false)
	case "bus back":
		n.Hears(now, true)
	case "hub sleeps":
		s.asleep = true
	case "hub wakes":
		s.asleep, s.spoke = false, now
		n.Slept(now)
		n.Tick(now)
	case "hub starts again":
		s.start(len(s.h.frames))
	case "hub deposed":
		s.h.depose()
	case "hub drains":
		n.Drain(now)
	case "hub retires":
		n.Retire(now)
	case "hub full", "hub has room":
		n.Room(what == "hub has room")
	case "settings gone":
		s.error(n.Configure(now, nil))
	case "treasury keeps marks":
		s.h.sure = true
	case "treasury falls silent":
		s.h.silent = true
	case "treasury speaks", "treasury speaks, last first", "treasury speaks, unheard":
		var said []*bus.FundsReply
		for _, f := range s.h.pending {
			r := s.h.treasury(f)
			if strings.HasSuffix(what, "unheard") {
				r = &bus.FundsReply{ID: r.ID, Code: bus.CodeUnavailable}
			}
			said = append(said, r)
		}
		if strings.HasSuffix(what, "last first") {
			slices.Reverse(said)
		}
		s.h.silent, s.h.pending = false, nil
		for _, r := range said {
			s.step(r)
		}
	case "status":
		st := n.Status()
		s.say("%d agents, %d of %d slots free, %d tasks wait, room for %d", st.Agents, st.Free, st.Slots,
			st.Waiting, st.Room)
	case "wake":
		s.say("in %v", s.h.wake.Sub(now))
	case "book":
		for _, b := range s.h.replica.Balances("*") {
			if b.Amount != 0 && b.Account != "clearing:treasury" {
				s.say("%s %v", b.Account, b.Amount)
			}
		}
		s.say("%d holds open, %d tasks", s.h.replica.OpenCount(), n.Stats().Open)
		if err := n.Sound(); err != nil {
			s.t.Error(err)
		}
	default:
		switch who + " " + word[0] {
		case "nobody hears":
			s.deaf[word[1]] = true
		case "somebody hears":
			delete(s.deaf, word[1])
		case "watch " + word[0]:
			s.watch[word[0]] = true
		case "settings " + word[0]:
			s.error(n.Configure(now, word.settings()))
		case "hub starts":
			s.start(int(rest.whole("frames", 0)))
		case "hub leads":
			epoch, _ := strconv.ParseInt(word[1], 10, 64)
			s.error(n.Lead(now, epoch))
		case "treasury has":
			s.h.prepaid[word[1]] = amount(word[2])
		case "treasury says":
			pending := s.h.pending
			s.h.pending = nil
			for _, f := range pending {
				s.error(n.Step(now, &bus.FundsReply{ID: f.Request.ID, Code: bus.Code(word[1]),
					Message: "said the treasury", RetryMS: rest.whole("retry_ms", 0)}))
			}
		case "treasury recalls":
			s.step(&bus.Recall{ID: "r", Hub: rest.word("hub", "hub-math"), Client: word[1],
				Look:    word.has("look"),
				Granted: uint64(rest.whole("granted", 0)), Inbox: "treasury"})
		default:
			s.says(what, who, word[0], word[1:])
		}
	}
}

// start puts a hub in the place of the last that has read so many of its frames.
func (s *scene) start(frames int) {
	if frames < len(s.h.frames) {
		s.h.frames, s.h.replica = s.h.frames[:frames], ledger.NewBook()
		for _, f := range s.h.frames {
			s.h.must(s.h.replica.ApplyFrame(f))
		}
	}
	s.h.taken = uint64(len(s.h.back))
	s.h.restart()
	s.epoch++
	s.error(s.h.n.Lead(s.h.now, s.epoch))
}

// says lists the acts of clients and agents.
func (s *scene) says(what, who, verb string, o options) {
	hold := func() bus.Dispatch {
		d, ok := s.dispatches[o[0]]
		if !ok {
			d = bus.Dispatch{Hold: o[0]}
			if !strings.HasPrefix(o[0], "hub-") {
				d.Hold = "hub-math/" + o[0]
			}
		}
		return d
	}
	switch verb {
	case "joins":
		s.error(s.h.register(o.registration(who)))
		s.speaks[who] = !o.has("silent")
		if !s.speaks[who] {
			delete(s.speaks, who)
		}
	case "leaves":
		delete(s.speaks, who)
		s.h.leave(who)
	case "falls":
		delete(s.speaks, who)
	case "speaks":
		s.speaks[who] = true
		s.summary(who, o)
	case "says":
		delete(s.speaks, who) // its next word would be another
		s.summary(who, o)
	case "asks":
		s.step(o[1:].task(s.h, who, o[0]))
	case "cancels":
		s.step(&bus.Cancel{Client: who, Sender: o[1:].word("by", who), Task: o[0]})
	case "judges":
		q, _ := strconv.ParseFloat(o[1], 64)
		s.step(&bus.Feedback{Client: who, Sender: o[2:].word("by", who), Task: o[0], Quality: q})
	case "accepts", "refuses":
		d := hold()
		m := &bus.DispatchReply{Agent: who, Boot: d.Boot, Hold: d.Hold}
		if verb == "refuses" {
			m.Code, m.Message = bus.Code(o[1]), "said "+who
		}
		s.step(m)
	case "serves", "fails":
		s.step(o.completion(who, verb == "fails", hold()))
	default:
		s.t.Fatalf("no such event: %s", what)
	}
}

// options are the words of a line: KEY=VALUE, or KEY alone.
type options []string

func (o options) get(key string) (value string, ok bool) {
	for _, w := range o {
		if k, v, _ := strings.Cut(w, "="); k == key {
			return v, true
		}
	}
	return "", false
}

func (o options) has(key string) bool { _, ok := o.get(key); return ok }

func (o options) word(key, or string) string {
	if v, ok := o.get(key); ok {
		return v
	}
	return or
}

func (o options) whole(key string, or int64) int64 {
	if v, ok := o.get(key); ok {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", key, err))
		}
		return n
	}
	return or
}

func (o options) share(key string, or float64) float64 {
	if v, ok := o.get(key); ok {
		x, err := strconv.ParseFloat(v, 64)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", key, err))
		}
		return x
	}
	return or
}

func (o options) money(key string) *market.Credits {
	if v, ok := o.get(key); ok {
		c := amount(v)
		return &c
	}
	return nil
}

func amount(text string) market.Credits {
	c, err := market.ParseCredits(text)
	if err != nil {
		panic(err)
	}
	return c
}

func (o options) price(or market.Price) market.Price {
	if v, ok := o.get("price"); ok {
		p := strings.Split(v, "/")
		return market.Price{Miss: amount(p[0]), Hit: amount(p[1]), Out: amount(p[2])}
	}
	return or
}

func (o options) configure(c *hub.Config) {
	c.Fee = amount(o.word("fee", "0"))
	c.Settle = o.word("settle", c.Settle)
	c.Pricing = o.word("pricing", c.Pricing)
	c.Ceiling = amount(o.word("ceiling", "0"))
	c.MaxRefusals = int(o.whole("max_refusals", int64(c.MaxRefusals)))
	c.MaxAgents = int(o.whole("max_agents", int64(c.MaxAgents)))
	c.MaxWaiting = int(o.whole("max_waiting", int64(c.MaxWaiting)))
	c.MaxWaitingPerClient = int(o.whole("max_waiting_per_client", int64(c.MaxWaitingPerClient)))
	c.Batch.MaxBatch = int(o.whole("max_batch", int64(c.Batch.MaxBatch)))
	c.Batch.Eager = !o.has("window")
	c.Hedge.On = o.word("hedge", "on") == "on"
	idle, err := time.ParseDuration(o.word("account_idle", "1h")) // else every long script is full of returns
	if err != nil {
		panic(err)
	}
	c.AccountIdle = idle
}

func (o options) settings() *bus.MarketConfig {
	m := &bus.MarketConfig{Domain: o.word("domain", "math"), MaxBatch: int(o.whole("max_batch", 0)),
		Settle: o.word("settle", ""), Pricing: o.word("pricing", ""), Clarke: o.word("clarke", "")}
	if o.has("max_wait_ms") {
		m.MaxWaitMS = new(o.whole("max_wait_ms", 0))
	}
	if o.has("eager") {
		m.Eager = new(o.word("eager", "") == "yes")
	}
	return m
}

func (o options) registration(id string) bus.Registration {
	r := registration(id, o.word("model", "llama"), int(o.whole("slots", 1)), o.share("score", 0.8),
		o.price(card(1, 1, 4)))
	r.Boot = o.whole("boot", 1)
	r.MaxModelLen = int(o.whole("context", 8192))
	r.Domains[0].Domain = o.word("domain", "math")
	r.Class, r.Owner = o.word("class", ""), o.word("owner", "")
	for boot := range strings.SplitSeq(o.word("lives", ""), "+") {
		if n, err := strconv.ParseInt(boot, 10, 64); err == nil {
			r.Lives = append(r.Lives, n)
		}
	}
	if o.has("former") {
		r.Former = []int64{o.whole("former", 0)}
	}
	if o.has("features") {
		r.Features = []string{o.word("features", "")}
	}
	return r
}

func (o options) task(h *house, client, id string) *bus.Task {
	m := h.task(client, id)
	m.Terms.Worth, m.Terms.MaxPrice = o.money("worth"), o.money("max_price")
	if o.has("delta") {
		m.Terms.Delta = new(o.share("delta", 0))
	}
	if in, ok := o.get("deadline"); ok {
		d, err := time.ParseDuration(in)
		h.must(err)
		m.DeadlineMS = h.now.Add(d).UnixMilli()
	}
	m.Model, m.Failover = o.word("model", ""), o.word("failover", "")
	m.Session = o.word("session", m.Session)
	m.Body = []byte(o.word("body", string(m.Body)))
	m.Inbox, m.Door = o.word("inbox", m.Inbox), o.word("by", "door")
	if reader := o.word("reader", ""); reader != "" {
		m.Reply = bus.ReplyTo(reader, o.word("token", m.ID))
	}
	m.Stream = o.word("stream", "yes") == "yes"
	m.Attempt = int(o.whole("attempt", 0))
	m.MaxTokens = int(o.whole("max_tokens", int64(m.MaxTokens)))
	m.Prompt.Tokens = int(o.whole("prompt", int64(m.Prompt.Tokens)))
	m.Prompt.AtLeast = m.Prompt.Tokens / 4
	if o.has("media") {
		m.Prompt.Loose, m.Prompt.Text = bus.LooseMedia, int(o.whole("media", 0))
	}
	if o.has("goes_on") {
		k := int(o.whole("goes_on", 0))
		m.Attempt = int(o.whole("attempt", 1))
		m.Resume = &bus.Resume{Agent: o.word("of", ""), Seq: uint64(k), Tokens: make([]uint32, k)}
		if k > 0 {
			m.Resume.Text = "so far"
		}
	}
	return m
}

// completion is an agent's account of a hold: honest, as far as the options do not say otherwise.
func (o options) completion(agent string, failed bool, d bus.Dispatch) *bus.Completion {
	var u market.Usage
	if !failed {
		prompt, output, _ := strings.Cut(o[1], "+")
		u.Prompt, _ = strconv.Atoi(prompt)
		u.Output, _ = strconv.Atoi(output)
	}
	u.Cached = int(o.whole("cached", 0))
	c := completion(agent, d, u)
	c.Boot = o.whole("boot", 1)
	c.Finish = o.word("finish", c.Finish)
	if o.has("cost") {
		c.Cost = *o.money("cost")
	}
	if o.has("cancelled") {
		c.Outcome = bus.OutcomeCancelled
	}
	if failed {
		c.Outcome, c.Code, c.Finish = bus.OutcomeFailed, bus.Code(o.word("code", "engine_failed")), ""
		c.Unsaid, c.Relayed = o.has("unsaid"), int(o.whole("relayed", 0))
	}
	return c
}

// tell prints what the hub wants done.
func (s *scene) tell(r *hub.Ready) {
	for _, f := range r.Frames {
		var said []string
		for i := range f.Records {
			said = append(said, tellRecord(&f.Records[i]))
		}
		s.say("frame %d: %s", f.Seq, strings.Join(said, "; "))
	}
	for i := range r.Dispatches {
		d := &r.Dispatches[i]
		name := holdName(d.Hold)
		text, again := fmt.Sprintf("dispatch %s: %s/%s to %s", name, d.Task.Client, d.Task.ID,
			r.Placed[i].Agent), ""
		if _, ok := s.dispatches[name]; ok {
			again = ", again"
		}
		s.dispatches[name] = *d
		if len(d.Task.Body) == 0 {
			s.t.Errorf("dispatch %s has no body", d.Hold)
		}
		if d.Task.Attempt > 0 {
			text += fmt.Sprintf(", attempt %d after %s", d.Task.Attempt, holdNames(d.Earlier))
		}
		if d.Task.Resume != nil && len(d.Task.Resume.Tokens) > 0 {
			text += fmt.Sprintf(", %d of %d tokens on", d.MaxTokens, d.Whole)
		}
		for _, part := range []struct {
			name string
			c    market.Credits
		}{{"premium", d.Premium}, {"of it fee", d.Fee}, {"of it toll", -d.Toll - d.Own},
			{"tariff", d.Tariff}} {
			if part.c != 0 {
				text += fmt.Sprintf(", %s %v", part.name, part.c)
			}
		}
		s.say("%s%s", text, again)
	}
	for _, l := range r.Messages {
		s.message(l)
	}
	for _, f := range r.Funds {
		switch q := f.Request; {
		case f.Op == bus.OpAllotted && s.watch["treasury"]:
			s.say("treasury: which grants after %d?", q.After)
		case f.Op == bus.OpAllot && q.Ahead:
			s.say("treasury: allot %v to %s ahead of need", q.Amount, q.Client)
		case f.Op == bus.OpAllot:
			s.say("treasury: allot %v to %s, at least %v", q.Amount, q.Client, q.Least)
		case f.Op == bus.OpReturn:
			s.say("treasury: return %v of %s", q.Amount, q.Client)
		}
	}
	if st := r.Status; st != nil && s.watch["status"] {
		s.say("status %d: %d slots free, %d tasks wait, room for %d", st.Seq, st.Free, st.Waiting, st.Room)
	}
	for _, err := range r.Faults {
		s.say("fault: %v", err)
	}
}

func holdName(id string) string { return strings.TrimPrefix(id, "hub-math/") }

func holdNames(ids []string) string {
	var names []string
	for _, id := range ids {
		names = append(names, holdName(id))
	}
	return cmp.Or(strings.Join(names, " "), "none")
}

func tellRecord(r *ledger.Record) string {
	switch r.Kind {
	case ledger.KindRound:
		var awards []string
		for _, a := range r.Round.Outcome.Awards {
			awards = append(awards, fmt.Sprintf("%s>%s", a.Task, a.Agent))
		}
		return fmt.Sprintf("round %d %s", r.Round.Round.Number, strings.Join(awards, " "))
	case ledger.KindHold:
		return fmt.Sprintf("hold %d/%d of %v", r.Hold.Round, r.Hold.Slot, r.Hold.Amount)
	case ledger.KindCapture:
		text := fmt.Sprintf("capture %s: cost %v", holdName(r.Capture.Hold), r.Capture.Cost)
		if r.Capture.Outcome != bus.OutcomeDone {
			text += ", " + r.Capture.Outcome
		}
		if r.Capture.Claim != nil {
			text += ", claimed otherwise"
		}
		return text
	case ledger.KindVoid:
		return fmt.Sprintf("void %s: %s", holdName(r.Void.Hold), r.Void.Reason)
	case ledger.KindAccept:
		return fmt.Sprintf("accept %v of %s, grant %d", r.Transfer.Amount, r.Transfer.Client,
			r.Transfer.Number)
	case ledger.KindReturn:
		return fmt.Sprintf("return %v of %s", r.Transfer.Amount, r.Transfer.Client)
	case ledger.KindSeal:
		e := r.Epoch.Epoch
		return fmt.Sprintf("seal of epoch %d of %s: %d asks", e.Number, e.Class, len(e.Seals))
	case ledger.KindTariff:
		e, t := r.Epoch.Epoch, r.Epoch.Tariff
		return fmt.Sprintf("tariff of epoch %d of %s: %v to %s", e.Number, e.Class, t.Amount,
			strings.Join(t.Winners, " "))
	}
	return fmt.Sprint(r.Kind)
}

func (s *scene) message(l hub.Message) {
	to := strings.TrimPrefix(strings.TrimPrefix(l.Subject, "inbox."), "souk.v1.")
	result := func(r *bus.Result) {
		again := ""
		if r.RetryMS > 0 {
			again = fmt.Sprintf(" (again in %v)", time.Duration(r.RetryMS)*time.Millisecond)
		}
		s.say("to %s: %s: %s%s", to, r.Code, r.Message, again)
	}
	switch m := l.Body.(type) {
	case *bus.Answer:
		if m.Accepted == nil {
			result(m.Result)
			return
		}
		s.say("to %s: accepted by %s", to, m.Accepted.Agent)
	case *bus.Chunk:
		switch {
		case m.Result != nil:
			result(m.Result)
		case m.Dead:
			s.say("to %s: attempt %d: %s is dead", to, m.Attempt, m.Agent)
		case m.Agent != "":
			s.say("to %s: heartbeat, attempt %d is with %s", to, m.Attempt, m.Agent)
		default:
			s.say("to %s: heartbeat, attempt %d waits", to, m.Attempt)
		}
	case *bus.CompletionAck:
		s.say("ack %s %s", holdName(m.Hold), cmp.Or(string(m.Code), "settled"))
	case *bus.HoldControl:
		verb := "withdraw"
		switch {
		case m.Cancel:
			verb = "cancel"
		case m.Late:
			verb = "give up"
		}
		if name := holdName(m.Hold); !m.Withdraw {
			s.say("to %s: %s %s", to, verb, name)
		} else if s.withdrawn[name]++; s.withdrawn[name] <= 2 { // then each second
			s.say("to %s: %s %s%s", to, verb, name, []string{"", ", again and again"}[s.withdrawn[name]-1])
		}
	case *bus.RecallReply:
		s.say("to %s: %s has %v, %v of it reserved, and %v held; grants to %d, returns to %d", to, m.Client,
			m.Avail, m.Reserved, m.Held, m.Accepted, m.Returned)
	case *bus.Call:
		s.say("to %s: call for the asks of %s, epoch %d, open %v", to, m.Class, m.Epoch, m.Open)
	default:
		s.t.Fatalf("a %T to %s", l.Body, to)
	}
}
