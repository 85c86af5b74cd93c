package inspect

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/market"
)

// writer is a journal in the making.
type writer struct {
	name   string
	book   *ledger.Book
	frames []ledger.Frame
	holds  []ledger.Hold  // open
	held   map[string]int // frames of all, by receipt
}

// paid is a payment as the market of a test remembers it.
type paid struct {
	at                        time.Time
	client, agent, model, key string
	tags                      []bus.Tag
	use                       market.Usage
	cost, paid                market.Credits
	remitted                  market.Credits // instead, to the agent
	refunded                  market.Credits // of an earlier one, and by whom
	by                        string
	// of a payment, for refunds: the frames of its hold and its end, where it is, and what came back
	w         *writer
	receipt   string
	held, end int
	back      market.Credits
}

// moved is money of a client that came or went, but for tasks.
type moved struct {
	at     time.Time
	client string
	what   string
	amount market.Credits
}

// fair is a market at random: two hubs and a treasury, whose journals are written by the rules, and what the
// market remembers of all that, in lists.
type fair struct {
	t        *testing.T
	rng      *rand.Rand
	now      time.Time
	treasury *writer
	hubs     []*writer
	salt     byte
	deposits int
	pending  []func() // the other journal's half of what went from one to the other

	paid     []paid
	moved    []moved
	remitted market.Credits
	left     market.Credits // of surplus, to clients
}

var (
	fairClients = []string{"ann", "Ann", "bob", "_b-o-b"}
	fairModels  = []string{"m/7b", "<b>m</b>", "=1+1", "M/7b"}
	fairTags    = [][]bus.Tag{nil, {{Name: "user", Value: "ann"}}, {{Name: "user", Value: "Ann"}},
		{{Name: "user", Value: "\x1b[31m<script>"}, {Name: "team", Value: "a=b&c"}}}
)

// longID names a task that gets nothing: with it some thirty rounds fill a segment.
var longID = market.TaskID(strings.Repeat("x", 128<<10))

func newFair(t *testing.T, seed uint64, steps int) *fair {
	f := &fair{t: t, rng: rand.New(rand.NewPCG(seed, 3)), now: time.Date(2026, 9, 28, 22, 0, 0, 0, time.UTC)}
	f.treasury = f.writer("treasury", ledger.RoleTreasury)
	f.hubs = []*writer{f.writer("hub-law", ledger.RoleHub), f.writer("hub-maths", ledger.RoleHub)}
	for range steps {
		f.now = f.now.Add(time.Duration(f.rng.Int64N(int64(6 * time.Hour))))
		f.step()
	}
	return f
}

func (f *fair) writer(name, role string) *writer {
	w := &writer{name: name, book: ledger.NewBook(), held: map[string]int{}}
	domain := ""
	if role == ledger.RoleHub {
		domain = name
	}
	f.write(w, ledger.NewOpen(name, role, domain, f.nextSalt()))
	return w
}

func (f *fair) nextSalt() (s [16]byte) { f.salt++; s[0] = f.salt; return s }

func (f *fair) write(w *writer, records ...ledger.Record) {
	seq, _, at := w.book.Last()
	frame := ledger.Frame{Version: ledger.FrameVersion, Epoch: 1, Seq: seq + 1,
		Time: max(at, f.now.UnixNano()), Records: records}
	if err := w.book.ApplyFrame(frame); err != nil {
		f.t.Fatal(err)
	}
	w.frames = append(w.frames, frame)
}

func pick[T any](f *fair, from []T) T { return from[f.rng.IntN(len(from))] }

func (f *fair) amount(most market.Credits) market.Credits {
	return 1 + market.Credits(f.rng.Int64N(max(1, int64(most))))
}

// step does one thing that can be done.
func (f *fair) step() {
	client, w := pick(f, fairClients), pick(f, f.hubs)
	prepaid, _ := f.treasury.book.Prepaid(client)
	switch n := f.rng.IntN(17); {
	case n > 13:
		f.order(w, []string{"refund", "remit", "distribute"}[n-14], client)
	case len(f.pending) > 0 && n < 3:
		f.pending[0]()
		f.pending = f.pending[1:]
	case n < 4 || f.deposits < 4:
		f.deposits++
		a := f.amount(5 * market.Credit)
		f.write(f.treasury, ledger.NewDeposit(fmt.Sprint("d", f.deposits), client, a, nil, f.nextSalt()))
		f.moved = append(f.moved, moved{f.now, client, "deposit", a})
	case n < 5 && prepaid > 10:
		f.deposits++
		a := f.amount(prepaid / 10)
		f.write(f.treasury, ledger.NewPayout(fmt.Sprint("p", f.deposits), client, a, nil, f.nextSalt()))
		f.moved = append(f.moved, moved{f.now, client, "withdrawal", -a})
	case n < 6 && prepaid > 10:
		f.deposits++
		to := pick(f, fairClients)
		if to == client {
			return
		}
		a := f.amount(prepaid / 10)
		f.write(f.treasury, ledger.NewMove(fmt.Sprint("m", f.deposits), client, to, a, nil, f.nextSalt()))
		f.moved = append(f.moved, moved{f.now, client, "transfer", -a}, moved{f.now, to, "transfer", a})
	case n < 8 && prepaid > 0 && len(f.pending) == 0:
		a, number := f.amount(prepaid/2), f.treasury.book.LastGrant(w.name)+1
		f.write(f.treasury, ledger.NewGrant(w.name, number, client, a, "", f.nextSalt()))
		f.pending = append(f.pending, func() {
			f.write(w, ledger.NewAccept(w.name, number, client, a, f.nextSalt()))
		})
	case n < 9 && w.book.Avail(client) > 10 && len(f.pending) == 0:
		a, number := f.amount(w.book.Avail(client)/4), w.book.LastReturn(w.name)+1
		f.write(w, ledger.NewReturn(w.name, number, client, a, f.nextSalt()))
		f.pending = append(f.pending, func() {
			f.write(f.treasury, ledger.NewReclaim(w.name, number, client, a, f.nextSalt()))
		})
	case n < 12:
		f.round(w)
	case len(w.holds) > 0:
		f.end(w)
	}
}

// round awards slots to clients that can pay.
func (f *fair) round(w *writer) {
	n, prev := w.book.LastRound()
	r := market.Round{Domain: w.name, Number: n + 1, Prev: prev, Rule: market.DefaultRule,
		Tasks: []market.Task{{ID: longID}}}
	o := market.Outcome{}
	records := []ledger.Record{{}}
	most := 1 + f.rng.IntN(3)
	for _, i := range f.rng.Perm(len(fairClients)) {
		client, slot := fairClients[i], len(records)-1
		have := w.book.Avail(client)
		if have < 100 || slot == most {
			continue
		}
		h := ledger.Hold{Client: client, Task: fmt.Sprint("t", n, "-", slot),
			Agent: pick(f, []string{"a", "A", "b"}), Model: pick(f, fairModels),
			Key: pick(f, []string{"", "k1", "K1"}), Tags: bus.Tags(pick(f, fairTags), ""),
			Round: n + 1, Slot: slot, Kind: "task", Premium: f.amount(have / 20), Settle: r.Rule.Settle,
			Expires: 1}
		h.Amount = h.Premium + f.amount(have/10)
		h.Fee = h.Premium / 3
		o.Awards = append(o.Awards, market.Award{})
		id := ledger.HoldID(w.name, n+1, slot)
		records = append(records, ledger.NewBook().NewHold(id, &h, f.nextSalt()))
		w.holds = append(w.holds, h)
		w.held[id] = len(w.frames)
	}
	records[0] = ledger.NewRound(w.name, r, o, f.nextSalt())
	f.write(w, records...)
}

// end ends some of the open holds, in a frame.
func (f *fair) end(w *writer) {
	var records []ledger.Record
	for range 1 + f.rng.IntN(len(w.holds)) {
		i := f.rng.IntN(len(w.holds))
		h := w.holds[i]
		w.holds = append(w.holds[:i:i], w.holds[i+1:]...)
		if f.rng.IntN(5) == 0 {
			records = append(records, ledger.NewVoid(w.name, h, "agent_failed", f.nextSalt()))
			continue
		}
		c := ledger.Capture{Outcome: "done", Cost: f.amount(h.Amount - h.Premium),
			Usage: market.Usage{Prompt: 10 + f.rng.IntN(100), Cached: f.rng.IntN(10),
				Output: f.rng.IntN(100)}}
		r := ledger.NewCapture(w.name, h, c, f.nextSalt())
		records = append(records, r)
		id := ledger.HoldID(w.name, h.Round, h.Slot)
		x := paid{at: f.now, client: h.Client, agent: h.Agent, model: h.Model, key: h.Key,
			tags: bus.ReadTags(h.Tags), use: c.Usage, cost: c.Cost, w: w, receipt: id, held: w.held[id],
			end: len(w.frames)}
		for _, l := range r.Legs { // what left the client, whatever a rule may say
			if l.Account == ledger.Held(h.Client) || l.Account == ledger.Avail(h.Client) {
				x.paid -= l.Amount
			}
		}
		f.paid = append(f.paid, x)
	}
	f.write(w, records...)
}

// order has a hub refund, remit or distribute, and the treasury take that in.
func (f *fair) order(w *writer, kind, client string) {
	number := w.book.LastOrder(w.name).Number + 1
	o := tip.Ordered{Kind: kind, Number: number, Order: &tip.Order{By: "op", Ref: fmt.Sprint(w.name, number)}}
	if len(f.pending) > 0 || len(f.paid) == 0 {
		return
	}
	x := &f.paid[f.rng.IntN(len(f.paid))]
	switch o.Order.Agent = x.agent; kind {
	case "refund":
		if x.w == nil || x.paid == x.back {
			return
		}
		of, _ := ledger.CapturedIn(x.receipt, &x.w.frames[x.held], &x.w.frames[x.end])
		from := pick(f, []string{tip.FromAgent, tip.FromSurplus})
		there := x.w.book.Balance(map[string]string{tip.FromAgent: ledger.Payable(x.agent),
			tip.FromSurplus: ledger.Surplus}[from])
		if there == 0 {
			return
		}
		w = x.w
		o.Number = w.book.LastOrder(w.name).Number + 1
		o.Client, o.Amount = x.client, f.amount(min(x.paid-x.back, there))
		say := *of.Order
		say.By, say.Ref, say.From = "op", fmt.Sprint(w.name, o.Number), from
		o.Order = &say
		x.back += o.Amount
		back := *x
		back.at, back.w, back.refunded, back.by = f.now, nil, o.Amount, from
		f.paid = append(f.paid, back)
		f.moved = append(f.moved, moved{f.now, x.client, "refund", o.Amount})
	case "remit":
		there := w.book.Balance(ledger.Payable(x.agent))
		if there == 0 {
			return
		}
		o.Amount = f.amount(there)
		f.remitted += o.Amount
		f.paid = append(f.paid, paid{at: f.now, agent: x.agent, remitted: o.Amount})
	case "distribute":
		there := w.book.Balance(ledger.Surplus)
		if _, known := f.treasury.book.Prepaid(client); there == 0 || !known {
			return
		}
		o.Client, o.Amount, o.Order = client, f.amount(there), nil
		f.left += o.Amount
	}
	f.write(w, w.book.NewOrder(w.name, o, f.nextSalt()))
	f.pending = append(f.pending, func() {
		f.write(f.treasury, f.treasury.book.NewOrder(w.name, o, f.nextSalt()))
		if kind == "distribute" {
			f.moved = append(f.moved, moved{f.now, client, "surplus", o.Amount})
		}
	})
}

// data writes the journals into a directory, as a market has them.
func (f *fair) data() string {
	dir := f.t.TempDir()
	for _, w := range append(f.hubs, f.treasury) {
		j, err := journal.Open(filepath.Join(dir, "journal", w.name), journal.Config{MinFree: -1})
		if err != nil {
			f.t.Fatal(err)
		}
		for frames := range slices.Chunk(w.frames, 10) {
			if err := j.Append(frames...); err != nil {
				f.t.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			f.t.Fatal(err)
		}
	}
	return dir
}
