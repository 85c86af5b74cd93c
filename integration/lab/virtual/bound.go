package virtual

import (
	"math"
)

// Bound is an upper bound on the share of prompt tokens that any policy finds cached with these engines. It
// takes the same requests in the same order, and one cache as large as those of all engines together, which
// always drops the blocks that will be asked for last, as no real cache can know (Belady 1966). Requests take
// no time.
func Bound(all []*Request, s *Setting) float64 {
	next := make([]int, len(all)) // by request, the index of the next request of its dialogue
	last := map[int]int{}
	for i := len(all) - 1; i >= 0; i-- {
		next[i] = math.MaxInt
		if later, ok := last[all[i].Play]; ok {
			next[i] = later
		}
		last[all[i].Play] = i
	}
	size, room := s.Engine.BlockSize, 0
	for i := range s.Engines {
		room += s.engine(i).Blocks - 1
	}
	var farthest queue[end]
	held := map[int]int{} // by play, its cached blocks without those that its group shares
	prompts, cached := 0, 0
	common := map[int]int{} // by cache group, those that all its plays share, which stay to its end
	over := map[int]int{}   // by cache group, its last request
	for i, r := range all {
		if !r.Refused {
			over[r.Group] = i
		}
	}
	for i, r := range all {
		if r.Refused {
			continue
		}
		most := (r.Prompt - 1) / size // the last token is always computed
		hit := min(most, min(common[r.Group], r.script.common)+held[r.Play])
		prompts, cached = prompts+r.Prompt, cached+hit*size
		if more := r.script.common - common[r.Group]; more > 0 {
			room -= more
			common[r.Group] += more
		}
		if over[r.Group] == i {
			room += common[r.Group]
			delete(common, r.Group)
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

// end is the cached blocks of a play, with the request that needs them next.
type end struct{ next, play int }

func (e end) before(f end) bool { return e.next > f.next }
