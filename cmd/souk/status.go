package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/cmd/console"
	"souk/cmd/local"
)

// unwell is the exit status of `souk status` where the market answers and something in it is not well.
const unwell = 3

// statusWithin bounds how long the parts of a market are waited for.
const statusWithin = 10 * time.Second

func statusCommand(s *shared) *cobra.Command {
	var reg registry
	format := "page"
	c := &cobra.Command{
		Use:   "status",
		Short: "How the market is, on one page: what is not well, parts, models, money, credentials",
		Long: `Says how a market is: what is not well and what to do about it, which parts run and who leads,
the agents and free slots of each domain, models and prices, the money, and which credentials end soon. It asks
all parts at once, takes some two seconds, and changes nothing. A part that does not answer is named.

What it can say depends on what it may ask. With --data of a market that runs there, or keys of it, that is all.
With --nats and creds of an operator, parts and nodes are listed where --etcd names the registry, too; with
those of a viewer the treasury is not asked.

Exit status: 0 all is well; 3 something is not, and the page begins with it; 1 the market cannot be asked.
Whether the ledger is right is for souk's other command: ledger check.`,
		Example: `  souk status
  souk status -o json --nats tls://10.0.0.1:4222 --creds operator.creds --etcd 10.0.0.1:2379`,
		Args: console.Takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if format != "page" && format != "json" {
				return fmt.Errorf("--output %q: write page or json", format)
			}
			r, err := s.ask(c, &reg, time.Now())
			if err != nil {
				return err
			}
			if format == "json" {
				err = writeJSON(c.OutOrStdout(), r)
			} else {
				err = r.page(c.OutOrStdout())
			}
			if err == nil && !r.Well {
				err = console.Exit(unwell)
			}
			return err
		},
	}
	c.Flags().StringVarP(&format, "output", "o", format, "page or json")
	reg.flags(c.Flags())
	return s.reach(c)
}

// statusReport has all that `souk status` says.
type statusReport struct {
	Market   string    `json:"market"` // its server
	Well     bool      `json:"well"`
	Findings []finding `json:"findings"`
	*local.Survey
	// those that are over or end within natsauth.Warn, and how many there are in all
	Credentials []credential `json:"credentials"`
	Known       int          `json:"credentials_known"`
}

// finding is something that is not well, and what to do about it, where that is known.
type finding struct {
	Part string `json:"part"`
	What string `json:"what"`
	Do   string `json:"do,omitempty"`
}

// credential says until when somebody may come to the market.
type credential struct {
	Role bus.Role  `json:"role"`
	Name string    `json:"name"`
	Ends time.Time `json:"ends"`
}

// ask finds out how the market is.
func (s *shared) ask(c *cobra.Command, reg *registry, now time.Time) (*statusReport, error) {
	link, err := s.dial(bus.RoleOperator, local.Operator)
	money := err == nil
	if errors.Is(err, natsauth.ErrRole) {
		link, err = s.dial(bus.RoleViewer, local.Viewer)
	}
	if err != nil {
		return nil, err
	}
	defer link.Close()
	ctx, cancel := context.WithTimeout(c.Context(), statusWithin)
	defer cancel()
	var r bus.Registry
	var noEtcd error
	if s.nats == "" || len(reg.etcd) > 0 || os.Getenv("SOUK_MARKET_ETCD") != "" {
		at, err := reg.dial(c, s.data, bus.TreasuryKey)
		if noEtcd = err; err == nil {
			defer at.Close()
			r = at
		}
	}
	survey, err := link.Survey(ctx, r, money, link.State().Domains)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bus.Redact(link.State().NATS), err)
	}
	if here := link.State(); survey.Parts != nil && here.PID != 0 && len(here.Processes) == 0 {
		survey.Parts.InOne(here)
	}
	if noEtcd != nil {
		survey.Silent = append(survey.Silent, local.Silence{Part: "etcd", Why: noEtcd.Error()})
	}
	out := &statusReport{Market: bus.Redact(link.State().NATS), Survey: survey}
	all := s.credentials(survey, now)
	out.Known, out.Credentials = len(all), endSoon(all, now)
	out.Findings = findings(survey, out.Credentials, now)
	out.Well = len(out.Findings) == 0
	return out, nil
}

// credentials lists those that are known: of the keys in the data directory, if they are this market's; else
// those that were given; and what hubs and treasury say of their own. One that was made for a short time is
// known in its last third.
func (s *shared) credentials(survey *local.Survey, now time.Time) (all []credential) {
	add := func(role bus.Role, name string, ends time.Time) {
		if !ends.IsZero() && !slices.ContainsFunc(all, func(c credential) bool {
			return c.Role == role && c.Name == name && !c.Ends.After(ends)
		}) {
			all = append(all, credential{role, name, ends.UTC()})
		}
	}
	if len(s.creds) == 0 {
		if keys, err := s.openKeys(); err == nil {
			users, _ := keys.List()
			for _, u := range users {
				left := u.Expires.Sub(now)
				if !u.Revoked && (!u.Brief || 0 < left && left < u.Warn) {
					add(u.Role, u.Name, u.Expires)
				}
			}
		}
	}
	for _, path := range s.creds {
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

// endSoon lists those that are over, or soon will be, the first first.
func endSoon(all []credential, now time.Time) []credential {
	soon := []credential{}
	for _, c := range all {
		if c.Ends.Sub(now) < natsauth.Warn {
			soon = append(soon, c)
		}
	}
	slices.SortFunc(soon, func(a, b credential) int {
		return cmp.Or(a.Ends.Compare(b.Ends), cmp.Compare(a.Name, b.Name))
	})
	return soon
}

// longSilent is how long a hub may say nothing to the treasury: it asks every 5 s.
const longSilent = 30 * time.Second

// findings judges a survey.
func findings(s *local.Survey, soon []credential, now time.Time) []finding {
	all := []finding{}
	add := func(part, do, format string, args ...any) {
		all = append(all, finding{part, fmt.Sprintf(format, args...), do})
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
		all = append(all, hubFindings(&s.Hubs[i], silent["hub "+s.Hubs[i].Domain])...)
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

// hubFindings judges one hub. why it does not answer is "" if it does.
func hubFindings(h *local.HubSurvey, why string) (all []finding) {
	add := func(do, format string, args ...any) {
		all = append(all, finding{"hub " + h.Domain, fmt.Sprintf(format, args...), do})
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
