package round

import (
	"cmp"
	"slices"
)

// Fit says who of those that wait, by arrival, are in a round of at most so many, and who are left out. Of
// the client with most of them the newest is left out, in turn: how many one has waiting takes nothing from
// those who have few, and no bid decides.
func Fit[T any](all []T, client func(T) string, most int) (in, out []T) {
	if len(all) <= most {
		return all, nil
	}
	counts, nth, order := map[string]int{}, make([]int, len(all)), make([]int, len(all))
	for i, t := range all {
		c := client(t)
		nth[i], order[i] = counts[c], i
		counts[c]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(nth[a], nth[b]) })
	slices.Sort(order[:most])
	for _, i := range order {
		out = append(out, all[i])
	}
	return out[:most:most], out[most:]
}
