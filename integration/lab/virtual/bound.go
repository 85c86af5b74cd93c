package virtual

import (
	"math"
	"slices"
)

// Bound is an upper bound on the share of prompt tokens that any policy finds cached with these engines. It
// takes the same requests in the same order, and one cache as large as those of all engines together, which
// always drops the blocks that will be asked for last, as no real cache can know (Belady 1966). Requests take
// no time.
func Bound(all []*Request, s *Setting) float64 {
	if slices.ContainsFunc(s.Scripts, func(x *Script) bool { return x.common == everyBlock }) {
		return boundByBlock(all, s)
	}
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

// boundByBlock is Bound where sessions share recorded blocks, in whatever order: it keeps each block by
// itself.
func boundByBlock(all []*Request, s *Setting) float64 {
	size, room := s.Engine.BlockSize, 0
	for i := range s.Engines {
		room += s.engine(i).Blocks - 1
	}
	blocks := func(r *Request) []uint64 {
		return r.script.blocksOf(r.Play, r.Turn, size, r.Group, nil)[:(r.Prompt+r.Output-1)/size]
	}
	next := make([][]int32, len(all)) // by request and block, the next request that has it
	later := map[uint64]int32{}
	for i, r := range slices.Backward(all) {
		if r.Refused {
			continue
		}
		for _, b := range blocks(r) {
			at, again := later[b]
			if !again {
				at = math.MaxInt32
			}
			next[i] = append(next[i], at)
			later[b] = int32(i)
		}
	}
	var farthest queue[use]
	held := map[uint64]int32{} // when each is needed next
	prompts, cached := 0, 0
	for i, r := range all {
		if r.Refused {
			continue
		}
		prompts += r.Prompt
		for k, b := range blocks(r) {
			if _, hit := held[b]; hit && k < (r.Prompt-1)/size { // the last token is always computed
				cached += size
			}
			delete(held, b)
			if next[i][k] < math.MaxInt32 {
				held[b] = next[i][k]
				farthest.push(use{next[i][k], b})
			}
		}
		for len(held) > room {
			if f := farthest.pop(); held[f.block] == f.next {
				delete(held, f.block)
			}
		}
	}
	return float64(cached) / float64(max(1, prompts))
}

// use is a block, with the request that needs it next.
type use struct {
	next  int32
	block uint64
}

func (u use) before(v use) bool { return u.next > v.next || u.next == v.next && u.block > v.block }

// end is the cached blocks of a play, with the request that needs them next.
type end struct{ next, play int }

func (e end) before(f end) bool { return e.next > f.next }
