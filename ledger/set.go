package ledger

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"souk/market"
)

// Set is a runtime policy's decision on a task and an agent, made before any bid was read.
type Set struct {
	Policy string
	Task   string // market.TaskID
	Agent  string
	Toll   market.Credits // part of the edge's, below 0; 0: the task may not go there
}

// String puts it into words.
func (s Set) String() string {
	if s.Toll == 0 {
		return fmt.Sprintf("policy %s: not on %s", s.Policy, s.Agent)
	}
	return fmt.Sprintf("policy %s: toll %s on %s", s.Policy, s.Toll, s.Agent)
}

// CompareSets orders them as a journal has them.
func CompareSets(a, b Set) int {
	return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Policy, b.Policy))
}

// A round's list of Set is of: task, agent, policy strings; toll ±.
func appendSets(b []byte, all []Set) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		b = binary.AppendVarint(appendStrings(b, all[i].Task, all[i].Agent, all[i].Policy),
			int64(all[i].Toll))
	}
	return b
}

func (d *decoder) sets() []Set {
	n := d.Count(4)
	if n == 0 {
		return nil
	}
	all := make([]Set, n)
	for i := range all {
		s := Set{Task: d.Text(), Agent: d.Name(), Policy: d.Name(), Toll: d.Credits()}
		switch {
		case s.Toll > 0:
			d.Fail("a policy's toll above 0")
		case i > 0 && CompareSets(all[i-1], s) >= 0:
			d.Fail("what policies set is not in order")
		}
		if d.Fault != "" {
			return nil
		}
		all[i] = s
	}
	return all
}

// judge says what is wrong with what policies are said to have set in a round.
func (s Set) judge(r *market.Round) string {
	i, ok := slices.BinarySearchFunc(r.Edges, s, func(e market.Edge, s Set) int {
		return cmp.Or(cmp.Compare(string(r.Tasks[e.Task].ID), s.Task),
			cmp.Compare(string(r.Agents[e.Agent].Agent), s.Agent))
	})
	switch {
	case ok && s.Toll == 0:
		return "the task was offered a slot there"
	case ok && r.Edges[i].Toll > s.Toll:
		return fmt.Sprintf("the toll there is %s in all", r.Edges[i].Toll)
	}
	return ""
}
