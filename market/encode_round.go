package market

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"time"
)

// The canonical bytes of a round. ± marks an integer that may be negative.
//
//	version   1 byte
//	domain, number, hash of the previous round (32 bytes)
//	rule      1 byte: its number; of number 0, three strings follow; instead, a string
//	fee ±
//	tasks     list of: id string; 0 if the client is what the id has before its first "/", else 1 and the
//	          length of the client's name, which follows; second ±; turn ±; within ±
//	agents    list of: id string; list of seats: twice slots, and 1 if they are to come; in ±
//	edges     list of: task ± less the edge's before; agent ±; value ±; cost ±; toll ±; own ±
//	others    the same
//	pruned    tasks ±, edges ±, planned ±, beyond ±
//	sellers   list of: owner, class strings; tariff ±

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
	n := r.Rule.number()
	if b = append(b, n); n == 0 {
		b = appendString(appendString(appendString(b, r.Rule.Pricing), r.Rule.Settle), r.Rule.Clarke)
	}
	b = appendString(b, r.Rule.Instead)
	b = binary.AppendVarint(b, int64(r.Fee))
	b = appendCount(b, len(r.Tasks))
	for i := range r.Tasks {
		t := &r.Tasks[i]
		b = appendString(b, string(t.ID))
		if t.prefixed() {
			b = append(b, 0)
		} else {
			b = append(binary.AppendUvarint(b, uint64(1+len(t.Client))), t.Client...)
		}
		b = appendInts(b, int64(t.Second), int64(t.Turn), int64(t.Within))
	}
	b = appendCount(b, len(r.Agents))
	for _, a := range r.Agents {
		b = appendString(b, string(a.Agent))
		b = appendCount(b, len(a.Seats))
		for _, s := range a.Seats {
			slots := 2 * int64(s.Slots)
			if s.Later {
				slots++
			}
			b = appendInts(b, slots, int64(s.In))
		}
	}
	b = appendEdges(appendEdges(b, r.Edges), r.Others)
	b = appendInts(b, int64(r.Pruned.Tasks), int64(r.Pruned.Edges), int64(r.Pruned.Planned),
		int64(r.Pruned.Beyond))
	b = appendCount(b, len(r.Sellers))
	for _, s := range r.Sellers {
		b = binary.AppendVarint(appendString(appendString(b, s.Owner), s.Class), int64(s.Tariff))
	}
	return b
}

// place finds an agent of the round.
func (r *Round) place(id AgentID) (int, bool) {
	at, end := 0, len(r.Agents)
	for at < end {
		if k := (at + end) / 2; r.Agents[k].Agent < id {
			at = k + 1
		} else {
			end = k
		}
	}
	return at, at < len(r.Agents) && r.Agents[at].Agent == id
}

func appendEdges(b []byte, edges []Edge) []byte {
	b = appendCount(b, len(edges))
	before := 0
	for _, e := range edges {
		b = appendInts(b, int64(e.Task-before), int64(e.Agent), int64(e.Value), int64(e.Cost), int64(e.Toll),
			int64(e.Own))
		before = e.Task
	}
	return b
}

// DecodeRound reads what [Round.AppendCanonical] wrote. It judges only the form; [Round.Validate] judges the
// content. Lists that are empty come back nil. Errors are ErrEncoding.
func DecodeRound(data []byte) (Round, error) {
	var r Round
	err := r.Decode(data, nil)
	return r, err
}

// Decode is [DecodeRound] into a round whose memory is used again, with strings of s, which may be nil.
func (r *Round) Decode(data []byte, s *Strings) error {
	d := decode(data)
	d.Strings = s
	d.Version(roundVersion)
	r.Domain, r.Number = d.Name(), d.Uvarint()
	d.Fill(r.Prev[:])
	switch n := d.Byte(); {
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
	r.Rule.Instead = d.Name()
	r.Fee = d.Credits()
	r.Tasks = decodeList(d, r.Tasks, 5, func(t *Task) {
		id := d.Sized()
		*t = Task{ID: TaskID(d.Strings.Text(id))}
		before, _, prefixed := bytes.Cut(id, []byte{'/'})
		if n := d.Uvarint(); n == 0 {
			t.Client = d.Strings.Name(before)
		} else {
			t.Client = d.Strings.Name(d.Bytes(n - 1))
			prefixed = !prefixed || t.Client != string(before)
		}
		if !prefixed {
			d.Fail("a client not said in the shortest way")
		}
		var more [3]int64
		d.Varints(more[:])
		t.Second, t.Turn, t.Within = Credits(more[0]), int(more[1]), time.Duration(more[2])
	})
	r.Agents = decodeList(d, r.Agents, 2, func(a *Supply) {
		if id := d.Sized(); string(a.Agent) != string(id) { // it may be that already, from the last time
			a.Agent = AgentID(d.Strings.Name(id))
		}
		a.Seats = decodeList(d, a.Seats, 2, func(s *Seat) {
			slots := d.Varint()
			*s = Seat{Slots: int(slots >> 1), Later: slots&1 != 0, In: time.Duration(d.Varint())}
		})
	})
	r.Edges = d.edges(r.Edges)
	r.Others = d.edges(r.Others)
	r.Pruned = Pruned{Tasks: d.Int(), Edges: d.Int(), Planned: d.Int(), Beyond: d.Int()}
	r.Sellers = decodeList(d, r.Sellers, 3,
		func(s *Seller) { *s = Seller{Owner: d.Name(), Class: d.Name(), Tariff: d.Credits()} })
	return d.end("round")
}

func (d *decoder) edges(list []Edge) []Edge {
	before := 0
	return decodeList(d, list, 6, func(e *Edge) {
		var n [6]int64
		d.Varints(n[:])
		before += int(n[0])
		*e = Edge{Task: before, Agent: int(n[1]), Value: Credits(n[2]), Cost: Credits(n[3]),
			Toll: Credits(n[4]), Own: Credits(n[5])}
	})
}
