package bench

import (
	"context"
	"fmt"
	"time"

	"souk/bus"
	"souk/cmd/choices"
	"souk/hub"
	"souk/integration/lab/virtual"
	"souk/ledger"
	"souk/market"
)

// desk is a hub's node without wires or disk, and all that it speaks to. Its agents hold what they served.
type desk struct {
	node    *hub.Node
	now     time.Time
	running []*bus.Completion // what agents will say once they are done
	clients int               // that ask in turn
	asked   int
	grants  uint64
	frame   []byte             // the last of its journal, in a buffer that serves for all
	bytes   int                // of its journal
	keep    func(ledger.Frame) // that takes its frames; nil: nobody does
}

func newDesk(agents, slots int) (*desk, error) {
	cfg := choices.Hub()
	cfg.Domain, cfg.Hub, cfg.Journal, cfg.General = "general", "hub-1", "hub-general", true
	cfg.Silence = time.Hour // no summaries here
	node, err := hub.NewNode(cfg, [32]byte{1})
	if err != nil {
		return nil, err
	}
	d := &desk{node: node, now: time.Unix(1_800_000_000, 0), clients: sessions}
	if err := node.Lead(d.now, 1); err != nil {
		return nil, err
	}
	for i := range agents {
		err := node.Join(d.now, bus.Registration{Agent: fmt.Sprintf("agent-%d", i+1), Boot: 1, Model: "tiny",
			Domains: []bus.DomainScore{{Domain: cfg.Domain, Score: virtual.Score}}, MaxModelLen: 8192,
			BlockSize: 16, KVTokens: 65520, Slots: slots, Price: virtual.Card, State: bus.StateReady})
		if err != nil {
			return nil, err
		}
	}
	return d, d.do(d.node.Ready())
}

// sessions is the number of dialogues under way, each with prompts that begin alike.
const sessions = 1000

// ask has a client send the next task.
func (d *desk) ask() error {
	d.asked++
	return d.node.Step(d.now, d.next())
}

// next is the task of that number.
func (d *desk) next() *bus.Task {
	session := d.asked % sessions
	t := &bus.Task{Client: fmt.Sprintf("client-%d", session%d.clients), ID: fmt.Sprintf("t-%d", d.asked),
		Kind: bus.KindChat, Stream: true, Body: deskBody, Inbox: "inbox",
		Session: fmt.Sprintf("session-%d", session)}
	t.Prompt = bus.Prompt{Bytes: (8 + d.asked/sessions%8) * 1024, Messages: 3, Tokens: 2000}
	for at := 512; at <= t.Prompt.Bytes; at += 512 {
		t.Prompt.Prefixes = append(t.Prompt.Prefixes, bus.PrefixHash{Bytes: at, Hash: uint64(session)<<32 |
			uint64(at)})
	}
	return t
}

var deskBody = make([]byte, 8192)

// turn has the hub act, and does what it says until it has nothing more to say.
func (d *desk) turn() error {
	d.node.Tick(d.now)
	for {
		r := d.node.Ready()
		if r.Empty() {
			return nil
		}
		if err := d.do(r); err != nil {
			return err
		}
	}
}

func (d *desk) do(r hub.Ready) error {
	for _, err := range r.Faults {
		return err
	}
	for i := range r.Frames {
		d.frame = ledger.AppendFrame(d.frame[:0], &r.Frames[i])
		d.bytes += len(d.frame)
		if d.keep != nil {
			d.keep(r.Frames[i])
		}
	}
	for i := range r.Dispatches {
		x, agent := &r.Dispatches[i], r.Placed[i].Agent
		yes := &bus.DispatchReply{Agent: agent, Boot: x.Boot, Hold: x.Hold}
		if err := d.node.Step(d.now, yes); err != nil {
			return err
		}
		u := market.Usage{Prompt: x.Task.Prompt.Tokens, Output: 60}
		d.running = append(d.running, &bus.Completion{Agent: agent, Boot: 1, Hold: x.Hold,
			Client: x.Task.Client, Task: x.Task.ID, Outcome: bus.OutcomeDone, Finish: "stop",
			Usage: u, Relayed: u.Output,
			Cost:   market.Settle(x.Settle, x.Price, x.Tariff, x.Quoted, u, x.CostCap),
			TTFTUS: 50_000, ITLUS: 10_000, Inbox: "ack"})
	}
	for _, f := range r.Funds {
		reply := &bus.FundsReply{ID: f.Request.ID, Client: f.Request.Client, Prepaid: market.MaxWorth}
		if f.Op == bus.OpAllot {
			d.grants++
			reply.Grants = []bus.Grant{{Number: d.grants, Client: f.Request.Client, Hub: f.Request.Hub,
				Amount: f.Request.Amount}}
		}
		if err := d.node.Step(d.now, reply); err != nil {
			return err
		}
	}
	return nil
}

// finish has so many of the tasks that run end, those that began first.
func (d *desk) finish(n int) error {
	for _, c := range d.running[:n] {
		if err := d.node.Step(d.now, c); err != nil {
			return err
		}
	}
	d.running = d.running[n:]
	return nil
}

// life is the whole of one task on a hub that has no other.
func (d *desk) life() error {
	d.now = d.now.Add(10 * time.Millisecond)
	if err := d.ask(); err != nil {
		return err
	}
	if err := d.turn(); err != nil {
		return err
	}
	if len(d.running) != 1 {
		return fmt.Errorf("task %d was not served at once", d.asked)
	}
	if err := d.finish(1); err != nil {
		return err
	}
	return d.turn()
}

// lives is the processor time of so many of them for one, in microseconds, and the bytes of its records.
func (d *desk) lives(n int) (us, bytes float64, err error) {
	begin, before := cpu(), d.bytes
	for range n {
		if err := d.life(); err != nil {
			return 0, 0, err
		}
	}
	return micros(cpu()-begin) / float64(n), float64(d.bytes-before) / float64(n), nil
}

// crowd keeps tasks waiting for the seats of a hub whose agents are all full.
type crowd struct {
	*desk
	seats, waiting int
}

func newCrowd(agents, slots, waiting, clients int) (*crowd, error) {
	d, err := newDesk(agents, slots)
	if err != nil {
		return nil, err
	}
	d.clients = clients
	c := &crowd{desk: d, seats: agents * slots, waiting: waiting}
	for len(c.running) < c.seats {
		before := len(c.running)
		if err := c.fill(c.seats); err != nil {
			return nil, err
		}
		if err := c.turn(); err != nil {
			return nil, err
		}
		if len(c.running) == before {
			return nil, fmt.Errorf("%d of %d seats are taken, and no more are given", before, c.seats)
		}
	}
	return c, nil
}

// fill asks until so many wait.
func (c *crowd) fill(n int) error {
	for c.node.Stats().Waiting < n {
		c.now = c.now.Add(time.Millisecond)
		if err := c.ask(); err != nil {
			return err
		}
		if err := c.turn(); err != nil {
			return err
		}
	}
	return nil
}

// round has all seats come free while so many tasks wait, and returns how long the hub took to give them away
// and to write that down, and how many got one.
func (c *crowd) round() (used time.Duration, awards int, err error) {
	if err := c.fill(c.waiting); err != nil {
		return 0, 0, err
	}
	c.now = c.now.Add(30 * time.Millisecond)
	if err := c.finish(len(c.running)); err != nil {
		return 0, 0, err
	}
	begin := cpu()
	c.node.Tick(c.now)
	r := c.node.Ready()
	for i := range r.Frames {
		c.frame = ledger.AppendFrame(c.frame[:0], &r.Frames[i])
	}
	used = cpu() - begin
	awards = len(r.Dispatches)
	if err := c.do(r); err != nil {
		return 0, 0, err
	}
	return used, awards, c.turn()
}

// journal has seats come free a few at a time while so many tasks wait, and returns the bytes of records for
// each task that got one, from its coming to its account.
func (c *crowd) journal(rounds int) (bytes float64, err error) {
	const few = 16
	before, begun := c.bytes, 0
	for range rounds {
		if err := c.fill(c.waiting); err != nil {
			return 0, err
		}
		c.now = c.now.Add(30 * time.Millisecond)
		if err := c.finish(few); err != nil {
			return 0, err
		}
		left := len(c.running)
		if err := c.turn(); err != nil {
			return 0, err
		}
		begun += len(c.running) - left
	}
	if begun == 0 {
		return 0, fmt.Errorf("in %d rounds of %d that wait nobody was given a seat", rounds, c.waiting)
	}
	return float64(c.bytes-before) / float64(begun), nil
}

// journalBars are bytes of records in a crowd, by those of a task alone.
func journalBars(o Options, alone []float64) ([]Bar, error) {
	x, err := repeat(o, "records of a crowd", func() (figures []float64, err error) {
		for _, agents := range []int{16, 1000} {
			c, err := newCrowd(agents, 1, 64, sessions)
			if err != nil {
				return nil, err
			}
			bytes, err := c.journal(40)
			if err != nil {
				return nil, err
			}
			figures = append(figures, bytes)
		}
		return figures, nil
	})
	if err != nil {
		return nil, err
	}
	return []Bar{
		{Name: "hub: journal per task alone, 16 agents", Asked: fmt.Sprintf("at most %d B", aloneBytes),
			Limit: aloneBytes, Unit: "B", Measured: median(alone), Runs: alone},
		ratio("hub: journal per task in a crowd, 16 agents", 2, "alone", "B", x[0], alone,
			"64 wait where 16 seats come free at a time"),
		ratio("hub: the same, 1,000 agents", 1.2, "16 agents", "B", x[1], x[0], ""),
	}, nil
}

func hubBars(_ context.Context, o Options) ([]Bar, error) {
	var bars []Bar
	references := newSolving()

	for _, c := range []struct {
		name                   string
		agents, slots, waiting int
		clients                int
		limit                  float64
	}{
		{"hub: round of 512 waiting for 64 seats", 8, 8, 512, 1000, crowdLimit},
		{"hub: the same, of 100 clients", 8, 8, 512, 100, 0},
		{"hub: round of 2,048 waiting for 64 seats", 8, 8, 2048, 1000, longLimit},
		{"hub: round of 16 on 100 free agents", 100, 1, 16, 1000, roundLimit},
	} {
		awards := 0
		x, err := repeat(o, c.name, func() ([]float64, error) {
			d, err := newCrowd(c.agents, c.slots, c.waiting, c.clients)
			if err != nil {
				return nil, err
			}
			var rounds, loops, searches []time.Duration
			for range 20 {
				used, n, err := d.round()
				if err != nil {
					return nil, err
				}
				rounds = append(rounds, used)
				loops = append(loops, timed(max(used, turn), references.loop))
				searches = append(searches, timed(max(used, turn), references.search.loop))
				awards = n
			}
			return []float64{micros(quantile(rounds, 0.5)), micros(quantile(loops, 0.5)),
				micros(quantile(searches, 0.5))}, nil
		})
		if err != nil {
			return nil, err
		}
		bars = append(bars, references.ratio(c.name, c.limit, x, fmt.Sprintf("quoted, pruned, cleared, "+
			"checked and written, %d awards; the batch window is 10 ms", awards)))
	}

	x, err := repeat(o, "a task alone in a hub", func() ([]float64, error) {
		var ds []*desk
		for _, agents := range []int{16, 20, 200, 1000} {
			d, err := newDesk(agents, 8)
			if err != nil {
				return nil, err
			}
			if _, _, err := d.lives(2 * sessions); err != nil { // everybody has been here
				return nil, err
			}
			ds = append(ds, d)
		}
		figures, err := references.beside(200*time.Millisecond, ds[0].life)
		if err != nil {
			return nil, err
		}
		const turns = 20 // of all hubs, so that they see the same machine
		us, bytes := make([][]float64, len(ds)), make([]float64, len(ds))
		for range turns {
			for i, d := range ds {
				u, b, err := d.lives(2 * sessions / turns)
				if err != nil {
					return nil, err
				}
				us[i], bytes[i] = append(us[i], u), bytes[i]+b/turns
			}
		}
		for i := range ds {
			figures = append(figures, median(us[i]), bytes[i])
		}
		return figures, nil
	})
	if err != nil {
		return nil, err
	}
	const us, bytes = 3, 4
	of := func(agents, figure int) []float64 { return x[2*agents+figure] }
	journals, err := journalBars(o, of(0, bytes))
	if err != nil {
		return nil, err
	}
	return append(append(bars,
		references.ratio("hub: CPU per task alone, 16 agents", aloneLimit, x,
			"from the task's coming to its account, a round of one task; no wires, no disk"),
		ratio("hub: the same, 200 agents", 2, "20 agents", "us", of(2, us), of(1, us), ""),
		ratio("hub: the same, 1,000 agents", 0, "20 agents", "us", of(3, us), of(1, us), ""),
		ratio("hub: journal per task, 1,000 agents", 1.2, "16 agents", "B", of(3, bytes), of(0, bytes),
			"")), journals...), nil
}

// Bars in searches: what was asked of those that wait, and what the other rows measured when they were
// written and a fifth more.
const (
	crowdLimit = 60
	longLimit  = 150
	roundLimit = 6.5 // 50 loops were asked for the quotes of such a round alone
	aloneLimit = 1.17
	aloneBytes = 675 // before tasks were planned for slots to come
)

// crowdSeeds is a number of seeds at which the market's gain or loss can be told from what the seeds differ
// by.
const crowdSeeds = 20

// crowdBars play the crowd in virtual time, where figures depend on nothing but the seed.
func crowdBars(ctx context.Context, o Options) ([]Bar, error) {
	play := virtual.CrowdOptions{Traces: []string{"crowd", "spread"}, World: virtual.World{Tasks: 3000},
		Rules: []string{"two-block", virtual.MarketName}, Progress: func(int, int) {}}
	for i := range crowdSeeds {
		play.Seeds = append(play.Seeds, uint64(i+1))
	}
	fmt.Fprintf(o.Progress, "playing the crowd in virtual time, %d seeds\n", crowdSeeds)
	rows, err := virtual.Crowd(ctx, play)
	if err != nil {
		return nil, err
	}
	each := func(trace int, of func(rule, market *virtual.Measures) float64) (xs []float64) {
		for i := range play.Seeds {
			xs = append(xs, of(&rows[2*trace].Seeds[i], &rows[2*trace+1].Seeds[i]))
		}
		return xs
	}
	beside := func(name, asked string, limit float64, atLeast bool, xs []float64, note string) Bar {
		b := Bar{Name: name, Asked: asked, Limit: limit, AtLeast: atLeast, Runs: xs, Note: note}
		b.Measured, b.Low, b.High = between(xs)
		return b
	}
	const even, spread = 0, 1 // traces
	type f = virtual.Measures
	return []Bar{
		beside("crowd: cached share, less two-block's", "at least -0.005", -0.005, true,
			each(even, func(a, b *f) float64 { return b.Share - a.Share }),
			fmt.Sprintf("virtual time: 128 callers for the 64 slots of eight engines, session names not told; "+
				"%d seeds", crowdSeeds)),
		(&turns{each(even, func(_, b *f) float64 { return b.P99 }),
			each(even, func(a, _ *f) float64 { return a.P99 })}).bar("crowd: TTFT p99", 1.15, "two-block",
			"ms", ""),
		beside("crowd: work max/mean, less two-block's", "at most 0.1", 0.1, false,
			each(even, func(a, b *f) float64 { return b.Work - a.Work }), ""),
		beside("crowd: welfare, by two-block's", "at least 0.97", 0.97, true,
			each(even, func(a, b *f) float64 { return b.Welfare / a.Welfare }), ""),
		beside("crowd, worths a hundredfold: the same", "at least 1", 1, true,
			each(spread, func(a, b *f) float64 { return b.Welfare / a.Welfare }), ""),
	}, nil
}
