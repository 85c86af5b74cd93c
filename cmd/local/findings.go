package local

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/natsauth"
)

// Report has all that a page about a market says.
type Report struct {
	Market   string    `json:"market"` // its server
	Well     bool      `json:"well"`
	Findings []Finding `json:"findings"`
	*Survey
	// those that are over or end within natsauth.Warn, and how many there are in all
	Credentials []Credential `json:"credentials"`
	Known       int          `json:"credentials_known"`
}

// Finding is something that is not well, and what to do about it, where that is known.
type Finding struct {
	Part string `json:"part"`
	What string `json:"what"`
	Do   string `json:"do,omitempty"`
}

// Credential says until when somebody may come to the market.
type Credential struct {
	Role bus.Role  `json:"role"`
	Name string    `json:"name"`
	Ends time.Time `json:"ends"`
}

// Lookout holds what somebody who looks on at a market reaches of it.
type Lookout struct {
	Reach    Reach
	Link     *Link
	Money    bool         // it may ask the treasury
	Registry bus.Registry // nil: it is not read
	NoEtcd   error        // why it cannot be read, where it should be
}

// Lookout looks on from inside the market's process, until the market ends.
func (m *Market) Lookout() (*Lookout, error) {
	link := newLink(m.Link.connect, bus.RoleOperator, m.State)
	if err := link.open(Operator); err != nil {
		return nil, err
	}
	m.opened = append(m.opened, link.Close)
	return &Lookout{Reach: m.Reach(), Link: link, Money: true, Registry: m.Registry}, nil
}

// Report judges a survey.
func (l *Lookout) Report(survey *Survey, now time.Time) *Report {
	at := l.Link.State
	if survey.Parts != nil && at.PID != 0 && len(at.Processes) == 0 {
		survey.Parts.InOne(at)
	}
	out := &Report{Market: bus.Redact(at.NATS), Survey: survey}
	all := l.Reach.Credentials(survey, now)
	out.Known, out.Credentials = len(all), EndSoon(all, now)
	out.Findings = Findings(survey, out.Credentials, now)
	out.Well = len(out.Findings) == 0
	return out
}

// Credentials lists those that are known: of the keys in the data directory, if they are this market's; else
// those that were given; and what hubs and treasury say of their own. One that was made for a short time is
// known in its last third.
func (r Reach) Credentials(survey *Survey, now time.Time) (all []Credential) {
	add := func(role bus.Role, name string, ends time.Time) {
		if !ends.IsZero() && !slices.ContainsFunc(all, func(c Credential) bool {
			return c.Role == role && c.Name == name && !c.Ends.After(ends)
		}) {
			all = append(all, Credential{role, name, ends.UTC()})
		}
	}
	if len(r.Creds) == 0 {
		if keys, err := natsauth.Open(natsauth.Dir(r.Data)); err == nil {
			users, _ := keys.List()
			for _, u := range users {
				left := u.Expires.Sub(now)
				if !u.Revoked && (!u.Brief || 0 < left && left < u.Warn) {
					add(u.Role, u.Name, u.Expires)
				}
			}
		}
	}
	for _, path := range r.Creds {
		if i, err := natsauth.ReadFile(path); err == nil {
			add(i.Role, i.Name, i.Expires)
		}
	}
	for _, h := range survey.Hubs {
		if f := h.Feed; f != nil && f.State.Expires > 0 {
			add(bus.RoleHub, f.Journal, time.UnixMilli(f.State.Expires))
		}
	}
	if m := survey.Money; m != nil && m.Expires > 0 {
		add(bus.RoleTreasury, "treasury", time.UnixMilli(m.Expires))
	}
	return all
}

// EndSoon lists those that are over, or soon will be, the first first.
func EndSoon(all []Credential, now time.Time) []Credential {
	soon := []Credential{}
	for _, c := range all {
		if c.Ends.Sub(now) < natsauth.Warn {
			soon = append(soon, c)
		}
	}
	slices.SortFunc(soon, func(a, b Credential) int {
		return cmp.Or(a.Ends.Compare(b.Ends), cmp.Compare(a.Name, b.Name))
	})
	return soon
}

// longSilent is how long a hub may say nothing to the treasury: it asks every 5 s.
const longSilent = 30 * time.Second

// Findings judges a survey.
func Findings(s *Survey, soon []Credential, now time.Time) []Finding {
	all := []Finding{}
	add := func(part, do, format string, args ...any) {
		all = append(all, Finding{part, fmt.Sprintf(format, args...), do})
	}
	silent := map[string]string{}
	for _, x := range s.Silent {
		silent[x.Part] = x.Why
	}
	if why, ok := silent["treasury"]; ok {
		add("treasury", "see that it runs, and its log", "it does not answer, so no money moves: %s", why)
	}
	if why, ok := silent["etcd"]; ok {
		add("etcd", "", "it does not answer, so parts and nodes are not listed: %s", why)
	}
	if len(s.Hubs) == 0 {
		add("hubs", "start them, and see their logs", "none says how it is")
	}
	for i := range s.Hubs {
		all = append(all, hubFindings(&s.Hubs[i], silent["hub "+s.Hubs[i].Domain], s.AtMS)...)
	}
	if s.Money != nil {
		for _, h := range s.Money.Hubs {
			told := h.Domain != "" // its domain is a row of its own
			if ago := now.Sub(time.UnixMilli(h.HeardMS)); !told && h.HeardMS > 0 && ago > longSilent {
				add("hub "+h.Hub, "start it; souk writeoff "+h.Hub+" if its journal is gone for good",
					"the treasury has heard nothing of it for %v, and it has %s credits of clients",
					ago.Round(time.Second), h.Allotted)
			}
		}
	}
	if p := s.Parts; p != nil {
		has := map[string]bool{}
		for _, x := range p.Running {
			has[x.Kind] = true
		}
		if !has["door"] {
			add("doors", "start a classifier", "the registry names none, so no task is placed")
		}
		if !has["treasury"] {
			add("treasury", "start it, or see its log", "none leads")
		}
		if p.Lonely > 0 {
			add("agents", "see that a hub of the first domain of each runs, and its log",
				"%d have no hub that sells their slots: %s", p.Lonely, some(p.Alone, p.Lonely))
		}
		for _, j := range p.Earlier {
			add("hub "+j, "start it, unless it has ended",
				"it led within the last %v, and nobody leads by its journal",
				bus.LedFor)
		}
	}
	for _, c := range soon {
		what := fmt.Sprintf("ends in %s, on %s", days(c.Ends.Sub(now)), c.Ends.Format("2006-01-02 15:04 MST"))
		if !now.Before(c.Ends) {
			what = "ended on " + c.Ends.Format("2006-01-02 15:04 MST")
		}
		add("credentials", "souk auth renew "+c.Name+", and give it the new files where it has its own",
			"of %s %s: %s", c.Role, c.Name, what)
	}
	return all
}

// clockOff is how far a hub's clock may be from that of who asks.
const clockOff = 5 * time.Second

// hubFindings judges one hub. why it does not answer is "" if it does.
func hubFindings(h *HubSurvey, why string, atMS int64) (all []Finding) {
	add := func(do, format string, args ...any) {
		all = append(all, Finding{"hub " + h.Domain, fmt.Sprintf(format, args...), do})
	}
	switch {
	case h.Status == nil:
		add("start it, or see its log; runbook: A hub that is lost",
			"it says nothing: no task of %s is served",
			h.Domain)
		return all
	case h.Status.Closed != "":
		add("", "it takes no task: %s", h.Status.Closed)
	case h.Feed != nil && h.Feed.State.Unready != "":
		add("", "it does not sell: %s", h.Feed.State.Unready)
	case why != "":
		add("see its log", "it does not answer: %s", why)
	}
	if h.Status.Agents == 0 {
		add("start agentd on its nodes, and see their logs", "it has no agents")
	}
	for _, p := range h.Status.Policies {
		if p.OffMS > 0 {
			add("", "policy %s of %s is off: %s", p.Policy, p.Hook, p.Why)
		}
	}
	if h.Feed == nil {
		return all
	}
	off := time.Duration(h.Feed.AtMS-atMS) * time.Millisecond
	if off > clockOff || off < -clockOff {
		add("see that both machines keep time, by NTP", "its clock is %v off this machine's",
			off.Round(time.Second))
	}
	st := h.Feed.State
	if st.Faults > 0 {
		add("see its log: must not happen; runbook: Errors in a log", "%d faults since its start", st.Faults)
	}
	for _, state := range []string{"dead", "silent"} {
		var names []string
		for _, a := range st.Agents {
			if a.State == state {
				names = append(names, a.Agent)
			}
		}
		if len(names) > 0 {
			add("see that agentd runs there, and its log", "agents %s: %s", state, some(names, len(names)))
		}
	}
	return all
}

// some names a few of n.
func some(names []string, n int) string {
	const few = 3
	text := strings.Join(names[:min(few, len(names))], ", ")
	if n > few {
		text += fmt.Sprintf(" and %d more", n-few)
	}
	return text
}

// days says a time until something ends.
func days(d time.Duration) string {
	switch n := int(d / (24 * time.Hour)); {
	case n > 1:
		return fmt.Sprintf("%d days", n)
	case n == 1:
		return "1 day"
	}
	return d.Round(time.Minute).String()
}
