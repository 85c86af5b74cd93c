package classifier

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/market"
)

// Want holds a task's wishes and history, by which its hub is chosen.
type Want struct {
	Hub       string // named by the client: honoured while it has room
	Session   string // where the session's earlier turns went: likewise
	Pinned    string // where this very task id went before: no other hub could know that it is a repetition
	There     bool   // that one has just spoken, though its status may be late
	Label     string // of the task's domain, after renaming
	Confident bool   // the label is to be trusted
	Model     string // "" = any
	Kind      string // of task

	PromptTokens int
	PromptLeast  int // of its longest text, for sure
	OutputTokens int // most, 0 = not given
	Terms        bus.Terms
}

// Ranks of a hub for a task, best first.
const (
	rankNamed   = iota // by the client, or by the session's past
	rankServes         // the label
	rankGeneral        // takes what is not clear
	rankOther          // the next best when all of those are full
)

// Choose names the hub a task is sent to next, passing over those already tried. A hub that has room for all
// of its max_tokens comes before one that would cut the answer, unless the client names it; then better ranks
// come first; within one, the hub where the client's terms expect the greatest utility at published prices
// and TTFT, one that its max_price affords before one that it does not, then the one that is less full. The
// error says why there is none.
func (t *Table) Choose(c *Config, w *Want, now time.Time, tried []string) (string, *bus.Error) {
	if w.Pinned != "" {
		if i, ok := t.find(w.Pinned); ok && (w.There || t.Hubs[i].fresh(c, now)) {
			return w.Pinned, nil
		}
		return "", refusal(bus.CodeUnavailable, "hub %s, which was given this task id before, is not "+
			"there now; wait for it, or send the task under a new id", w.Pinned)
	}
	var best offer
	at := -1
	worth, needs := t.defaultWorth(c, w, now), t.needs(c, w, now)
	for i := range t.Hubs {
		h := &t.Hubs[i]
		if slices.Contains(tried, h.Entry.Domain) || h.blocked(c, w, needs, now) != "" {
			continue
		}
		if o := h.offer(w, worth); at < 0 || o.better(best) {
			best, at = o, i
		}
	}
	if at >= 0 {
		return t.Hubs[at].Entry.Domain, nil
	}
	return "", t.why(c, w, now)
}

// full reports whether a hub that was not tried could serve the task, and has no room.
func (t *Table) full(c *Config, w *Want, now time.Time, tried []string) bool {
	needs := t.needs(c, w, now)
	return slices.ContainsFunc(t.Hubs, func(h Hub) bool {
		return h.blocked(c, w, needs, now) == bus.CodeNoRoom && h.Status.Agents > 0 &&
			!slices.Contains(tried, h.Entry.Domain)
	})
}

// fresh reports whether a hub may be there. One that has just entered the registry has not spoken yet; a task
// may try it.
func (h *Hub) fresh(c *Config, now time.Time) bool { return now.Sub(h.Heard) <= c.StatusTTL }

// needs is the number of prompt tokens that a hub's context must exceed: as estimated where one does, and
// else as many as the prompt has for sure, at who has the longest, whose engine judges.
func (t *Table) needs(c *Config, w *Want, now time.Time) int {
	longest := 0
	for i := range t.Hubs {
		if h := &t.Hubs[i]; h.Status != nil && h.fresh(c, now) {
			longest = max(longest, h.context(w))
		}
	}
	switch {
	case bus.Pooling(w.Kind): // of many texts, each with a context of its own
		return w.PromptLeast
	case longest > w.PromptTokens:
		return w.PromptTokens
	}
	return max(w.PromptLeast, longest-1)
}

// blocked returns "" if the hub may take the task, else the code of the obstacle.
func (h *Hub) blocked(c *Config, w *Want, needs int, now time.Time) bus.Code {
	if !h.fresh(c, now) {
		return bus.CodeNoHub
	}
	if h.Status == nil {
		return ""
	}
	switch longest := h.context(w); {
	case longest == 0 && (w.Model != "" || len(h.Status.Models) > 0):
		return bus.CodeUnknownModel
	case longest > 0 && needs >= longest:
		return bus.CodePromptTooLong
	case h.Status.Agents == 0 || h.Status.Room == 0:
		return bus.CodeNoRoom
	}
	return ""
}

// context is the longest that a model has which may serve the task; 0: none may.
func (h *Hub) context(w *Want) (longest int) {
	for i := range h.Status.Models {
		if m := &h.Status.Models[i]; w.by(m) {
			longest = max(longest, cmp.Or(m.MaxModelLen, math.MaxInt))
		}
	}
	return longest
}

// by reports whether a model may serve the task.
func (w *Want) by(m *bus.ModelStatus) bool {
	return (w.Model == "" || m.Model == w.Model) && bus.Serves(m.Pools, w.Kind)
}

// offer rates a hub for a task.
type offer struct {
	gives      int // tokens of the answer, of those that are wanted
	rank       int
	affordable bool
	utility    market.Credits
	free       float64 // share of its slots
}

// better puts hubs in order. Equal offers stay in the order of their domains.
func (o offer) better(p offer) bool {
	switch {
	case o.gives != p.gives:
		return o.gives > p.gives
	case o.rank != p.rank:
		return o.rank < p.rank
	case o.affordable != p.affordable:
		return o.affordable
	case o.utility != p.utility:
		return o.utility > p.utility
	}
	return o.free > p.free
}

func (h *Hub) rank(w *Want) int {
	labels, general := h.Entry.Labels, h.Entry.General
	if h.Status != nil {
		labels, general = h.Status.Labels, h.Status.General
	}
	serves := slices.Contains(labels, w.Label)
	switch {
	case h.Entry.Domain == w.Hub:
		return rankNamed
	case w.Hub == "" && h.Entry.Domain == w.Session:
		return rankNamed
	case serves && w.Confident:
		return rankServes
	case general:
		if w.Confident {
			return rankGeneral
		}
		return rankServes // a general hub is the right one for a task that is not clear
	case serves:
		return rankGeneral
	}
	return rankOther
}

// offer returns the best offer of the hub's models.
func (h *Hub) offer(w *Want, worth market.Credits) offer {
	o := offer{rank: h.rank(w), utility: -market.MaxCredits, gives: w.OutputTokens}
	st := h.Status
	if st == nil {
		return o
	}
	if h.Entry.Domain != w.Hub && !bus.Pooling(w.Kind) { // which has many texts
		o.gives = min(o.gives, bus.AnswerRoom(h.context(w), w.PromptTokens))
	}
	if st.Slots > 0 {
		o.free = float64(st.Free) / float64(st.Slots)
	}
	terms := termsOf(w, worth)
	for i := range st.Models {
		m := &st.Models[i]
		if !w.by(m) || m.Agents == 0 {
			continue
		}
		price := m.Price.Cost(w.usage()) + max(0, m.SlotPrice)
		u := terms.Value(market.Quote{TTFT: h.ttft(m), Quality: m.Quality}) - price
		affordable := w.Terms.MaxPrice == nil || price <= *w.Terms.MaxPrice
		if affordable && !o.affordable || affordable == o.affordable && u > o.utility {
			o.utility, o.affordable = u, affordable
		}
	}
	return o
}

// ttft returns the published TTFT, or, where every slot is taken, a multiple that rises with the tasks
// waiting for each. A hub that has measured none yet gets the best, so that it comes to measure one.
func (h *Hub) ttft(m *bus.ModelStatus) time.Duration {
	d := time.Duration(m.TTFTUS) * time.Microsecond
	if m.Free > 0 || h.Status.Slots == 0 {
		return d
	}
	return d * time.Duration(2+h.Status.Waiting/h.Status.Slots)
}

// Defaults by which hubs are compared where a client names none: the length of the usual answer, which is
// shorter than max_tokens, and worth as a multiple of the dearest published cost.
const (
	usualAnswer = 256
	worthFactor = 4
)

func (w *Want) usage() market.Usage {
	out := w.OutputTokens
	if out == 0 || out > usualAnswer {
		out = usualAnswer
	}
	return market.Usage{Prompt: w.PromptTokens, Output: out}
}

// defaultWorth scales with the tokens at the dearest published price, so that hubs are compared on one scale.
func (t *Table) defaultWorth(c *Config, w *Want, now time.Time) market.Credits {
	if w.Terms.Worth != nil {
		return *w.Terms.Worth
	}
	var dearest market.Credits
	for i := range t.Hubs {
		if h := &t.Hubs[i]; h.Status != nil && h.fresh(c, now) {
			for j := range h.Status.Models {
				dearest = max(dearest, h.Status.Models[j].Price.Cost(w.usage()))
			}
		}
	}
	if dearest == 0 {
		return market.Credit // where nothing costs anything, any scale will do
	}
	worth, err := market.Quantise(float64(dearest) / float64(market.Credit) * worthFactor)
	if err != nil {
		return dearest
	}
	return worth
}

// termsOf returns what a task is taken to want where hubs of one domain compete for it: the hub that takes it
// applies its own defaults.
func termsOf(w *Want, worth market.Credits) market.Terms {
	t := market.Terms{Worth: worth, Delta: 0.5, Patience: 2 * time.Second}
	if w.Terms.Delta != nil {
		t.Delta = *w.Terms.Delta
	}
	if w.Terms.PatienceMS != nil && *w.Terms.PatienceMS > 0 {
		t.Patience = time.Duration(*w.Terms.PatienceMS) * time.Millisecond
	}
	return t
}

// why explains why no hub can take a task, by the reason of the hub that came closest.
func (t *Table) why(c *Config, w *Want, now time.Time) *bus.Error {
	closest := map[bus.Code]int{bus.CodeNoHub: 1, bus.CodeUnknownModel: 2, bus.CodePromptTooLong: 4,
		bus.CodeNoRoom: 5, "": 5}
	code, most := bus.CodeNoHub, 0
	var closed *bus.Status // of hubs that could serve it but for what they say, the one that may soonest
	full := false          // another has no room, or was tried and refused
	needs := t.needs(c, w, now)
	for i := range t.Hubs {
		h := &t.Hubs[i]
		b := h.blocked(c, w, needs, now)
		near := closest[b]
		if b == bus.CodeNoRoom && h.Status.Agents == 0 { // nobody there could read more
			near = 3
		}
		switch {
		case b == "":
			b, full = bus.CodeNoRoom, true
		case b == bus.CodeNoRoom && h.Status.Closed == "":
			full = true
		case b == bus.CodeNoRoom && (closed == nil || h.Status.ClosedMS < closed.ClosedMS):
			closed = h.Status
		}
		if near > most {
			code, most = b, near
		}
	}
	var served []string
	other := "" // what the model is served at instead
	if code == bus.CodeUnknownModel {
		sells := false
		if served, other, sells = t.models(c, w, now); !sells { // engines start, or come back
			code, full = bus.CodeNoRoom, true
		}
	}
	switch code {
	case bus.CodeUnknownModel:
		if other != "" || w.Model == "" {
			return wrongRoute(w, other, served)
		}
		if ago, was := t.wasSold(c, w.Model, now); was {
			no := refusal(bus.CodeUnavailable, "model %q was served here until %v ago, and nobody serves it "+
				"now: its engines may be starting; try again shortly; served now: %s", w.Model,
				ago.Round(time.Second), strings.Join(served, ", "))
			no.RetryMS = startMS
			return no
		}
		return refusal(code, "no hub serves model %q; served now: %s", w.Model, strings.Join(served, ", "))
	case bus.CodePromptTooLong:
		return refusal(code, "prompt of about %d tokens is longer than any agent's context; shorten it",
			w.PromptTokens)
	case bus.CodeNoRoom:
		if !full {
			no := refusal(bus.CodeUnavailable, "hub %s takes no task: %s", closed.Domain, closed.Closed)
			no.RetryMS = closed.ClosedMS
			return no
		}
		return refusal(code,
			"every hub that could serve this task is full or has no agent; try again shortly")
	}
	return refusal(code, "no hub is in the market now; start one, or try again shortly")
}

// wrongRoute refuses a task whose model is served at another route.
func wrongRoute(w *Want, other string, served []string) *bus.Error {
	route, instead := "/v1/chat/completions", "none"
	if bus.Pooling(w.Kind) {
		route = "/v1/" + bus.Route(w.Kind)
	}
	if len(served) > 0 {
		instead = strings.Join(served, ", ")
	}
	if w.Model == "" {
		return refusal(bus.CodeUnknownModel, "no model is served at %s here", route)
	}
	return refusal(bus.CodeUnknownModel, "model %q is not served at %s, but at %s; served at %s: %s", w.Model, route,
		other, route, instead)
}

// models lists what the market serves of a task's kind, sorted, at most 16 names, and where the task's model
// is served if not there; sells: anything is served at all.
func (t *Table) models(c *Config, w *Want, now time.Time) (names []string, other string, sells bool) {
	for i := range t.Hubs {
		if h := &t.Hubs[i]; h.Status != nil && h.fresh(c, now) {
			for j := range h.Status.Models {
				sells = true
				switch m := &h.Status.Models[j]; {
				case bus.Serves(m.Pools, w.Kind):
					names = append(names, m.Model)
				case m.Model == w.Model:
					other = bus.Routes(m.Pools)
				}
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 16 {
		names = append(names[:16], "...")
	}
	return names, other, sells
}
