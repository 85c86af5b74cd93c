package market

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Sort brings a round into canonical order: tasks and agents by id, edges by (task, agent), their indices
// rewritten. It leaves edges whose indices are out of range to [Round.Validate].
func (r *Round) Sort() {
	task := sortTasks(r.Tasks)
	var moved [2 * few]int // most rounds are of one task, and need no memory
	agent := sortIndexed(moved[:], r.Agents, func(a, b *Supply) int { return cmp.Compare(a.Agent, b.Agent) })
	r.Sellers = follow(r.Sellers, agent)
	for _, edges := range [2][]Edge{r.Edges, r.Others} {
		for i := range edges {
			e := &edges[i]
			if task != nil && e.Task >= 0 && e.Task < len(task) {
				e.Task = task[e.Task]
			}
			if agent != nil && e.Agent >= 0 && e.Agent < len(agent) {
				e.Agent = agent[e.Agent]
			}
		}
	}
	sortEdges(moved[:], r.Edges, len(r.Tasks))
	sortEdges(moved[:], r.Others, len(r.Tasks))
}

// few bounds the lists that are sorted by insertion.
const few = 8

// sortTasks is sortIndexed of tasks by id. Ids have much in common, so they are compared as numbers, made of
// the eight bytes after what all of them begin with; as text only where those are the same.
func sortTasks(tasks []Task) []int {
	if slices.IsSortedFunc(tasks, func(a, b Task) int { return cmp.Compare(a.ID, b.ID) }) {
		return nil
	}
	common := len(tasks[0].ID)
	for i := range tasks {
		id := tasks[i].ID[:min(len(tasks[i].ID), common)]
		for common = 0; common < len(id) && id[common] == tasks[0].ID[common]; {
			common++
		}
	}
	type item struct {
		key uint64
		at  int
	}
	items, order := make([]item, len(tasks)), make([]int, len(tasks))
	for i := range tasks {
		var next [8]byte
		copy(next[:], tasks[i].ID[common:])
		items[i] = item{binary.BigEndian.Uint64(next[:]), i}
	}
	slices.SortFunc(items, func(a, b item) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		return cmp.Or(cmp.Compare(tasks[a.at].ID, tasks[b.at].ID), a.at-b.at)
	})
	for i := range items {
		order[i] = items[i].at
	}
	return move(tasks, order)
}

// sortEdges is sortIndexed of edges. They come task by task, so each finds its place by its task, and few
// have to be compared.
func sortEdges(moved []int, edges []Edge, tasks int) []int {
	if len(edges) <= few {
		return sortIndexed(moved, edges, comparedEdges)
	}
	if slices.IsSortedFunc(edges, compareEdges) {
		return nil
	}
	first := make([]int, tasks+1) // where the edges of each task begin
	for i := range edges {
		if uint(edges[i].Task) >= uint(tasks) {
			return sortIndexed(moved, edges, comparedEdges)
		}
		first[edges[i].Task+1]++
	}
	for t := range tasks {
		first[t+1] += first[t]
	}
	order := make([]int, len(edges))
	for i := range edges {
		at := &first[edges[i].Task]
		order[*at] = i
		*at++
	}
	for from := 0; from < len(order); {
		to := first[edges[order[from]].Task] // by now, where they end
		slices.SortStableFunc(order[from:to],
			func(a, b int) int { return cmp.Compare(edges[a].Agent, edges[b].Agent) })
		from = to
	}
	return move(edges, order)
}

// follow reorders a list like another that was sorted: the item at index i goes to moved[i].
func follow[T any](beside []T, moved []int) []T {
	if moved == nil || len(beside) != len(moved) {
		return beside
	}
	out := make([]T, len(beside))
	for from, to := range moved {
		out[to] = beside[from]
	}
	return out
}

func compareEdges(a, b Edge) int {
	if c := cmp.Compare(a.Task, b.Task); c != 0 {
		return c
	}
	return cmp.Compare(a.Agent, b.Agent)
}

func comparedEdges(a, b *Edge) int { return compareEdges(*a, *b) }

// sortIndexed sorts s, equals as they stand, and returns where each old index went, or nil if nothing moved.
// Where s is short, what it returns is in the memory of moved.
func sortIndexed[T any](moved []int, s []T, compare func(a, b *T) int) []int {
	sorted := 1
	for sorted < len(s) && compare(&s[sorted-1], &s[sorted]) <= 0 {
		sorted++
	}
	if sorted >= len(s) {
		return nil
	}
	if len(s) > few {
		order := make([]int, len(s))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return cmp.Or(compare(&s[a], &s[b]), a-b) })
		return move(s, order)
	}
	moved, order := moved[:len(s)], moved[few:few+len(s)]
	for i := range order {
		order[i] = i
		for k := i; k > 0 && compare(&s[k], &s[k-1]) < 0; k-- {
			s[k], s[k-1], order[k], order[k-1] = s[k-1], s[k], order[k-1], order[k]
		}
	}
	for to, from := range order {
		moved[from] = to
	}
	return moved
}

// move brings s into an order, and returns where each old index went.
func move[T any](s []T, order []int) []int {
	sorted, moved := make([]T, len(s)), make([]int, len(s))
	for to, from := range order {
		sorted[to], moved[from] = s[from], to
	}
	copy(s, sorted)
	return moved
}
