package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"souk/bus"
	"souk/cmd/local"
	"souk/ledger/inspect"
	"souk/market"
)

// view is a page of the console.
type view struct {
	path, title, file string
	here              string // path of the entry in the navigation that leads to it
	live              string // path of what keeps it up to date; "": nothing does
	operator          bool   // it is for operators alone
	data              func(*Server, *http.Request, Role) (any, error)
}

var views = []view{
	{path: "/{$}", title: "Overview", file: "overview.html", here: "/", live: "/live/overview",
		data: (*Server).overview},
	{path: "/models", title: "Models and prices", file: "models.html", here: "/models", live: "/live/models",
		data: (*Server).models},
	{path: "/agents", title: "Agents", file: "agents.html", here: "/agents", live: "/live/agents",
		data: (*Server).agents},
	{path: "/rounds", title: "Rounds", file: "rounds.html", here: "/rounds", live: "/live/rounds",
		data: (*Server).rounds},
	{path: "/rounds/{journal}/{number}", title: "Round", file: "round.html", here: "/rounds",
		data: (*Server).round},
	{path: "/clients", title: "Clients and keys", file: "clients.html", here: "/clients", operator: true,
		data: (*Server).clients},
	{path: "/client", title: "Client", file: "client.html", here: "/clients", operator: true,
		data: (*Server).client},
	{path: "/playground", title: "Playground", file: "playground.html", here: "/playground",
		data: (*Server).playground},
}

// noPage is why there is no page of that address.
type noPage struct{ error }

// serve shows a page to who may see it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, v view) {
	role := s.door.role(r)
	switch {
	case role == "":
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	case v.operator && role != Operator:
		s.refuse(w, http.StatusForbidden, role, "This page is for operators: log in with the token of one.")
		return
	}
	p := &page{Title: v.title, Here: v.here, Operator: role == Operator, In: true}
	if v.live != "" {
		s.look()
		q := r.URL.Query()
		if p.Held = q.Has("hold"); p.Held {
			q.Del("hold")
		} else {
			p.Stream = v.live + "?" + q.Encode()
			q.Set("hold", "1")
		}
		p.Hold = v.here + "?" + q.Encode()
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageWithin)
	defer cancel()
	data, err := v.data(s, r.WithContext(ctx), role)
	if err != nil {
		status := http.StatusServiceUnavailable
		if errors.As(err, new(noPage)) {
			status = http.StatusNotFound
		}
		s.refuse(w, status, role, err.Error())
		return
	}
	p.Data = data
	s.write(w, http.StatusOK, v.file, p)
}

// glanceFor bounds how long the hubs show themselves to a page that has no stream.
const glanceFor = 10 * time.Second

// look has the hubs show themselves for a while.
func (s *Server) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.glance != nil {
		s.glance.Reset(glanceFor)
		return
	}
	away := s.watcher.Look()
	s.glance = time.AfterFunc(glanceFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		away()
		s.glance = nil
	})
}

// overview sums the market up.
type overview struct {
	*picture
	Agents, Slots, Free, Waiting, Running int
	Served, Refused                       int64
	Avail, Held, Surplus, Fee, Payable    market.Credits
	Silent                                int  // hubs that do not answer, and are in no sum
	Operator                              bool // who looks is one
}

func (s *Server) overview(r *http.Request, role Role) (any, error) {
	p, err := s.picture(r.Context())
	if err != nil {
		return nil, err
	}
	o := &overview{picture: p, Operator: role == Operator}
	for i := range p.Hubs {
		h := &p.Hubs[i]
		if st := h.Status; st != nil {
			o.Agents, o.Slots, o.Free = o.Agents+st.Agents, o.Slots+st.Slots, o.Free+st.Free
			o.Waiting += st.Waiting
		}
		if h.Feed == nil {
			o.Silent++
			continue
		}
		st := h.Feed.State
		o.Running, o.Served, o.Refused = o.Running+st.Running, o.Served+st.Served, o.Refused+st.Refused
		o.Avail, o.Held, o.Surplus = o.Avail+st.Avail, o.Held+st.Held, o.Surplus+st.Surplus
		o.Fee, o.Payable = o.Fee+st.Fee, o.Payable+st.Payable
	}
	return o, nil
}

// modelRow is a model at a hub.
type modelRow struct {
	Hub string
	bus.ModelStatus
}

func (s *Server) models(*http.Request, Role) (any, error) {
	return modelsOf(speaking(s.watcher.Hubs(), time.Now())), nil
}

// speaking leaves out hubs that say nothing any more: what they sold nobody can have.
func speaking(hubs []local.Watched, now time.Time) []local.Watched {
	return slices.DeleteFunc(hubs, func(h local.Watched) bool { return now.Sub(h.Heard) > local.Lagging })
}

func modelsOf(hubs []local.Watched) (rows []modelRow) {
	for _, h := range hubs {
		for _, m := range h.Status.Models {
			rows = append(rows, modelRow{h.Domain, m})
		}
	}
	slices.SortStableFunc(rows, func(a, b modelRow) int { return cmp.Compare(a.Model, b.Model) })
	return rows[:min(len(rows), 4*pageRows)]
}

// pageRows bounds the rows of a table on a page.
const pageRows = 250

// rowsFrom is a part of a table: rows From to To of All, counted from 1. Earlier and Later are the addresses
// of the parts beside it; "": there is none.
type rowsFrom[T any] struct {
	Rows           []T
	From, To, All  int
	Earlier, Later string
}

// cutRows returns the part of a table that an address asks for.
func cutRows[T any](rows []T, most int, u *url.URL) rowsFrom[T] {
	q := u.Query()
	from, _ := strconv.Atoi(q.Get("from"))
	from = max(0, min(from-1, len(rows)-1))
	to := min(len(rows), from+most)
	c := rowsFrom[T]{Rows: rows[from:to], From: min(from+1, len(rows)), To: to, All: len(rows)}
	at := func(n int) string {
		q.Set("from", strconv.Itoa(n))
		return "?" + q.Encode()
	}
	if from > 0 {
		c.Earlier = at(max(0, from-most) + 1)
	}
	if to < len(rows) {
		c.Later = at(to + 1)
	}
	return c
}

// agentRow is an agent at a hub.
type agentRow struct {
	Hub string
	bus.FeedAgent
}

type agentsPage struct {
	rowsFrom[agentRow]
	Query  string
	Fleet  int // agents of all hubs
	Unseen int // of them, those that their hubs have no room to show
}

func (s *Server) agents(r *http.Request, _ Role) (any, error) {
	p, err := s.picture(r.Context())
	if err != nil {
		return nil, err
	}
	return agentsOf(p.Hubs, r.URL), nil
}

func agentsOf(hubs []local.HubSurvey, u *url.URL) agentsPage {
	a := agentsPage{Query: u.Query().Get("q")}
	var rows []agentRow
	for _, h := range hubs {
		if h.Feed == nil {
			continue
		}
		a.Fleet += h.Feed.State.Fleet
		a.Unseen += max(0, h.Feed.State.Fleet-len(h.Feed.State.Agents))
		for _, x := range h.Feed.State.Agents {
			if strings.Contains(strings.Join([]string{x.Agent, x.Model, h.Domain, x.State}, " "), a.Query) {
				rows = append(rows, agentRow{h.Domain, x})
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b agentRow) int {
		return -cmp.Compare(min(1, len(a.State)), min(1, len(b.State)))
	})
	a.rowsFrom = cutRows(rows, pageRows, u)
	return a
}

// shownRounds bounds the rounds on a page.
const shownRounds = 100

func (s *Server) rounds(*http.Request, Role) (any, error) {
	all := s.watcher.Rounds()
	return all[:min(len(all), shownRounds)], nil
}

// roundPage shows one round: as its hub showed it, and as its record has it.
type roundPage struct {
	Journal  string
	Number   uint64
	Shown    *bus.FeedRound // nil: the console was not there to see it
	Record   string         // every price of it in words
	NoRecord string         // why there is none
	Operator bool
}

// mostRecord bounds what is shown of a record, in bytes.
const mostRecord = 256 << 10

func (s *Server) round(r *http.Request, role Role) (any, error) {
	p := &roundPage{Journal: r.PathValue("journal"), Operator: role == Operator}
	var err error
	if p.Number, err = strconv.ParseUint(r.PathValue("number"), 10, 64); err != nil || p.Number == 0 ||
		bus.CheckID("journal", p.Journal) != nil {
		return nil, noPage{errors.New("A round is named by its journal and its number, from 1 on.")}
	}
	for _, x := range s.watcher.Rounds() {
		if x.Journal == p.Journal && x.Number == p.Number {
			p.Shown = &x.FeedRound
		}
	}
	switch {
	case !p.Operator:
		p.NoRecord = "It names clients and tasks, so it is for operators."
	default:
		if p.Record, err = s.explain(r.Context(), p.Journal, p.Number); err != nil {
			p.NoRecord = err.Error()
		}
	}
	return p, nil
}

// explain derives every price of a round from the journal, where that is at hand.
func (s *Server) explain(ctx context.Context, name string, number uint64) (string, error) {
	if s.c.Journals == "" {
		return "", errors.New("the market keeps its journals elsewhere: name its data directory by --data")
	}
	select {
	case s.reading <- struct{}{}: // a journal may be long
		defer func() { <-s.reading }()
	case <-ctx.Done():
		return "", errors.New("others are reading journals: try again")
	}
	sources, err := inspect.Open([]string{s.c.Journals}, name)
	if err != nil {
		return "", err
	}
	found, err := sources[0].Round(ctx, number)
	if errors.Is(err, context.DeadlineExceeded) {
		return "", fmt.Errorf("the journal is too long to be read for a page: ledger round %d --journal "+
			"%s --explain", number, name)
	}
	if err != nil {
		return "", err
	}
	x, err := found.Explain()
	if err != nil {
		return "", fmt.Errorf("it cannot be explained: %w", err)
	}
	text := x.String()
	if len(text) > mostRecord {
		text = text[:mostRecord] + fmt.Sprintf("\n... ledger round %d --journal %s --explain has the rest\n",
			number, name)
	}
	return text, nil
}

// clock says a time for people; that of a hub is by its own clock.
func clock(ms int64) string {
	if ms == 0 {
		return "never"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05 UTC")
}

// until says when a key's time is over.
func until(ms int64) string {
	switch {
	case ms == 0:
		return "for ever"
	case ms < time.Now().UnixMilli():
		return "over"
	}
	return clock(ms)
}

// share says a part of a whole in hundredths.
func share(part, of int64) string {
	if of <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(of))
}

// cut is a number to four digits; "-" where there is none.
func cut(n float64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g", n)
}

// micros says microseconds as a time; "-" where none was measured.
func micros(us int64) string {
	if us <= 0 {
		return "-"
	}
	return (time.Duration(us) * time.Microsecond).Round(100 * time.Microsecond).String()
}

// span says from what to what a price lies.
func span(least, most market.Credits) string {
	if least == most {
		return least.String()
	}
	return least.String() + " to " + most.String()
}

// first is the part of a list that has room on a page of several.
func first(list any) any {
	v := reflect.ValueOf(list)
	return v.Slice(0, min(v.Len(), pageRows)).Interface()
}

// entry leads to a page from the navigation.
type entry struct{ Path, Name string }

func entries(operator bool) (all []entry) {
	for _, v := range views {
		if path := strings.TrimSuffix(v.path, "{$}"); path == v.here && (operator || !v.operator) {
			all = append(all, entry{path, v.title})
		}
	}
	return all
}
