package forecast

import (
	"bufio"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"souk/agentd/vllmsim"
	"souk/integration/lab/virtual"
)

// The files keep the licences of their sources: data/NOTICE.md.
//
//go:embed data/*.csv.gz data/NOTICE.md
var files embed.FS

// Stream is a load for some engines.
type Stream struct {
	Name, About string
	Tuned       bool // formulas were chosen with it in view
	long        bool // attention grows with the square of a prompt
	slots       int  // of an engine
	blocks      int  // of its cache
	source      func(seed uint64) (source, error)
}

// Streams lists every stream, those that formulas were chosen on first.
var Streams = []Stream{
	{"short", "sessions of made-up lengths, prompts of 0.2 to 5 thousand tokens", true, false, 32, 8192,
		func(seed uint64) (source, error) { return newSessions(seed, shortPrompts), nil }},
	{"long", "the same, 1 to 30 thousand tokens, attention by the square", true, true, 32, 8192,
		func(seed uint64) (source, error) { return newSessions(seed, longPrompts), nil }},
	{"azure", "lengths and arrivals of Azure's conversation trace, each request by itself", false, false, 32, 8192, azure},
	{"mooncake", "lengths, arrivals and common prefixes of Mooncake's conversation trace, attention by the square",
		false, true, 32, 8192, mooncake},
	{"agents", "sessions of coding agents (kv-cache-tester), to 64 thousand tokens, attention by the square", false,
		true, 8, 16384, agents},
}

// StreamNames are their names.
func StreamNames() (names []string) {
	for _, s := range Streams {
		names = append(names, s.Name)
	}
	return names
}

const blockSize = 64 // tokens

// attention is the time of Llama 3.1 8B for a pair of tokens on an RTX PRO 6000, in microseconds: its
// kernels' time in 32 layers, measured by LLMServingSim (5daddb21a545, MIT) over prompts in pieces of 2,048
// tokens. The fitted profiles are straight lines.
const attention = 0.0019

func (s *Stream) engine() virtual.EngineConfig {
	p, err := vllmsim.ProfileNamed("rtxpro6000-llama-3.1-8b")
	if err != nil {
		panic("forecast: " + err.Error())
	}
	c := virtual.EngineConfig{Profile: p, Slots: s.slots, MaxBatched: p.MaxNumBatchedTokens, Blocks: s.blocks,
		BlockSize: blockSize}
	if s.long {
		c.Profile.Attention = attention
	}
	return c
}

// play is a session, or a request by itself.
type play struct {
	after time.Duration // the beginning of the one before, where requests are recorded so; else 0
	role  int           // who asks in which part; -1: not known
	turns []turn
	of    float64 // median of the answers of its role, where lengths are drawn; 0: they are recorded
}

// Lengths of answers are drawn log-normal: a session's median about its role's, and each answer about that.
const between, within = 0.3, 0.35

// guess is the length of an answer that errs least, for who knows how lengths are drawn and what its role's
// median is, and has seen the answers before: the median by Bayes. Of recorded lengths nobody can say that.
func (p *play) guess(n int) (tokens float64, known bool) {
	if p.of == 0 {
		return 0, false
	}
	at, weight := math.Log(p.of)/(between*between), 1/(between*between)
	for _, t := range p.turns[:n] {
		at += math.Log(float64(t.output)) / (within * within)
		weight += 1 / (within * within)
	}
	return math.Exp(at / weight), true
}

// turn is one request of it.
type turn struct {
	think          time.Duration // since the answer before
	prompt, output int
	hashes         []uint64 // of all full blocks of prompt and answer
	fresh          int      // tokens of the prompt that nobody can have cached
}

// source gives plays for ever.
type source interface{ next() *play }

// lengths says how long made-up sessions are: log-normal within bounds.
type lengths struct {
	first, more     float64 // tokens: medians of the first question, and of a later one
	least, most     int     // of a prompt
	turns           float64 // mean
	system, answers float64 // medians
}

var (
	shortPrompts = lengths{first: 500, more: 150, least: 200, most: 5000, turns: 5, system: 300, answers: 120}
	longPrompts  = lengths{first: 5000, more: 1200, least: 1000, most: 30_000, turns: 4, system: 1500,
		answers: 150}
)

// sessions are made up. Twelve roles have a system prompt and lengths of answers each.
type sessions struct {
	lengths
	rng   *rand.Rand
	roles [12]struct{ system, answer float64 }
	made  uint64
}

func newSessions(seed uint64, l lengths) *sessions {
	s := &sessions{lengths: l, rng: rand.New(rand.NewPCG(seed, 0x666f7265))}
	for i := range s.roles {
		s.roles[i].system = l.system * math.Exp(0.6*s.rng.NormFloat64())
		s.roles[i].answer = l.answers * math.Exp(0.7*s.rng.NormFloat64())
	}
	return s
}

func (s *sessions) about(median, sigma float64) float64 {
	return median * math.Exp(sigma*s.rng.NormFloat64())
}

func (s *sessions) next() *play {
	s.made++
	p := &play{role: s.rng.IntN(len(s.roles))}
	role := s.roles[p.role]
	answers := s.about(role.answer, between) // some sessions are talkative
	p.of = role.answer
	text := int(role.system)
	common := text / blockSize
	turns := 1 + int(s.rng.ExpFloat64()*(s.turns-1))
	for n := range turns {
		median := s.more
		if n == 0 {
			median = s.first
		}
		before := text
		text = max(text+1+int(s.about(median, 0.9)), s.least)
		if text > s.most {
			if n > 0 {
				break
			}
			text = s.most
		}
		if n == 0 {
			before = common * blockSize
		}
		t := turn{think: time.Duration(2e9 + s.rng.ExpFloat64()*10e9), prompt: text, fresh: text - before,
			output: min(1024, 1+int(s.about(answers, within)))}
		text += t.output
		t.hashes = blocks(text/blockSize, func(i int) uint64 {
			if i < common {
				return mix(uint64(p.role)<<32 | uint64(i))
			}
			return mix(s.made<<40 | 1<<39 | uint64(i))
		})
		p.turns = append(p.turns, t)
	}
	return p
}

func blocks(n int, of func(i int) uint64) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = of(i)
	}
	return out
}

// mix spreads a number over 64 bits (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// recorded plays what a file has, from a place on that a seed says, again and again; each time round is text
// of its own.
type recorded struct {
	rows  [][][]int // lines of requests of numbers
	at    int
	round uint64
	play  func(r *recorded, row [][]int) *play
	held  [][]uint64 // of the round, the blocks of each request so far
}

func (r *recorded) next() *play {
	if r.at == len(r.rows) {
		r.at, r.held = 0, r.held[:0]
		r.round++
	}
	r.at++
	return r.play(r, r.rows[r.at-1])
}

// own is block i of this line alone.
func (r *recorded) own(i int) uint64 { return mix(r.round<<48 | uint64(r.at)<<24 | uint64(i)) }

// read reads a file of lines of requests apart by ';', of so many numbers apart by ','.
func read(name string, seed uint64, numbers int, from func(r *recorded, row [][]int) *play) (*recorded,
	error) {
	f, err := files.Open("data/" + name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out := &recorded{round: 1 + seed<<16, play: from}
	lines := bufio.NewReader(text)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var row [][]int
		for _, request := range strings.Split(strings.TrimSuffix(line, "\n"), ";") {
			var of []int
			for _, cell := range strings.Split(request, ",") {
				v, err := strconv.Atoi(cell)
				if err != nil || v < 0 {
					return nil, fmt.Errorf("%s:%d: %q is no number of a trace", name, n, cell)
				}
				of = append(of, v)
			}
			if len(of) != numbers || of[1] < 1 || of[2] < 1 {
				return nil, fmt.Errorf("%s:%d: %q is no request of a trace", name, n, request)
			}
			row = append(row, of)
		}
		out.rows = append(out.rows, row)
	}
	out.at = int(mix(seed) % uint64(len(out.rows)))
	return out, nil
}

func azure(seed uint64) (source, error) {
	return read("azure-conversation.csv.gz", seed, 3, func(r *recorded, row [][]int) *play {
		q := row[0]
		return &play{after: time.Duration(q[0]) * time.Millisecond, role: -1, turns: []turn{{prompt: q[1],
			output: q[2], fresh: q[1], hashes: blocks((q[1]+q[2])/blockSize, r.own)}}}
	})
}

// parts is the number of blocks here in one of Mooncake's.
const parts = 512 / blockSize

func mooncake(seed uint64) (source, error) {
	return read("mooncake-conversation.csv.gz", seed, 5, func(r *recorded, row [][]int) *play {
		q := row[0]
		var same []uint64
		if back := q[3]; back > 0 && back <= len(r.held) {
			same = r.held[len(r.held)-back]
			same = same[:min(q[4]*parts, len(same), q[1]/blockSize)]
		}
		hashes := blocks((q[1]+q[2])/blockSize, func(i int) uint64 {
			if i < len(same) {
				return same[i]
			}
			return r.own(i)
		})
		r.held = append(r.held, hashes)
		return &play{after: time.Duration(q[0]) * time.Millisecond, role: -1, turns: []turn{{prompt: q[1],
			output: q[2], fresh: q[1] - len(same)*blockSize, hashes: hashes}}}
	})
}

func agents(seed uint64) (source, error) {
	return read("agents.csv.gz", seed, 4, func(r *recorded, row [][]int) *play {
		p := &play{role: -1}
		var before []uint64
		for n, q := range row {
			q[2] = min(q[2], mostTokens)
			same := before[:min(q[3], len(before), q[1]/blockSize)]
			hashes := blocks((q[1]+q[2])/blockSize, func(i int) uint64 {
				if i < len(same) {
					return same[i]
				}
				return mix(r.own(i) + uint64(n))
			})
			p.turns = append(p.turns, turn{think: time.Duration(min(q[0], 60_000)) * time.Millisecond,
				prompt: q[1],
				output: q[2], fresh: q[1] - len(same)*blockSize, hashes: hashes})
			before = hashes
		}
		return p
	})
}
