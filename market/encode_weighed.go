package market

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"
)

// Version 3 of a round is used for crowded rounds. It also takes fewer bytes for what versions 1 and 2 say.
// After the hash of the previous round it has the following; ± marks an integer that may be negative.
//
//	rule      1 byte: four times its number, 2 if a task has a wait, and 1 if more follows at the end; of
//	          number 0, three strings follow
//	fee ±
//	tasks     list of: id string; twice (0 if the client is what the id has before its first "/", else 1 and
//	          the length of the client's name, which follows) and 1 if it has a wait
//	agents    as in version 1
//	names     where a task has a wait: list of those waited for that are not among the agents, ascending
//	waits     of the tasks that have one: place of the agent, names after agents; loss ± less its sum;
//	          time ±; value ±; cost ±; toll ±; charge ±; price ±; how many rounds ago; what is missing
//	          from a full share
//	edges     list of: task ± less the edge's before; agent ±; value ±; cost ±; toll ±
//	others    the same
//	pruned    tasks ±, edges ±, waiting ±, beyond ±
//	parts     of the tolls: list of: line ±, age ±, load ±
//	more      instead, sellers, bundles, as in version 2

// weighed reports whether the round says what only version 3 can.
func (r *Round) weighed() bool {
	return len(r.Others) > 0 || len(r.Parts) > 0 || r.Pruned != Pruned{} || r.waits()
}

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
	if d = decode(round); d.Byte() != roundWeighed {
		return false
	}
	d.Sized() // domain
	d.Uvarint()
	d.Bytes(uint64(len(Round{}.Prev)))
	return d.Byte()&headWaits != 0
}

// The first byte of a rule in version 3.
const (
	headMore   = 1
	headWaits  = 2
	headNumber = 4
)

var rulePricings = [...]string{PricingVCG, PricingTariff, PricingPosted}

// number is 1 to 12 for a rule that has a number, else 0.
func (r Rule) number() byte {
	p := slices.Index(rulePricings[:], r.Pricing)
	if p < 0 || r.Settle != SettleMetered && r.Settle != SettleQuoted ||
		r.Clarke != ClarkeTask && r.Clarke != ClarkeClient {
		return 0
	}
	n := byte(1 + 4*p)
	if r.Settle == SettleQuoted {
		n += 2
	}
	if r.Clarke == ClarkeClient {
		n++
	}
	return n
}

// numbered is the rule with a number from 1 to 12.
func numbered(n byte) Rule {
	r := Rule{Pricing: rulePricings[(n-1)/4], Settle: SettleMetered, Clarke: ClarkeTask}
	if (n-1)&2 != 0 {
		r.Settle = SettleQuoted
	}
	if (n-1)&1 != 0 {
		r.Clarke = ClarkeClient
	}
	return r
}

// prefixed reports whether the client is what the id has before its first "/", as in a hub's tasks.
func (t *Task) prefixed() bool {
	before, _, ok := strings.Cut(string(t.ID), "/")
	return ok && before == t.Client
}

func (r *Round) hasMore() bool {
	return r.Rule.Instead != "" || len(r.Sellers) > 0 || len(r.Bundles) > 0
}

func (r *Round) appendWeighed(b []byte) []byte {
	n, more, waits := r.Rule.number(), r.hasMore(), r.waits()
	head := headNumber * n
	if more {
		head |= headMore
	}
	if waits {
		head |= headWaits
	}
	if b = append(b, head); n == 0 {
		b = appendString(appendString(appendString(b, r.Rule.Pricing), r.Rule.Settle), r.Rule.Clarke)
	}
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
	b = appendSupplies(b, r.Agents)
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
	if more {
		b = r.appendMore(b)
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

// weighed reads what version 3 has after the hash of the previous round.
func (d *decoder) weighed(r *Round) {
	head := d.Byte()
	switch n := head / headNumber; {
	case n == 0:
		r.Rule = Rule{Pricing: d.Text(), Settle: d.Text(), Clarke: d.Text()}
		if r.Rule.number() != 0 {
			d.Fail("a rule that has a number")
		}
	case n <= 12:
		r.Rule = numbered(n)
	default:
		d.Fail("unknown number of a rule")
	}
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
	r.Agents = d.supplies()
	if r.waits() {
		d.waits(r)
	}
	r.Edges, r.Others = d.edges(), d.edges()
	r.Pruned = Pruned{Tasks: d.Int(), Edges: d.Int(), Waiting: d.Int(), Beyond: d.Int()}
	r.Parts = decodeList(d, 3,
		func() Toll { return Toll{Load: d.Credits(), Age: d.Credits(), Beside: d.Credits()} })
	if head&headMore != 0 {
		d.more(r)
	}
	if d.Fault == "" && (r.hasMore() != (head&headMore != 0) || r.waits() != (head&headWaits != 0) ||
		!r.weighed()) {
		d.Fail("version 3 of a round that an earlier one can say")
	}
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
