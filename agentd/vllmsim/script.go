package vllmsim

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
)

// script is the answer to a request: a recorded one if there is one, else prose made from a seed. Both are
// canonical: their text, tokenised again, gives the same tokens, so that the next turn of a dialogue hits
// them in the cache.
type script struct {
	recorded []uint32
	known    bool
	at       int
	prose    prose
}

// next is the following token; tokenStop ends the answer, and is not given while mayStop is false.
func (s *script) next(mayStop bool) uint32 {
	if s.at < len(s.recorded) {
		s.at++
		return s.recorded[s.at-1]
	}
	if s.known && mayStop {
		return tokenStop
	}
	return s.prose.next(mayStop)
}

// skip goes past what has been said, as far as it is this script.
func (s *script) skip(said []uint32, mayStop bool) {
	for _, id := range said {
		before := *s
		if s.next(mayStop) != id {
			*s = before
			return
		}
	}
}

// prose makes sentences of common words. Every word, space before it included, is one token and one piece.
type prose struct {
	random   rand.PCG
	length   int // tokens, before the end
	at       int
	sentence int // tokens left in this sentence
	open     bool
}

// newProse draws a length around mean tokens (log-normal, sigma 0.6: few answers are long, most are not).
func newProse(seed uint64, mean int) prose {
	p := prose{random: *rand.NewPCG(seed, 0x50756b)}
	const sigma = 0.6
	z := rand.New(&p.random).NormFloat64()
	p.length = max(minProse, int(float64(mean)*math.Exp(sigma*z-sigma*sigma/2)))
	return p
}

const minProse = 4 // tokens: the shortest sentence

func (p *prose) next(mayStop bool) uint32 {
	if p.at >= p.length && mayStop && !p.open {
		return tokenStop
	}
	w := words()
	p.at++
	u := p.random.Uint64()
	if !p.open {
		p.open, p.sentence = true, 5+int(u>>58)%12
		i := int(u&0xffff) * len(w.first) >> 16
		if p.at == 1 {
			return w.first[i]
		}
		return w.later[i]
	}
	if p.sentence--; p.sentence <= 0 || p.at >= p.length && mayStop {
		p.open = false
		return w.period
	}
	f := float64(u>>11) / (1 << 53)
	return w.inner[int(f*f*float64(len(w.inner)))] // the first words of the list more often, as in language
}

// wordTokens are the tokens of commonWords: inside a sentence, and at its beginning.
type wordTokens struct {
	inner, first, later []uint32
	period              uint32
}

var words = sync.OnceValue(func() (w wordTokens) {
	one := func(s string) uint32 {
		ids := Tokens().Encode(nil, s)
		if len(ids) != 1 {
			panic("vllmsim: " + s + " is not one token")
		}
		return ids[0]
	}
	for _, s := range strings.Fields(commonWords) {
		w.inner = append(w.inner, one(" "+s))
	}
	for _, s := range strings.Fields(openingWords) {
		w.first = append(w.first, one(s))
		w.later = append(w.later, one(" "+s))
	}
	w.period = one(".")
	return w
})

const openingWords = `The This These There That When With You Your We They It If In For From As At Each Some
Many However One First Here And But By He She After Before While What How Where Why Once`

const commonWords = `the of and to a in is that for it as with on by this are be from or at an which not have
has was were one can all more their other about when there some time what would these people been also its
into only new than may such no first most two over between many how use used using up out them then could each
she he his her after work part well where while any state world long make system same way very process number
both different because through data water under life does day during place must group important example
without within often small large set model level form information general problem point case field energy body
order line light result fact area change question answer reason language study research design story music
food city house family history market price value cost health school student team plan project support service
power law public social human natural local national global early late high low great good better best little
right left next last several few less since until against above below among along across around toward provide
include help need find give take see come go know think look want become show keep begin follow allow require
create increase reduce improve develop consider understand explain describe compare measure move run hold
bring write read learn build grow start end open close turn lead`
