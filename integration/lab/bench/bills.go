package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"souk/bus"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/market"
)

// Bars of what ordinary clients get over HTTP who say nothing of terms: two that share eight slots, and a
// crowd behind one key. Engines are simulated at the speed that was measured, Llama 3.1 8B on one GPU each.
const (
	billLimit       = 1.5 // times the card, of each client's tasks together
	dearestLimit    = 2   // of any task
	fairLimit       = 1.2 // p50 of the small client's first tokens by the large one's
	shareLimit      = 0.87
	crowdFirstLimit = 2 // seconds, p99 of first tokens
)

// billsLast is how long each crowd asks; the first billsWarm of it is not measured.
const (
	billsLast = 150 * time.Second
	billsWarm = 30 * time.Second
)

func billBars(ctx context.Context, o Options) ([]Bar, error) {
	var refused, tasks float64
	two, err := repeat(o, "bills of two clients over HTTP", func() ([]float64, error) {
		all, err := o.overHTTP(ctx, 2, 4, map[string]int{"large": 40, "small": 2})
		if err != nil {
			return nil, err
		}
		large, small := ofClient(all, "large"), ofClient(all, "small")
		refused, tasks = refused+float64(failed(all)), tasks+float64(len(all))
		return []float64{bill(large), bill(small), dearest(all), first(small, 0.5) / first(large, 0.5)}, nil
	})
	if err != nil {
		return nil, err
	}
	crowd, err := repeat(o, "a crowd behind one key over HTTP", func() ([]float64, error) {
		all, err := o.overHTTP(ctx, 8, 8, map[string]int{"crowd": 128})
		return []float64{share(all), first(all, 0.99), bill(all)}, err
	})
	if err != nil {
		return nil, err
	}
	bar := func(name string, limit float64, atLeast bool, unit string, runs []float64, note string) Bar {
		word := "at most"
		if atLeast {
			word = "at least"
		}
		asked := strings.TrimSpace(fmt.Sprintf("%s %g %s", word, limit, unit))
		return Bar{Name: name, Asked: asked, Limit: limit, AtLeast: atLeast,
			Measured: median(runs), Unit: unit, Runs: runs, Note: note}
	}
	return []Bar{
		bar("bills over HTTP: client with 40 callers", billLimit, false, "x card", two[0],
			fmt.Sprintf("beside one with 2, eight slots, mtRAG, nobody says terms; %.0f tasks a run, %.0f refused",
				tasks/float64(o.Runs), refused/float64(o.Runs))),
		bar("bills over HTTP: client with 2 callers", billLimit, false, "x card", two[1], ""),
		bar("bills over HTTP: the dearest task", dearestLimit, false, "x card", two[2], ""),
		bar("bills over HTTP: p50 of first tokens, small by large", fairLimit, false, "", two[3], ""),
		bar("crowd over HTTP: cached share", shareLimit, true, "", crowd[0],
			"128 callers behind one key, 64 slots, mtRAG"),
		bar("crowd over HTTP: first tokens, p99", crowdFirstLimit, false, "s", crowd[1],
			fmt.Sprintf("its bill is %.2f times the card", median(crowd[2]))),
	}, nil
}

// served is a task that was asked over HTTP.
type served struct {
	client         string
	failed         bool
	first          time.Duration
	cost, paid     market.Credits
	prompt, cached int
}

func ofClient(all []served, client string) (own []served) {
	for _, x := range all {
		if x.client == client {
			own = append(own, x)
		}
	}
	return own
}

func failed(all []served) (n int) {
	for _, x := range all {
		if x.failed {
			n++
		}
	}
	return n
}

// bill returns the ratio of the payments to the costs of all tasks together.
func bill(all []served) float64 {
	cost, paid := 0.0, 0.0
	for _, x := range all {
		cost, paid = cost+float64(x.cost), paid+float64(x.paid)
	}
	return paid / cost
}

func dearest(all []served) (most float64) {
	for _, x := range all {
		if x.cost > 0 {
			most = max(most, float64(x.paid)/float64(x.cost))
		}
	}
	return most
}

// first is a quantile of the times of first tokens, in seconds.
func first(all []served, q float64) float64 {
	var ds []time.Duration
	for _, x := range all {
		if !x.failed {
			ds = append(ds, x.first)
		}
	}
	return quantile(ds, q).Seconds()
}

// share is the part of all prompt tokens that was found in a cache.
func share(all []served) float64 {
	prompt, cached := 0, 0
	for _, x := range all {
		prompt, cached = prompt+x.prompt, cached+x.cached
	}
	return float64(cached) / float64(max(1, prompt))
}

// overHTTP plays mtRAG's conversations through a market with so many agents of so many slots and a gateway
// beside it: each client has a key as `souk key new` makes it and so many callers, each of whom says the next
// turn as soon as the last is answered.
func (o Options) overHTTP(ctx context.Context, agents, slots int, clients map[string]int) (all []served,
	err error) {
	dir, err := os.MkdirTemp("", "lab-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p := place{dir: dir}
	recorded, err := replay.BundledSet("mtrag.jsonl.gz")
	if err != nil {
		return nil, err
	}
	dialogues := apart(recorded, conversations)
	cfg := configOf(local.Engine{Profile: "rtxpro6000-llama-3.1-8b"}, agents, slots)
	for i := range cfg.Agents {
		cfg.Agents[i].Model = "llama-3.1-8b"
	}
	m, err := local.Start(ctx, local.Options{Dir: dir + "/market", Config: cfg, Known: dialogues})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Err(), m.Close()) }()
	creds, err := m.Keys.Ensure(bus.RoleGateway, bus.IDs{Name: "beside"}, time.Now())
	if err != nil {
		return nil, err
	}
	key, err := putKey(ctx, m.Registry, "dev")
	if err != nil {
		return nil, err
	}
	keys := map[string]string{}
	for client := range clients {
		if _, err := m.Link.Fund(ctx, client, 1000*market.Credit, "bench-"+client); err != nil {
			return nil, err
		}
		if keys[client], err = putKey(ctx, m.Registry, client); err != nil {
			return nil, err
		}
	}
	err = p.besideGateway(ctx, o, m.State, creds, key, func(g *httpDoor) error {
		all, err = g.play(ctx, dialogues, clients, keys)
		return err
	})
	return all, err
}

// conversations are more than are played.
const conversations = 6000

// apart are so many conversations of which no two begin alike, so that each is cached for itself alone.
func apart(of []replay.Dialogue, n int) (all []replay.Dialogue) {
	for i := range n {
		d := of[i%len(of)]
		d.Turns = slices.Clone(d.Turns)
		d.Turns[0].User = fmt.Sprintf("Conversation %d. %s", i+1, d.Turns[0].User)
		all = append(all, d)
	}
	return all
}

// play has all callers ask for billsLast, and returns the tasks that began after billsWarm.
func (g *httpDoor) play(ctx context.Context, dialogues []replay.Dialogue, clients map[string]int,
	keys map[string]string) (all []served, err error) {
	begun := time.Now()
	ctx, stop := context.WithTimeout(ctx, 2*billsLast)
	defer stop()
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := rand.New(rand.NewPCG(49, 0)).Perm(len(dialogues))
	take := func() replay.Dialogue {
		mu.Lock()
		defer mu.Unlock()
		d := dialogues[next[0]]
		next = append(next[1:], next[0])
		return d
	}
	for client, callers := range clients {
		for range callers {
			wg.Go(func() {
				for ctx.Err() == nil && time.Since(begun) < billsLast {
					for _, body := range bodies(take()) {
						at := time.Since(begun)
						x, wrong := g.converse(ctx, keys[client], body)
						x.client = client
						mu.Lock()
						err = errors.Join(err, wrong)
						if at > billsWarm {
							all = append(all, x)
						}
						mu.Unlock()
						if wrong != nil || x.failed || time.Since(begun) > billsLast {
							break
						}
					}
				}
			})
		}
	}
	wg.Wait()
	return all, err
}

// bodies are the requests of a conversation, each with the recorded answers before it.
func bodies(d replay.Dialogue) (all [][]byte) {
	type said struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var messages []said
	if d.System != "" {
		messages = append(messages, said{"system", d.System})
	}
	for _, t := range d.Turns {
		messages = append(messages, said{"user", t.User})
		body, _ := json.Marshal(map[string]any{"model": "auto", "messages": messages, "stream": true,
			"stream_options": map[string]bool{"include_usage": true}})
		all = append(all, body)
		messages = append(messages, said{"assistant", t.Answer})
	}
	return all
}

// converse asks for one answer. One that the market refuses is no error.
func (g *httpDoor) converse(ctx context.Context, key string, body []byte) (x served, err error) {
	begun := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/chat/completions",
		bytes.NewReader(body))
	if err != nil {
		return x, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	a, err := g.web.Do(r)
	if err != nil {
		return x, err
	}
	defer a.Body.Close()
	if x.failed = a.StatusCode != http.StatusOK; x.failed {
		_, err = io.Copy(io.Discard, a.Body)
		return x, err
	}
	for lines := bufio.NewReader(a.Body); ; {
		line, err := lines.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data: {")); ok {
			x.take(append([]byte("{"), data...), time.Since(begun))
		}
		if err == io.EOF {
			return x, nil
		} else if err != nil {
			return x, err
		}
	}
}

// take reads an event that came so long after the request.
func (x *served) take(event []byte, after time.Duration) {
	var e struct {
		Choices []struct {
			Delta struct{ Content string }
		}
		Souk struct{ Cost, Paid json.Number }
		// of all choices
		Usage *struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
		Error json.RawMessage
	}
	if json.Unmarshal(event, &e) != nil || len(e.Error) > 0 {
		x.failed = true
		return
	}
	if x.first == 0 && len(e.Choices) > 0 && e.Choices[0].Delta.Content != "" {
		x.first = after
	}
	if e.Souk.Paid != "" {
		x.cost, _ = market.ParseCredits(e.Souk.Cost.String())
		x.paid, _ = market.ParseCredits(e.Souk.Paid.String())
	}
	if e.Usage != nil {
		x.prompt, x.cached = e.Usage.Prompt, e.Usage.Details.Cached
	}
}
