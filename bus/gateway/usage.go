package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/market"
)

// usage sums up what requests with a key came to, by what was asked for.
type usage struct {
	Object   string   `json:"object"`
	Client   string   `json:"client"`
	Key      string   `json:"key"`
	From     string   `json:"from"`     // the first day of it, UTC
	Complete bool     `json:"complete"` // every hub has said all of its part, from that day on
	Silent   []string `json:"silent,omitempty"`
	Total    sums     `json:"total"`
	Data     []*used  `json:"data"`
}

// used are the sums of a group; what it is not told apart by is left out.
type used struct {
	Day   string            `json:"day,omitempty"`
	Model string            `json:"model,omitempty"`
	Key   string            `json:"key,omitempty"`
	Tags  map[string]string `json:"tags,omitempty"`
	Rest  bool              `json:"rest,omitempty"` // of more tags than are told apart
	sums
}

type sums struct {
	Tasks      int64          `json:"tasks"`
	Prompt     int64          `json:"prompt_tokens"`
	Cached     int64          `json:"cached_tokens"`
	Completion int64          `json:"completion_tokens"`
	Cost       market.Credits `json:"cost"`
	Paid       market.Credits `json:"paid"`
	Refunded   market.Credits `json:"refunded"` // on that day
}

func (s *sums) add(u *tip.Use) {
	s.Tasks, s.Prompt, s.Cached = s.Tasks+u.Tasks, s.Prompt+u.Prompt, s.Cached+u.Cached
	s.Completion, s.Cost, s.Paid = s.Completion+u.Output, s.Cost+u.Cost, s.Paid+u.Paid
	s.Refunded += u.Refunded
}

// grouping names what usage is told apart by.
type grouping struct {
	day, model, key, tags bool
	tag                   []string // of tags, these alone
}

const usageDays = 30 // that are told where nothing else is asked for

// usageAsked reads what is asked: from which day on, and by what.
func usageAsked(r *http.Request, now time.Time) (from int64, by grouping, err error) {
	today := now.Unix() / 86400
	from, by = today-usageDays+1, grouping{day: true, model: true}
	for name, said := range r.URL.Query() {
		switch {
		case len(said) > 1 || name != "from" && name != "by":
			return 0, by, refuse(bus.CodeBadRequest, "%.40q: write ?from=2026-01-31&by=day,model,key,tag or "+
				"by=tag:NAME, each once, or leave it out", name)
		case name == "from":
			day, wrong := time.Parse(time.DateOnly, said[0])
			if from = day.Unix() / 86400; wrong != nil || from < 1 || from > today {
				return 0, by, refuse(bus.CodeBadRequest, "from: %.40q is no day until today: write it as "+
					"2026-01-31 (UTC)", said[0])
			}
			continue
		}
		by = grouping{}
		for part := range strings.SplitSeq(said[0], ",") {
			tag, one := strings.CutPrefix(part, "tag:")
			switch {
			case part == "day":
				by.day = true
			case part == "model":
				by.model = true
			case part == "key":
				by.key = true
			case part == "tag":
				by.tags = true
			case one && len(by.tag) == bus.MaxTag:
				return 0, by, refuse(bus.CodeBadRequest, "by: more than %d tags: no task has as many", bus.MaxTag)
			case one:
				by.tag = append(by.tag, tag)
			default:
				return 0, by, refuse(bus.CodeBadRequest, "by: %.40q is none of day, model, key, tag and "+
					"tag:NAME",
					part)
			}
		}
	}
	return from, by, nil
}

// usage says what requests with the key that asks have come to, by the hubs' books. It counts as a request of
// the key.
func (s *Server) usage(_ http.ResponseWriter, r *http.Request, k *key) ([]byte, error) {
	from, by, err := usageAsked(r, time.Now())
	if err != nil {
		return nil, err
	}
	about := s.keys.about(k)
	var reply bus.FundsReply
	err = s.asks(r, k, func(ctx context.Context, p *payer) (err error) {
		reply, err = p.Uses(ctx, p.id, about.ID, from)
		return err
	})
	if bus.CodeOf(err) == bus.CodeUnknown { // nothing was to happen, so it may be asked again
		return nil, again(bus.CodeUnavailable, time.Second, "the treasury is silent: ask again shortly")
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(usageOf(about, from, by, reply.Hubs))
}

// usageOf adds up what hubs have said.
func usageOf(k *bus.APIKey, from int64, by grouping, hubs []bus.HubFunds) usage {
	out := usage{Object: "usage", Client: k.Client, Key: k.ID, Complete: true, Data: []*used{}}
	groups := map[string]*used{}
	var order []string
	for i := range hubs {
		h := &hubs[i]
		if h.AtMS == 0 {
			out.Complete, out.Silent = false, append(out.Silent, h.Hub)
		}
		out.Complete = out.Complete && h.Since == 0
		for j := range h.Uses {
			u := &h.Uses[j]
			if u.Key != k.ID || u.Day < from {
				continue
			}
			out.Total.add(u)
			name, g := by.group(u)
			if groups[name] == nil {
				groups[name], order = g, append(order, name)
			}
			groups[name].add(u)
		}
	}
	out.From = dayOf(from)
	slices.Sort(order)
	for _, name := range order {
		out.Data = append(out.Data, groups[name])
	}
	return out
}

func dayOf(day int64) string { return time.Unix(day*86400, 0).UTC().Format(time.DateOnly) }

// group returns the name of the group of a sum, and that group, still empty.
func (by *grouping) group(u *tip.Use) (name string, g *used) {
	g = &used{}
	if by.day {
		g.Day = dayOf(u.Day)
	}
	if by.model {
		g.Model = u.Model
	}
	if by.key {
		g.Key = u.Key
	}
	var tags []string
	if g.Rest = u.Tags == tip.Rest && (by.tags || by.tag != nil); !g.Rest {
		for _, t := range bus.ReadTags(u.Tags) {
			if by.tags || slices.Contains(by.tag, t.Name) {
				if g.Tags == nil {
					g.Tags = map[string]string{}
				}
				g.Tags[t.Name] = t.Value
				tags = append(tags, t.Name, t.Value)
			}
		}
	}
	if g.Rest {
		tags = append(tags, tip.Rest)
	}
	for _, part := range append([]string{g.Day, g.Model, g.Key}, tags...) {
		name += strconv.Quote(part) // tags may have any characters
	}
	return name, g
}
