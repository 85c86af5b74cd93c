package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"souk/bus"
	"souk/bus/follow"
)

// Survey is how a market is at a moment, as far as it says so and the registry knows. Whoever does not answer
// stands in Silent.
type Survey struct {
	AtMS int64       `json:"at_ms"`
	Hubs []HubSurvey `json:"hubs"` // by domain
	// what the treasury says of all money; nil: it was not asked, or did not answer
	Money  *bus.FundsReply `json:"money,omitempty"`
	Parts  *Parts          `json:"parts,omitempty"` // nil: the registry was not asked, or did not answer
	Silent []Silence       `json:"silent,omitempty"`
}

// HubSurvey is a hub's domain, what it says to all, and what it shows who looks on; nil: it says nothing.
type HubSurvey struct {
	Domain string      `json:"domain"`
	Status *bus.Status `json:"status,omitempty"`
	Feed   *bus.Feed   `json:"feed,omitempty"`
}

// Silence is a part of the market that does not answer, and why.
type Silence struct {
	Part string `json:"part"`
	Why  string `json:"why"`
}

// Parts are the processes that the registry names.
type Parts struct {
	Running []Part   `json:"running"`           // treasury, hubs, doors, gateways
	Nodes   int      `json:"nodes"`             // of agents
	Agents  int      `json:"agents"`            // registered
	Lonely  int      `json:"unclaimed"`         // of them, those whose slots no hub sells
	Alone   []string `json:"alone,omitempty"`   // some of these
	Earlier []string `json:"earlier,omitempty"` // journals of hubs that led of late, and do not now
}

// Part is a process of the market by its key in the registry.
type Part struct {
	Kind    string    `json:"kind"` // treasury, hub, door or gateway
	Name    string    `json:"name"` // a hub's is its domain
	Journal string    `json:"journal,omitempty"`
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Started time.Time `json:"started,omitzero"`
}

const (
	answersWithin  = time.Second // of one hub that is asked
	treasuryWithin = 2 * time.Second
	askedAtOnce    = 32   // hubs
	mostHubs       = 1024 // that are asked
	mostAlone      = 10   // agents that are named
)

// Survey listens to the hubs for a moment, asks each how it is, and the treasury for its sums where money is
// set, and reads the registry, unless r is nil. domains are those that there should be.
func (l *Link) Survey(ctx context.Context, r bus.Registry, money bool, domains []string) (*Survey, error) {
	ctx, away := context.WithCancel(ctx)
	defer away()
	w, err := l.Hear(ctx)
	if err != nil {
		return nil, err
	}
	var parts *Parts
	var noParts error
	if r != nil {
		parts, noParts = ReadParts(ctx, r)
	}
	return w.Survey(ctx, parts, noParts, money, domains)
}

// Cards listens to the hubs for a moment, and returns between what the cards of the agents lie that serve
// each model now; none where hubs are not heard.
func (l *Link) Cards(ctx context.Context) map[string]bus.Cards {
	ctx, away := context.WithCancel(ctx)
	defer away()
	w, err := l.Hear(ctx)
	if err != nil {
		return nil
	}
	follow.Pause(ctx, hubsSpeak)
	cards := map[string]bus.Cards{}
	for _, h := range w.Hubs() {
		for _, m := range h.Status.Models {
			if was, ok := cards[m.Model]; ok {
				m.Cards = m.Cards.With(was)
			}
			cards[m.Model] = m.Cards
		}
	}
	return cards
}

// hubsSpeak is the time within which every hub has sent its status: each does once a second.
const hubsSpeak = 1200 * time.Millisecond

// Survey is [Link.Survey] of what the hubs have said already, and of parts that were read of the registry, or
// why they were not.
func (w *Watcher) Survey(ctx context.Context, parts *Parts, noParts error, money bool,
	domains []string) (*Survey, error) {
	if early := hubsSpeak - time.Since(w.since); early > 0 {
		follow.Pause(ctx, early)
	}
	spoken := map[string]bus.Status{}
	for _, h := range w.Hubs() {
		if time.Since(h.Heard) < Lagging {
			spoken[h.Domain] = h.Status
		}
	}
	l := w.link
	s := &Survey{AtMS: time.Now().UnixMilli(), Parts: parts}
	var asking sync.WaitGroup
	var noMoney error
	if money { // just before the hubs, so that the sums are of one moment
		soon, cancel := context.WithTimeout(ctx, treasuryWithin)
		var reply bus.FundsReply
		if reply, noMoney = l.treasury(soon, bus.OpSums, bus.FundsRequest{ID: "sums"}); noMoney == nil {
			s.Money = &reply
		}
		cancel()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	silent := func(part string, err error) {
		if err != nil {
			s.Silent = append(s.Silent, Silence{part, err.Error()})
		}
	}
	silent("treasury", noMoney)
	silent("etcd", noParts)
	all := map[string]bool{}
	for domain := range spoken {
		all[domain] = true
	}
	for _, d := range slices.Concat(domains, s.known()) {
		all[d] = true
	}
	for _, domain := range slices.Sorted(maps.Keys(all)) {
		h := HubSurvey{Domain: domain}
		if status, ok := spoken[domain]; ok {
			h.Status = &status
		}
		s.Hubs = append(s.Hubs, h)
	}
	s.Hubs = s.Hubs[:min(len(s.Hubs), mostHubs)]
	why := make([]error, len(s.Hubs))
	turn := make(chan struct{}, askedAtOnce)
	for i := range s.Hubs {
		turn <- struct{}{}
		asking.Go(func() {
			s.Hubs[i].Feed, why[i] = l.Look(ctx, s.Hubs[i].Domain)
			<-turn
		})
	}
	asking.Wait()
	for i, err := range why {
		silent("hub "+s.Hubs[i].Domain, err)
	}
	return s, ctx.Err()
}

// known lists the domains that treasury and registry know of.
func (s *Survey) known() (domains []string) {
	if s.Money != nil {
		for _, h := range s.Money.Hubs {
			if h.Domain != "" {
				domains = append(domains, h.Domain)
			}
		}
	}
	if s.Parts != nil {
		for _, p := range s.Parts.Running {
			if p.Kind == "hub" {
				domains = append(domains, p.Name)
			}
		}
	}
	return domains
}

// InOne adds what a market that is one process has no keys for: its door, and its gateway.
func (p *Parts) InOne(s State) {
	host, _ := os.Hostname()
	add := func(kind string) {
		p.Running = append(p.Running, Part{Kind: kind, Name: kind, Host: host, PID: s.PID,
			Started: s.Started})
	}
	if add("door"); s.HTTP != "" {
		add("gateway")
	}
}

// Look asks a hub once how it is.
func (l *Link) Look(ctx context.Context, domain string) (*bus.Feed, error) {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	m, err := l.Bus.Request(ctx, bus.Msg{Subject: bus.WatchSubject(domain, l.Name),
		Header: bus.Header{"Content-Type": {"application/msgpack"}}})
	if errors.Is(err, bus.ErrNoResponders) {
		return nil, fmt.Errorf("%w: none leads the domain, or it is of an older version", err)
	}
	if err != nil {
		return nil, err
	}
	f := new(bus.Feed)
	if err := bus.Decode(m.Data, f); err != nil {
		return nil, err
	}
	if f.State == nil {
		return nil, errors.New("its answer says nothing of it as a whole")
	}
	return f, nil
}

// ReadParts reads which processes the registry names. Values that are not understood name nobody.
func ReadParts(ctx context.Context, r bus.Registry) (*Parts, error) {
	p := new(Parts)
	var err error
	each := func(key string, take func(name string, value []byte)) {
		var kvs []bus.KV
		if err == nil {
			kvs, err = r.Get(ctx, key)
		}
		for _, kv := range kvs {
			take(bus.LastElement(kv.Key), kv.Value)
		}
	}
	leads := map[string]bool{}
	for _, kind := range []struct{ name, key string }{{"treasury", bus.TreasuryKey}, {"hub", bus.HubsPrefix},
		{"door", bus.DoorsPrefix}, {"gateway", bus.GatewaysPrefix}} {
		each(kind.key, func(name string, value []byte) {
			x := Part{Kind: kind.name, Name: name}
			_ = json.Unmarshal(value, &x) // its kind and name are the key's
			x.Kind, x.Name = kind.name, name
			leads[x.Journal] = true
			p.Running = append(p.Running, x)
		})
	}
	each(bus.LedPrefix, func(journal string, _ []byte) {
		if !leads[journal] {
			p.Earlier = append(p.Earlier, journal)
		}
	})
	claimed, nodes := map[string]bool{}, map[string]bool{}
	each(bus.ClaimsPrefix, func(agent string, _ []byte) { claimed[agent] = true })
	each(bus.AgentsPrefix, func(agent string, value []byte) {
		var reg struct{ Node string }
		_ = json.Unmarshal(value, &reg)
		p.Agents++
		nodes[cmp.Or(reg.Node, agent)] = true
		if !claimed[agent] {
			if p.Lonely++; len(p.Alone) < mostAlone {
				p.Alone = append(p.Alone, agent)
			}
		}
	})
	p.Nodes = len(nodes)
	slices.SortStableFunc(p.Running, func(a, b Part) int {
		return strings.Compare(a.Kind+a.Name,
			b.Kind+b.Name)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}
