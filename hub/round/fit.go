package round

import "slices"

// Fit says which of those who wait are in a round of at most so many, where their clients are given by
// arrival; nil: all. Of the client with most of them the newest is left out, in turn: how many one has
// waiting takes nothing from those who have few, and no bid decides.
func Fit(clients []string, most int) []bool {
	if len(clients) <= most {
		return nil
	}
	counts := map[string]int{}
	for _, c := range clients {
		counts[c]++
	}
	sizes := make([]int, 0, len(counts))
	for _, n := range counts {
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	// each client has so many at most; as many more as are left are of those who came first
	each, left := 0, max(0, most)
	for i, n := range sizes {
		among := len(sizes) - i
		if rise := min(n-each, left/among); rise > 0 {
			each, left = each+rise, left-rise*among
		}
		if each < n {
			break
		}
	}
	in := make([]bool, len(clients))
	clear(counts)
	for i, c := range clients {
		counts[c]++
		switch n := counts[c]; {
		case n <= each:
			in[i] = true
		case n == each+1 && left > 0:
			in[i], left = true, left-1
		}
	}
	return in
}
