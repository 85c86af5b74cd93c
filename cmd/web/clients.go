package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/cmd/local"
	"souk/market"
)

// clientRow is a client that has keys, and its money.
type clientRow struct {
	Client string
	Keys   []bus.APIKey
	money
}

// money sums up a client's money, and what its tasks came to of late.
type money struct {
	Has, Held, Spent market.Credits // at the treasury and at hubs; of it held; paid less what came back
	Tasks            int64
	Silent           []string // hubs that did not answer, and are in no sum
	Err              string   // why nothing is known
	reply            bus.FundsReply
}

const (
	spendDays     = 30 // of which is told what tasks came to
	clientsOnPage = 25 // each of which is asked for, all at once
)

type clientsPage struct {
	rowsFrom[clientRow]
	Days  int
	NoKey string // why keys are not listed
}

func (s *Server) clients(r *http.Request, _ Role) (any, error) {
	c := &clientsPage{Days: spendDays}
	all, why := s.keys(r.Context())
	c.NoKey = why
	by := map[string]int{}
	var rows []clientRow
	for _, k := range all {
		at, known := by[k.Client]
		if !known {
			at = len(rows)
			by[k.Client], rows = at, append(rows, clientRow{Client: k.Client})
		}
		rows[at].Keys = append(rows[at].Keys, k)
	}
	slices.SortFunc(rows, func(a, b clientRow) int { return cmp.Compare(a.Client, b.Client) })
	c.rowsFrom = cutRows(rows, clientsOnPage, r.URL)
	var asking sync.WaitGroup
	for i := range c.Rows {
		asking.Go(func() { c.Rows[i].money = s.money(r.Context(), c.Rows[i].Client) })
	}
	asking.Wait()
	return c, nil
}

// keys lists the keys of the registry, or says why there are none.
func (s *Server) keys(ctx context.Context) (all []bus.APIKey, why string) {
	if s.market.Registry == nil {
		why = "The registry is not read: name it by --etcd."
		if s.market.NoEtcd != nil {
			why = s.market.NoEtcd.Error()
		}
		return nil, why
	}
	all, err := local.Keys(ctx, s.market.Registry)
	if err != nil {
		return nil, err.Error()
	}
	return all, ""
}

// money asks what a client has.
func (s *Server) money(ctx context.Context, client string) (m money) {
	if !s.market.Money {
		m.Err = "The treasury is not asked: the console's creds are a viewer's."
		return m
	}
	var err error
	if m.reply, err = s.market.Link.Uses(ctx, client, since(time.Now())); err != nil {
		m.Err = err.Error()
		return m
	}
	m.Has = m.reply.Prepaid
	for _, h := range m.reply.Hubs {
		if h.AtMS == 0 {
			m.Silent = append(m.Silent, h.Hub)
			continue
		}
		m.Has, m.Held = m.Has+h.Avail+h.Held, m.Held+h.Held
		for _, u := range h.Uses {
			m.Spent, m.Tasks = m.Spent+u.Paid-u.Refunded, m.Tasks+u.Tasks
		}
	}
	return m
}

// since is the first day of which is told what tasks came to.
func since(now time.Time) int64 { return max(1, now.Unix()/86400-spendDays+1) }

// useRow sums up what tasks with a key came to at a model.
type useRow struct {
	Key, Model                    string
	Tasks, Prompt, Cached, Output int64
	Cost, Paid, Refunded          market.Credits
}

type clientPage struct {
	clientRow
	Prepaid market.Credits
	Hubs    []bus.HubFunds
	Uses    []useRow
	Days    int
	Day     []dayRow
}

// dayRow sums up what tasks of a day came to.
type dayRow struct {
	Day  string
	Paid market.Credits
	Of   int // hundredths of the dearest day
}

func (s *Server) client(r *http.Request, _ Role) (any, error) {
	name := strings.TrimSpace(r.URL.Query().Get("name"))
	if err := bus.CheckID("client", name); err != nil {
		return nil, noPage{err}
	}
	c := &clientPage{clientRow: clientRow{Client: name}, Days: spendDays}
	all, _ := s.keys(r.Context())
	for _, k := range all {
		if k.Client == name {
			c.Keys = append(c.Keys, k)
		}
	}
	c.money = s.money(r.Context(), name)
	c.Prepaid, c.Hubs = c.reply.Prepaid, c.reply.Hubs
	c.Uses, c.Day = usesOf(c.Hubs)
	return c, nil
}

// usesOf sums up what tasks came to, by key and model, and by day.
func usesOf(hubs []bus.HubFunds) (uses []useRow, days []dayRow) {
	by, paid := map[[2]string]*useRow{}, map[int64]market.Credits{}
	each := func(u *tip.Use) {
		paid[u.Day] += u.Paid - u.Refunded
		x := by[[2]string{u.Key, u.Model}]
		if x == nil {
			x = &useRow{Key: u.Key, Model: u.Model}
			by[[2]string{u.Key, u.Model}] = x
		}
		x.Tasks, x.Prompt, x.Cached, x.Output = x.Tasks+u.Tasks, x.Prompt+u.Prompt, x.Cached+u.Cached,
			x.Output+u.Output
		x.Cost, x.Paid, x.Refunded = x.Cost+u.Cost, x.Paid+u.Paid, x.Refunded+u.Refunded
	}
	for i := range hubs {
		for k := range hubs[i].Uses {
			each(&hubs[i].Uses[k])
		}
	}
	for _, x := range by {
		uses = append(uses, *x)
	}
	slices.SortFunc(uses, func(a, b useRow) int {
		return cmp.Or(-cmp.Compare(a.Paid, b.Paid), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Model, b.Model))
	})
	var most market.Credits
	for day, p := range paid {
		most = max(most, p)
		days = append(days, dayRow{Day: time.Unix(day*86400, 0).UTC().Format(time.DateOnly), Paid: p})
	}
	slices.SortFunc(days, func(a, b dayRow) int { return cmp.Compare(a.Day, b.Day) })
	for i := range days {
		days[i].Of = int(100 * float64(max(0, days[i].Paid)) / float64(max(1, most)))
	}
	return uses[:min(len(uses), pageRows)], days
}
