package main

import (
	"cmp"
	"slices"

	"souk/integration/lab/traces"
)

// chains reads a trace that says of each request which blocks its prompt consists of, and not what text: all
// sessions of one that is timed, else those of several turns with the smallest hash of their id.
func chains(file string, n int) ([]traces.Chain, error) {
	t, err := traces.ReadFile(file, "")
	if err != nil {
		return nil, err
	}
	if t.Timed {
		return t.Chains, nil
	}
	all := slices.DeleteFunc(t.Chains, func(c traces.Chain) bool { return len(c.Turns) < 2 })
	slices.SortFunc(all, func(a, b traces.Chain) int { return cmp.Compare(hash(a.ID), hash(b.ID)) })
	return all[:min(n, len(all))], nil
}
