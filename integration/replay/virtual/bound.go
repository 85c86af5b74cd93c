package virtual

import (
	"math"
)

// Bound is the share of prompt tokens that the same requests, in the order in which they came, would find
// cached if all engines had one cache together and it dropped what is asked for again last, which no cache
// can know (Belady 1966). Requests end at once in it. No policy reaches more with these engines.
func Bound(all []*Request, engines int, cfg EngineConfig) float64 {
	next := make([]int, len(all)) // the request that goes on from each
	last := map[int]int{}
	for i := len(all) - 1; i >= 0; i-- {
		next[i] = math.MaxInt
		if later, ok := last[all[i].Play]; ok {
			next[i] = later
		}
		last[all[i].Play] = i
	}
	size := cfg.BlockSize
	room := engines * (cfg.Blocks - 1)
	var farthest queue[end]
	held := map[int]int{} // blocks of a play, all but those that all plays share
	prompts, cached, common := 0, 0, 0
	for i, r := range all {
		if r.Refused {
			continue
		}
		most := (r.Prompt - 1) / size // the last token is always computed
		hit := min(most, min(common, r.script.common)+held[r.Play])
		prompts, cached = prompts+r.Prompt, cached+hit*size
		if r.script.common > common {
			room -= r.script.common - common
			common = r.script.common
		}
		blocks := max(0, (r.Prompt+r.Output-1)/size-r.script.common)
		room -= blocks - held[r.Play]
		held[r.Play] = blocks
		if next[i] == math.MaxInt {
			room += blocks
			delete(held, r.Play)
		} else {
			farthest.push(end{next[i], r.Play})
		}
		for room < 0 && len(farthest) > 0 {
			f := farthest[0]
			if f.next <= i || held[f.play] == 0 { // asked for since
				farthest.pop()
				continue
			}
			out := min(held[f.play], -room)
			held[f.play] -= out
			room += out
		}
	}
	return float64(cached) / float64(max(1, prompts))
}

// end is the last blocks of a play, which are first needed again by a request.
type end struct{ next, play int }

func (e end) before(f end) bool { return e.next > f.next }
