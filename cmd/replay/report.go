package replay

import (
	"maps"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"souk/bus"
	"souk/market"
)

// Report holds a replay's measures. Times are in milliseconds, credits as exact decimal numbers.
type Report struct {
	Seconds   float64 `json:"seconds"` // from the first task to the last answer
	Dialogues int     `json:"dialogues"`
	BrokenOff int     `json:"broken_off"` // dialogues that a refusal ended early

	Total   Part       `json:"total"`
	Surplus Money      `json:"surplus"` // premiums less the flat fee
	Hubs    []Part     `json:"hubs"`
	Agents  []Part     `json:"agents"`
	Sources []Part     `json:"sources"` // by the dialogues' own domain
	Clients []Part     `json:"clients"` // by kind of client
	Refused []Refusals `json:"refused"` // by code; tasks that were asked again count each time

	Rounds     []Rounds `json:"rounds"` // by hub
	RoundSizes []Size   `json:"round_sizes"`

	Judged *Judged `json:"judged,omitempty"` // nil: there was nothing to compare with
}

// Judged compares answers with the recorded ones, by means.
type Judged struct {
	Answers int     `json:"answers"`
	Quality float64 `json:"quality"` // 1 where the recorded one stands in the answer, else by ROUGE-L
}

// Money is an amount as reports show it.
type Money = market.Credits

// Part is the share of one hub, agent, source or kind of client.
type Part struct {
	Name    string  `json:"name"`
	Hub     string  `json:"hub,omitempty"`
	Model   string  `json:"model,omitempty"`
	Asked   int     `json:"asked"`
	Served  int     `json:"served"`
	Prompt  int     `json:"prompt_tokens"`
	Cached  int     `json:"cached_tokens"`
	Output  int     `json:"output_tokens"`
	Share   float64 `json:"cached_share"` // of the prompt tokens
	TTFT    Times   `json:"ttft_ms"`      // as the clients saw it
	Cost    Money   `json:"cost"`
	Premium Money   `json:"premium"`
	Bill    Bill    `json:"bill"`
}

// Bill is the ratio of payments to the card: 1 where nothing but the cost was due. All is over all tasks
// together, the others are quantiles over tasks that were served, and the greatest.
type Bill struct {
	All  float64 `json:"all"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Most float64 `json:"most"`
}

// Times are quantiles in milliseconds.
type Times struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Refusals counts the results with one code.
type Refusals struct {
	Code  bus.Code `json:"code"`
	Count int      `json:"count"`
}

// Rounds sums up one hub's rounds.
type Rounds struct {
	Hub        string `json:"hub"`
	Rounds     int    `json:"rounds"`
	Several    int    `json:"several"`   // of more than one task
	Contested  int    `json:"contested"` // with a slot price above zero
	Largest    int    `json:"largest"`   // tasks
	Tasks      int    `json:"tasks"`
	Awards     int    `json:"awards"`
	SlotPrices Money  `json:"slot_prices"`
	Welfare    Money  `json:"welfare"`
}

// Size counts the rounds of one size.
type Size struct {
	Tasks  int `json:"tasks"`
	Rounds int `json:"rounds"`
}

// Report sums up what was added so far.
func (t *Tally) Report(wall time.Duration, p Played) Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Report{
		Seconds: wall.Seconds(), Dialogues: p.Dialogues, BrokenOff: p.BrokenOff,
		Total: t.total.part("total"), Surplus: t.total.premium - t.total.fee,
		Hubs: parts(t.hubs), Agents: parts(t.agents), Sources: parts(t.domains), Clients: parts(t.kinds),
		Refused: []Refusals{}, Rounds: []Rounds{}, RoundSizes: []Size{},
	}
	for _, code := range slices.Sorted(maps.Keys(t.refusals)) {
		r.Refused = append(r.Refused, Refusals{code, t.refusals[code]})
	}
	if j := t.judged; j.Answers > 0 {
		r.Judged = &Judged{j.Answers, j.Quality / float64(j.Answers)}
	}
	sorted(t.rounds, func(_ string, x *Rounds) { r.Rounds = append(r.Rounds, *x) })
	for _, n := range slices.Sorted(maps.Keys(t.sizes)) {
		r.RoundSizes = append(r.RoundSizes, Size{n, t.sizes[n]})
	}
	return r
}

func parts(m map[string]*row) []Part {
	out := []Part{}
	sorted(m, func(name string, x *row) { out = append(out, x.part(name)) })
	return out
}

func (x *row) part(name string) Part {
	p := Part{
		Name: name, Hub: x.hub, Model: x.model, Asked: x.asked, Served: x.served,
		Prompt: x.usage.Prompt, Cached: x.usage.Cached, Output: x.usage.Output,
		TTFT: times(x.ttft), Cost: x.cost, Premium: x.premium,
		Bill: Bill{P50: float64(x.bills.ValueAtQuantile(50)) / 1000,
			P99: float64(x.bills.ValueAtQuantile(99)) / 1000, Most: float64(x.bills.Max()) / 1000},
	}
	if x.cost > 0 {
		p.Bill.All = float64(x.cost+x.premium) / float64(x.cost)
	}
	if p.Prompt > 0 {
		p.Share = float64(p.Cached) / float64(p.Prompt)
	}
	return p
}

func times(h *hdrhistogram.Histogram) Times {
	return Times{float64(h.ValueAtQuantile(50)) / 1000, float64(h.ValueAtQuantile(99)) / 1000}
}

// Several is the number of rounds with more than one task, over all hubs.
func (r Report) Several() (n int) {
	for _, x := range r.Rounds {
		n += x.Several
	}
	return n
}

// Contested is the number of rounds with a slot price above zero, over all hubs.
func (r Report) Contested() (n int) {
	for _, x := range r.Rounds {
		n += x.Contested
	}
	return n
}
