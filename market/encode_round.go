package market

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"
)

// The canonical bytes of a round. ± marks an integer that may be negative.
//
//	version   1 byte
//	domain, number, hash of the previous round (32 bytes)
//	rule      1 byte: twice its number, and 1 if a task has a wait; of number 0, three strings follow;
//	          instead, a string
//	fee ±
//	tasks     list of: id string; twice (0 if the client is what the id has before its first "/", else 1 and
//	          the length of the client's name, which follows) and 1 if it has a wait
//	agents    list of: id string; list of tiers: slots ±, toll ±
//	names     where a task has a wait: list of those waited for that are not among the agents, ascending
//	waits     of the tasks that have one: place of the agent, names after agents; loss ± less its sum;
//	          time ±; value ±; cost ±; toll ±; charge ±; price ±; how many rounds ago; what is missing
//	          from a full share
//	edges     list of: task ± less the edge's before; agent ±; value ±; cost ±; toll ±
//	others    the same
//	pruned    tasks ±, edges ±, waiting ±, beyond ±
//	parts     of the tolls: list of: load ±, age ±, running beside others ±
//	sellers   list of: owner, class strings; tariff ±

// waits reports whether some task has a wait.
func (r *Round) waits() bool {
	return slices.ContainsFunc(r.Tasks, func(t Task) bool { return t.Wait != nil })
}

// Crowded reports whether a round and its outcome, given as canonical bytes, name a slot price or a wait. It
// reads little more than it must. For bytes that are not canonical the result means nothing.
func Crowded(round, outcome []byte) bool {
	d := decode(outcome)
	d.Byte() // version
	for n := d.Uvarint(); n > 0 && d.Fault == ""; n-- {
		d.Sized()
		d.Sized()
		for range 6 {
			d.Uvarint()
		}
	}
	if d.Uvarint() > 0 {
		return true
	}
	d = decode(round)
	d.Byte()  // version
	d.Sized() // domain
	d.Uvarint()
	d.Bytes(uint64(len(Round{}.Prev)))
	return d.Byte()&headWaits != 0
}

// The first byte of a rule.
const (
	headWaits  = 1
	headNumber = 2
)

// rules lists the rules by their number in a record, counted from 1.
var rules = func() (all []Rule) {
	for _, pricing := range []string{PricingVCG, PricingTariff, PricingPosted} {
		for _, settle := range []string{SettleMetered, SettleQuoted} {
			for _, clarke := range []string{ClarkeTask, ClarkeClient} {
				all = append(all, Rule{Pricing: pricing, Settle: settle, Clarke: clarke})
			}
		}
	}
	return all
}()

// number finds a rule's number in a record, whatever the rule stands in for; 0: it has none.
func (r Rule) number() byte {
	r.Instead = ""
	return byte(1 + slices.Index(rules, r))
}

// prefixed reports whether the client is what the id has before its first "/", as in a hub's tasks.
func (t *Task) prefixed() bool {
	before, _, ok := strings.Cut(string(t.ID), "/")
	return ok && before == t.Client
}

// AppendCanonical appends the round's canonical bytes to b.
func (r *Round) AppendCanonical(b []byte) []byte {
	b = append(b, roundVersion)
	b = appendString(b, r.Domain)
	b = binary.AppendUvarint(b, r.Number)
	b = append(b, r.Prev[:]...)
	n, waits := r.Rule.number(), r.waits()
	head := headNumber * n
	if waits {
		head |= headWaits
	}
	if b = append(b, head); n == 0 {
		b = appendString(appendString(appendString(b, r.Rule.Pricing), r.Rule.Settle), r.Rule.Clarke)
	}
	b = appendString(b, r.Rule.Instead)
	b = binary.AppendVarint(b, int64(r.Fee))
	b = appendCount(b, len(r.Tasks))
	for i := range r.Tasks {
		t := &r.Tasks[i]
		b = appendString(b, string(t.ID))
		head := uint64(0)
		if t.Wait != nil {
			head = 1
		}
		if t.prefixed() {
			b = binary.AppendUvarint(b, head)
		} else {
			b = append(binary.AppendUvarint(b, head+2*uint64(1+len(t.Client))), t.Client...)
		}
	}
	b = appendCount(b, len(r.Agents))
	for _, a := range r.Agents {
		b = appendString(b, string(a.Agent))
		b = appendCount(b, len(a.Tiers))
		for _, t := range a.Tiers {
			b = appendInts(b, int64(t.Slots), int64(t.Toll))
		}
	}
	if waits {
		b = r.appendWaits(b)
	}
	b = appendEdges(appendEdges(b, r.Edges), r.Others)
	b = appendInts(b, int64(r.Pruned.Tasks), int64(r.Pruned.Edges), int64(r.Pruned.Waiting),
		int64(r.Pruned.Beyond))
	b = appendCount(b, len(r.Parts))
	for _, t := range r.Parts {
		b = appendInts(b, int64(t.Load), int64(t.Age), int64(t.Beside))
	}
	b = appendCount(b, len(r.Sellers))
	for _, s := range r.Sellers {
		b = binary.AppendVarint(appendString(appendString(b, s.Owner), s.Class), int64(s.Tariff))
	}
	return b
}

func (r *Round) appendWaits(b []byte) []byte {
	var names []AgentID
	for _, t := range r.Tasks {
		if t.Wait == nil {
			continue
		}
		if _, ok := r.place(t.Wait.Agent); !ok {
			names = append(names, t.Wait.Agent)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	b = appendCount(b, len(names))
	for _, name := range names {
		b = appendString(b, string(name))
	}
	for _, t := range r.Tasks {
		w := t.Wait
		if w == nil {
			continue
		}
		at, ok := r.place(w.Agent)
		if !ok {
			at, _ = slices.BinarySearch(names, w.Agent)
			at += len(r.Agents)
		}
		b = appendCount(b, at)
		b = appendInts(b, int64(w.Loss-w.Sum(r.Fee)), int64(w.Time), int64(w.Value), int64(w.Cost),
			int64(w.Toll), int64(w.Charge), int64(w.Price))
		b = binary.AppendUvarint(b, r.Number-w.Round)
		b = binary.AppendUvarint(b, uint64(FullShare-w.Share)) // both of 32 bits
	}
	return b
}

// place finds an agent of the round.
func (r *Round) place(id AgentID) (int, bool) {
	return slices.BinarySearchFunc(r.Agents, id,
		func(s Supply, id AgentID) int { return cmp.Compare(s.Agent, id) })
}

func appendEdges(b []byte, edges []Edge) []byte {
	b = appendCount(b, len(edges))
	before := 0
	for _, e := range edges {
		b = appendInts(b, int64(e.Task-before), int64(e.Agent), int64(e.Value), int64(e.Cost), int64(e.Toll))
		before = e.Task
	}
	return b
}

// DecodeRound reads what [Round.AppendCanonical] wrote. It judges only the form; [Round.Validate] judges the
// content. Lists that are empty come back nil. Errors are ErrEncoding.
func DecodeRound(data []byte) (Round, error) {
	d := decode(data)
	d.Version(roundVersion)
	r := Round{Domain: d.Text(), Number: d.Uvarint()}
	d.Fill(r.Prev[:])
	head := d.Byte()
	switch n := head / headNumber; {
	case n == 0:
		r.Rule = Rule{Pricing: d.Text(), Settle: d.Text(), Clarke: d.Text()}
		if r.Rule.number() != 0 {
			d.Fail("a rule that has a number")
		}
	case int(n) <= len(rules):
		r.Rule = rules[n-1]
	default:
		d.Fail("unknown number of a rule")
	}
	r.Rule.Instead = d.Text()
	r.Fee = d.Credits()
	r.Tasks = decodeList(d, 2, func() Task {
		t := Task{ID: TaskID(d.Text())}
		n := d.Uvarint()
		if n&1 != 0 {
			t.Wait = new(Wait)
		}
		if n /= 2; n == 0 {
			t.Client, _, _ = strings.Cut(string(t.ID), "/")
		} else {
			t.Client = string(d.Bytes(n - 1))
		}
		if t.prefixed() != (n == 0) {
			d.Fail("a client not said in the shortest way")
		}
		return t
	})
	r.Agents = decodeList(d, 2, func() Supply {
		return Supply{
			Agent: AgentID(d.Text()),
			Tiers: decodeList(d, 2, func() Tier { return Tier{Slots: d.Int(), Toll: d.Credits()} }),
		}
	})
	waits := r.waits()
	if waits != (head&headWaits != 0) {
		d.Fail("whether a task has a wait, and not what the tasks say")
	}
	if waits {
		d.waits(&r)
	}
	r.Edges, r.Others = d.edges(), d.edges()
	r.Pruned = Pruned{Tasks: d.Int(), Edges: d.Int(), Waiting: d.Int(), Beyond: d.Int()}
	r.Parts = decodeList(d, 3,
		func() Toll { return Toll{Load: d.Credits(), Age: d.Credits(), Beside: d.Credits()} })
	r.Sellers = decodeList(d, 3,
		func() Seller { return Seller{Owner: d.Text(), Class: d.Text(), Tariff: d.Credits()} })
	return r, d.end("round")
}

func (d *decoder) waits(r *Round) {
	names := decodeList(d, 1, func() AgentID { return AgentID(d.Text()) })
	for i, name := range names {
		if _, ok := r.place(name); ok || i > 0 && name <= names[i-1] {
			d.Fail("agents waited for: one that is in the round, or out of order")
			return
		}
	}
	used := make([]bool, len(names))
	for i := range r.Tasks {
		w := r.Tasks[i].Wait
		if w == nil || d.Fault != "" {
			continue
		}
		at := d.Uvarint()
		switch agents := uint64(len(r.Agents)); {
		case at < agents:
			w.Agent = r.Agents[at].Agent
			if i, _ := r.place(w.Agent); i != int(at) {
				d.Fail("an agent waited for that stands twice in the round")
			}
		case at-agents < uint64(len(names)):
			w.Agent, used[at-agents] = names[at-agents], true
		default:
			d.Fail("an agent waited for that is not there")
		}
		loss := d.Credits()
		w.Time, w.Value, w.Cost = time.Duration(d.Varint()), d.Credits(), d.Credits()
		w.Toll, w.Charge, w.Price = d.Credits(), d.Credits(), d.Credits()
		w.Round = r.Number - d.Uvarint()
		missing := d.Uvarint()
		if missing > math.MaxUint32 {
			d.Fail("a share beyond 32 bits")
		}
		w.Share = FullShare - uint32(missing)
		w.Loss = loss + w.Sum(r.Fee)
	}
	if d.Fault == "" && slices.Contains(used, false) {
		d.Fail("a name that nobody waits for")
	}
}

func (d *decoder) edges() []Edge {
	before := 0
	return decodeList(d, 5, func() Edge {
		before += d.Int()
		return Edge{Task: before, Agent: d.Int(), Value: d.Credits(), Cost: d.Credits(), Toll: d.Credits()}
	})
}
