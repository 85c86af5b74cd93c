package inspect

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/market"
)

// writer is a journal in the making.
type writer struct {
	name   string
	book   *ledger.Book
	frames []ledger.Frame
	holds  []ledger.Hold // open
}

// paid is a payment as the market of a test remembers it.
type paid struct {
	at                        time.Time
	client, agent, model, key string
	tags                      []bus.Tag
	use                       market.Usage
	cost, paid                market.Credits
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
	owed     map[string]market.Credits

	paid  []paid
	moved []moved
}

var (
	fairClients = []string{"ann", "Ann", "bob", "_b-o-b"}
	fairModels  = []string{"m/7b", "<b>m</b>", "=1+1", "M/7b"}
	fairTags    = [][]bus.Tag{nil, {{Name: "user", Value: "ann"}}, {{Name: "user", Value: "Ann"}},
		{{Name: "user", Value: "\x1b[31m<script>"}, {Name: "team", Value: "a=b&c"}}}
)

func newFair(t *testing.T, seed uint64, steps int) *fair {
	f := &fair{t: t, rng: rand.New(rand.NewPCG(seed, 3)), now: time.Date(2026, 9, 28, 22, 0, 0, 0, time.UTC),
		owed: map[string]market.Credits{}}
	f.treasury = f.writer("treasury", ledger.RoleTreasury)
	f.hubs = []*writer{f.writer("hub-law", ledger.RoleHub), f.writer("hub-maths", ledger.RoleHub)}
	for range steps {
		f.now = f.now.Add(time.Duration(f.rng.Int64N(int64(6 * time.Hour))))
		f.step()
	}
	return f
}

func (f *fair) writer(name, role string) *writer {
	w := &writer{name: name, book: ledger.NewBook()}
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
	switch n := f.rng.IntN(14); {
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
	r := market.Round{Domain: w.name, Number: n + 1, Prev: prev, Rule: market.DefaultRule}
	o := market.Outcome{}
	records := []ledger.Record{{}}
	for slot := range 1 + f.rng.IntN(3) {
		client := fairClients[slot]
		have := w.book.Avail(client)
		if have < 100 || slot != len(records)-1 {
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
		x := paid{at: f.now, client: h.Client, agent: h.Agent, model: h.Model, key: h.Key,
			tags: bus.ReadTags(h.Tags), use: c.Usage, cost: c.Cost}
		for _, l := range r.Legs { // what left the client, whatever a rule may say
			if l.Account == ledger.Held(h.Client) || l.Account == ledger.Avail(h.Client) {
				x.paid -= l.Amount
			}
		}
		f.paid = append(f.paid, x)
	}
	f.write(w, records...)
}

// data writes the journals into a directory, as a market has them.
func (f *fair) data() string {
	dir := f.t.TempDir()
	for _, w := range append(f.hubs, f.treasury) {
		j, err := journal.Open(filepath.Join(dir, "journal", w.name), journal.Config{MinFree: -1})
		if err != nil {
			f.t.Fatal(err)
		}
		if err := j.Append(w.frames...); err != nil {
			f.t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			f.t.Fatal(err)
		}
	}
	return dir
}
