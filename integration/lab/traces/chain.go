package traces

import (
	"fmt"
	"iter"
)

// Chain is a session of a trace that says which blocks its prompts consist of, and not what text.
type Chain struct {
	ID    string `json:"id"`
	Block int    `json:"block"`           // tokens
	Timed bool   `json:"timed,omitempty"` // blocks are the same in all sessions of the trace
	// of each turn: milliseconds (where Timed, since the trace began; else between the answer before and the
	// question), tokens of prompt and answer, and the numbers of its blocks, as first and count
	Turns [][]int `json:"turns"`
}

// Blocks are the places and numbers of the blocks of a turn's prompt.
func (c *Chain) Blocks(turn int) iter.Seq2[int, int] {
	return func(yield func(at, id int) bool) {
		at := 0
		for ranges := c.Turns[turn][3:]; len(ranges) > 0; ranges = ranges[2:] {
			for i := range ranges[1] {
				if !yield(at, ranges[0]+i) {
					return
				}
				at++
			}
		}
	}
}

// Chains returns the sessions of one of the files of this package.
func Chains(file string) ([]Chain, error) {
	all, err := bundled[Chain](file)
	for _, c := range all {
		for i, t := range c.Turns {
			if len(t) < 5 || len(t)%2 == 0 || c.Block < 1 {
				return nil, fmt.Errorf("%s: turn %d of session %s: %d numbers", file, i, c.ID, len(t))
			}
		}
	}
	return all, err
}
