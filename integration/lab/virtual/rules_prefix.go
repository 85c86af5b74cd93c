package virtual

import "time"

// Those that go by what engines hold of a prompt.

// twoBlock returns the engines with the longest prefix, if that has two blocks or more; else any engine that
// fits.
func twoBlock(r *Request, v *View) []int {
	longest, blocks := v.Longest(r)
	if blocks < 2 {
		return v.Able()
	}
	return longest
}

func init() {
	atOnce("two-block", "longest prefix where it is two blocks or more, else the least loaded", "",
		func(c *choice, r *Request, v *View) int { return c.Least(twoBlock(r, v), v.Load) })
	atOnce("by-seconds", "where its first token comes soonest: uncached tokens, and those of prompts sent before",
		"", func(c *choice, r *Request, v *View) int {
			return c.Least(v.Able(), func(i int) float64 {
				return float64(v.Engines[i].Ahead+v.Cold(i, r)) * v.Engines[i].Profile.Prefill
			})
		})
	atOnce("by-work", "the same, but its own uncached tokens count four times: others wait behind it", "",
		func(c *choice, r *Request, v *View) int {
			return c.Least(v.Able(), func(i int) float64 {
				return float64(v.Engines[i].Ahead+4*v.Cold(i, r)) * v.Engines[i].Profile.Prefill
			})
		})
	atOnce("sticky-until-saturated", "four fifths of the prefix, unless all who hold it are 18 s behind",
		"llm-d", stickyUntilSaturated)
	atOnce("sglang", "longest prefix beyond 0.3 of the prompt, else the smallest tree; least loaded out of balance",
		"SGLang router", sglang)
	atOnce("lmetric", "least uncached tokens x (in flight + 1)", "LMETRIC",
		func(c *choice, r *Request, v *View) int {
			return c.Least(v.Able(), func(i int) float64 {
				return float64(v.Cold(i, r) * (v.Engines[i].InFlight + 1))
			})
		})
}

const (
	stickyShare     = 0.8
	stickySaturated = 18 * time.Second
)

func stickyUntilSaturated(c *choice, r *Request, v *View) int {
	ttft := func(i int) float64 { return float64(v.Engines[i].Tokens) * v.Engines[i].Profile.Prefill / 1e6 }
	tokens := func(i int) float64 { return float64(v.Engines[i].Tokens) }
	var warm, others []int
	for _, i := range v.Able() {
		if float64(v.Match(i, r)) >= stickyShare*float64(max(1, v.Need(r))) {
			warm = append(warm, i)
		} else {
			others = append(others, i)
		}
	}
	if len(warm) > 0 && len(others) > 0 {
		behind := ttft(c.Least(warm, ttft)) - ttft(c.Least(others, ttft))
		if behind > stickySaturated.Seconds() {
			warm = nil
		}
	}
	if warm == nil {
		warm = v.Able()
	}
	return c.Least(warm, tokens)
}

const (
	sglangShare = 0.3
	sglangGap   = 64
	sglangRatio = 1.5
)

func sglang(c *choice, r *Request, v *View) int {
	lowest, highest := v.Engines[0].InFlight, 0
	for i := range v.Engines {
		lowest, highest = min(lowest, v.Engines[i].InFlight), max(highest, v.Engines[i].InFlight)
	}
	if highest-lowest > sglangGap && float64(highest) > sglangRatio*float64(lowest) {
		return c.Least(v.Able(), v.Load)
	}
	longest, blocks := v.Longest(r)
	if float64(blocks) > sglangShare*float64(max(1, v.Need(r))) {
		return c.Least(longest, v.Load)
	}
	return c.Least(v.Able(), func(i int) float64 { return float64(v.Tree(i)) })
}
