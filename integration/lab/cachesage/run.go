package cachesage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"souk/bus/policy"
	"souk/integration/lab/cachesage/sage"
)

// Figures are the results of a rule on a panel.
type Figures struct {
	Share   float64 // of the tokens of prompts, found in the cache
	Net     float64 // the same less what was computed ahead
	Prefill float64 // seconds, of all
	TTFT    float64 // milliseconds, the mean, on an engine that is free
	Turns   float64 // a second, with as many at a time as sessions
	Worst   float64 // the least share of a session of at least four calls
	Next    float64 // of the calls after a session's first, those of the role that was thought likeliest
}

// moment is the beginning or the end of a call.
type moment struct {
	at   time.Duration
	end  bool
	call int
}

// player plays the calls of a panel on a cache.
type player struct {
	panel  *Panel
	calls  []Call
	order  []moment
	sage   *sage.Sage
	caches []*cache // the first is the engine's, the others are ghosts
	duel   float64
	warms  bool // computes ahead the anchor of the likeliest next role

	held   [][][]*node // by cache and call
	warmed int
}

// order sorts the beginnings and ends of calls by time, ends first.
func order(calls []Call) []moment {
	all := make([]moment, 0, 2*len(calls))
	for i := range calls {
		all = append(all, moment{calls[i].Start, false, i}, moment{calls[i].End, true, i})
	}
	slices.SortStableFunc(all, func(a, b moment) int {
		switch {
		case a.at != b.at:
			return int(min(1, max(-1, a.at-b.at)))
		case a.call != b.call && a.end != b.end && a.end:
			return -1
		case a.call != b.call && a.end != b.end:
			return 1
		}
		return 0
	})
	return all
}

var began = time.Unix(1_700_000_000, 0)

// play plays all calls.
func (p *player) play() Figures {
	var f Figures
	var prompt, cached, output, guessed, guesses int
	type tally struct{ calls, prompt, cached int }
	sessions := map[policy.ID]*tally{}
	p.held = make([][][]*node, len(p.caches))
	for k := range p.held {
		p.held[k] = make([][]*node, len(p.calls))
	}
	anchors := map[policy.ID][]uint64{}
	var forecasts []sage.Forecast
	for _, m := range p.order {
		c := &p.calls[m.call]
		now := began.Add(m.at)
		for _, k := range p.caches {
			k.now = now
		}
		if m.end {
			p.finish(m.call, now)
			if p.warms {
				p.warm(c, now, anchors)
			}
			continue
		}
		if sessions[c.Session] == nil {
			sessions[c.Session] = &tally{}
		} else if p.sage != nil && c.Role != 0 {
			guesses++
			if forecasts = p.sage.Predict(now, c.Session, forecasts[:0]); len(forecasts) > 0 &&
				forecasts[0].Role == c.Role {
				guessed++
			}
		}
		if p.sage != nil {
			p.tell(c, now)
		}
		found := 0
		var ghost [3]int
		for k, x := range p.caches {
			p.held[k][m.call], ghost[k] = x.take(c, c.Prompt, nil)
		}
		found = ghost[0]
		if len(p.caches) > 1 {
			p.duel = 0.99*p.duel + float64(ghost[2]-ghost[1])
		}
		if c.Anchor > 0 {
			anchors[c.Role] = c.Prompt[:min(c.Anchor, len(c.Prompt))]
		}
		hit := min(found*p.panel.Block, c.Tokens-1) // the last token is always computed
		s := sessions[c.Session]
		s.calls, s.prompt, s.cached = s.calls+1, s.prompt+c.Tokens, s.cached+hit
		prompt, cached, output = prompt+c.Tokens, cached+hit, output+c.Output
		took := seconds(c.Tokens-hit, hit)
		f.Prefill += took
	}
	f.Share = float64(cached) / float64(prompt)
	f.Net = float64(cached-p.warmed) / float64(prompt)
	f.TTFT = 1000 * f.Prefill / float64(len(p.calls))
	f.Prefill += seconds(p.warmed, 0)
	f.Turns = float64(len(p.calls)) / (f.Prefill + float64(output)*perOutput/float64(p.panel.slots))
	f.Worst = 1
	for _, s := range sessions {
		if s.calls >= 4 {
			f.Worst = min(f.Worst, float64(s.cached)/float64(s.prompt))
		}
	}
	if guesses > 0 {
		f.Next = float64(guessed) / float64(guesses)
	}
	return f
}

// finish ends a call: its answer's blocks are there as well, and all are let go.
func (p *player) finish(i int, now time.Time) {
	c := &p.calls[i]
	for k, x := range p.caches {
		held := p.held[k][i]
		if len(held) == len(c.Prompt) && len(c.After) > len(held) {
			held, _ = x.take(c, c.After, held)
		}
		x.release(held)
		p.held[k][i] = nil
	}
	if p.sage != nil {
		p.tellEnd(c, now)
	}
	if c.Last && p.panel.Ends {
		for _, x := range p.caches {
			x.ended(c.Session)
		}
	}
}

// tell has the learner hear that a call begins.
func (p *player) tell(c *Call, now time.Time) {
	p.sage.Observe(policy.Event{Kind: policy.Arrived, At: now, Client: 1, Session: c.Session, Role: c.Role})
}

// tellEnd has it hear that a call has ended.
func (p *player) tellEnd(c *Call, now time.Time) {
	e := policy.Event{Kind: policy.Served, At: now, Client: 1, Session: c.Session, Role: c.Role, Tool: c.Tool,
		Stop: policy.StopEnd}
	if c.Tool != 0 {
		e.Stop = policy.StopTool
	}
	p.sage.Observe(e)
	if c.Last && p.panel.Ends {
		p.sage.Observe(policy.Event{Kind: policy.Ended, At: now, Session: c.Session})
	}
}

// rehearse has the learner hear of all calls before the first, as those of other sessions.
func (p *player) rehearse() {
	early := began.Add(-2 * p.order[len(p.order)-1].at)
	for _, m := range p.order {
		c := p.calls[m.call]
		c.Session = mix(10, c.Session)
		if m.end {
			p.tellEnd(&c, early.Add(m.at))
		} else {
			p.tell(&c, early.Add(m.at))
		}
	}
}

// warm has the engine compute the anchor of the role that comes next, as the paper does between two steps.
func (p *player) warm(c *Call, now time.Time, anchors map[policy.ID][]uint64) {
	all := p.sage.Predict(now, c.Session, nil)
	if len(all) == 0 {
		return
	}
	x, blocks := p.caches[0], anchors[all[0].Role]
	warm := Call{Role: all[0].Role, Anchor: len(blocks)}
	held, found := x.take(&warm, blocks, nil)
	p.warmed += (len(held) - found) * p.panel.Block
	x.release(held)
}

// Rule is a way to give up blocks.
type Rule struct {
	Name, About string
	make        func(p *player)
}

// Rules lists what is compared, in the page's order.
var Rules = []Rule{
	{"lru", "what was used longest ago, as engines do", func(p *player) { p.by(lru{}) }},
	{toldRule, "the same, but what is of sessions that are told to have ended goes before all else",
		func(p *player) { p.by(told{}) }},
	{"lfu", "what was used least often", func(p *player) { p.by(lfu{}) }},
	{"arc", "a balance of both (Megiddo and Modha 2003)", func(p *player) { p.by(newARC()) }},
	{"anchors-pinned", "anchors of roles last", func(p *player) { p.by(pinned{}) }},
	{"ttl-30", "nothing that was used in the last 30 s, while there is other", ttlRule(30)},
	{"ttl-120", "the same, 120 s", ttlRule(120)},
	{"ttl-600", "the same, 600 s", ttlRule(600)},
	{"ttl-best", "the best of 1, 3, 10, 30, 120 and 600 s, chosen afterwards: Continuum's optimum", nil},
	{"paper", "CacheSage as published: hops from the role that ran last, and recency",
		func(p *player) { p.learn(sage.Params{Paper: true}, false) }},
	{"paper+prefetch", "and the anchor of the likeliest next role computed ahead",
		func(p *player) { p.learn(sage.Params{Paper: true}, false); p.warms = true }},
	{"paper-far", "CacheSage as published, with 12 hops that count instead of 4",
		func(p *player) { p.learn(sage.Params{Paper: true, Far: 12}, false) }},
	{"paper-roles", "as published, with a hundredth of the weight of recency", func(p *player) {
		p.learn(sage.Params{Paper: true}, false)
		s := p.caches[0].by.(scored)
		s.recency = 0.01
		p.caches[0].by = s
	}},
	{"ours", "anchors by the chance that their role runs, the rest by that of its session; a duel " +
		"against lru, which is told of ends, too",
		func(p *player) { p.learn(sage.Params{}, true) }},
	{"ours-duel", "without the duel", func(p *player) { p.learn(sage.Params{}, false) }},
	{"ours-live", "every session goes on", func(p *player) { p.learn(sage.Params{NoLive: true}, true) }},
	{"ours-tails", "all of a role is worth as much as its anchor",
		func(p *player) { p.learn(sage.Params{NoTails: true}, true) }},
	{"ours-pairs", "roles follow by the last one alone",
		func(p *player) { p.learn(sage.Params{NoPairs: true}, true) }},
	{"ours-rest", "how long a call in flight has taken says nothing",
		func(p *player) { p.learn(sage.Params{NoRest: true}, true) }},
	{"ours-before", "ours that has heard all these calls once before: what there is to learn at most",
		func(p *player) {
			p.learn(sage.Params{}, true)
			p.rehearse()
		}},
	{"belady", "what is used again last, leaf first, blocks in flight stay: a bound", func(p *player) {
		p.by(belady{p.future()})
	}},
}

var bestOf = []time.Duration{1, 3, 10, 30, 120, 600}

func ttlRule(s time.Duration) func(p *player) {
	return func(p *player) { p.by(ttl(s * time.Second)) }
}

// by has the engine's cache follow a rule.
func (p *player) by(r rule) { p.caches = []*cache{newCache(p.panel.Blocks, r)} }

func (p *player) learn(o sage.Params, duel bool) {
	o.Token, o.Before = perToken, 0
	p.sage = sage.New(o, 1<<16)
	s := scored{sage: p.sage, block: p.panel.Block, at: &chosen{}, recency: 1}
	p.by(s)
	if duel {
		ghost := s
		ghost.at = &chosen{}
		p.caches = append(p.caches, newCache(p.panel.Blocks, told{}), newCache(p.panel.Blocks, ghost))
		s.duel = &p.duel
		p.caches[0].by = s
	}
}

// future says when a block is used next.
func (p *player) future() func(hash uint64) float64 {
	uses := map[uint64][]int32{}
	for i := range p.calls {
		for _, h := range p.calls[i].Prompt {
			uses[h] = append(uses[h], int32(i))
		}
	}
	return func(hash uint64) float64 {
		now := p.caches[0].now.Sub(began)
		all := uses[hash]
		for len(all) > 0 && p.calls[all[0]].Start <= now {
			all = all[1:]
		}
		uses[hash] = all
		if len(all) == 0 {
			return math.Inf(1)
		}
		return float64(p.calls[all[0]].Start)
	}
}

// deal is the input for all rules: the calls of a panel, from a seed.
type deal struct {
	panel Panel
	calls []Call
	order []moment
}

func (p *Panel) deal(seed uint64) *deal {
	d := &deal{panel: *p}
	sessions := p.calls(rand.New(rand.NewPCG(seed, 77)))
	if p.even {
		sessions = evened(sessions)
	}
	d.calls = schedule(sessions, p.slots)
	if p.fill > 0 {
		d.panel.Blocks = max(1, int(open(d.calls, p.whole)/p.fill))
	}
	d.order = order(d.calls)
	return d
}

// Plays says whether a rule is played on the panel.
func (p *Panel) Plays(rule string) bool {
	return (p.rules == nil || slices.Contains(p.rules, rule)) && (p.Ends || rule != toldRule)
}

// toldRule is played where ends are told; elsewhere it is lru.
const toldRule = "lru-told"

// play plays one rule.
func (d *deal) play(rule string) (best Figures, err error) {
	i := slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == rule })
	if i < 0 {
		return Figures{}, fmt.Errorf("no rule %q", rule)
	}
	run := func(make func(*player)) Figures {
		p := &player{panel: &d.panel, calls: d.calls, order: d.order}
		make(p)
		return p.play()
	}
	if Rules[i].make != nil {
		return run(Rules[i].make), nil
	}
	for k, s := range bestOf {
		if f := run(ttlRule(s)); k == 0 || f.Share > best.Share {
			best = f
		}
	}
	return best, nil
}
