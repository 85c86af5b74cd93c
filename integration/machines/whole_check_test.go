package machines

import (
	"fmt"
	"strings"

	"souk/agentd"
	"souk/bus"
	"souk/bus/reader"
	"souk/ledger"
	"souk/market"
)

var cancelEvent = reader.Cancel{}

// paidFor sums up the journals' records of a task.
type paidFor struct {
	captures []string
	paid     market.Credits
	outcome  string
	voids    []string
}

// check checks the whole once everything is over.
func (w *whole) check(total market.Credits) {
	t := w.t
	by := map[string]*paidFor{}
	audits := map[string]*ledger.Audit{}
	sum := market.Credits(0)
	var hubs []*ledger.Audit
	audit := func(name string, frames [][]byte, heads [][2]int64) *ledger.Audit {
		a := ledger.NewAudit(name, ledger.MaxLevel)
		for i, f := range frames {
			a.Frame(uint64(heads[i][0]), heads[i][1], f)
		}
		if r := a.Finish(); r.Count > 0 {
			t.Errorf("journal %s: %v", name, r.Findings)
		}
		audits[name] = a
		return a
	}
	for _, h := range w.hubs {
		if len(h.frames) == 0 {
			continue
		}
		hubs = append(hubs, audit(h.name, h.frames, h.heads))
		holds := map[string]*ledger.Hold{}
		for _, data := range h.frames {
			f, err := ledger.DecodeFrame(data)
			if err != nil {
				t.Fatal(err)
			}
			for i := range f.Records {
				r := &f.Records[i]
				switch {
				case r.Hold != nil:
					holds[ledger.HoldID(h.name, r.Hold.Round, r.Hold.Slot)] = r.Hold
				case r.Capture != nil:
					id := r.Capture.Hold
					x := holds[id]
					p := entry(by, x.Client+"/"+x.Task)
					p.captures = append(p.captures, id)
					for _, l := range r.Legs { // what leaves the client, whatever the rule is
						if l.Account == ledger.Held(x.Client) || l.Account == ledger.Avail(x.Client) {
							p.paid -= l.Amount
						}
					}
					p.outcome = r.Capture.Outcome
				case r.Void != nil:
					x := holds[r.Void.Hold]
					p := entry(by, x.Client+"/"+x.Task)
					p.voids = append(p.voids, r.Void.Hold+" "+r.Void.Reason)
				}
			}
		}
		for _, b := range h.book.Balances("*") {
			if !ledger.MayOwe(b.Account) {
				sum += b.Amount
			}
			if strings.HasSuffix(b.Account, ":held") && b.Amount != 0 {
				t.Errorf("%s still holds %s of %s", h.name, b.Amount, b.Account)
			}
		}
		s := h.node.Stats()
		if s.Open != 0 || s.Waiting != 0 || s.Holds != 0 {
			t.Errorf("%s has %d open tasks, %d waiting, %d holds", h.name, s.Open, s.Waiting, s.Holds)
		}
		for _, c := range append(clients, "poor") {
			if x := h.node.Money().Reserved(c); x != 0 {
				t.Errorf("%s has %s of %s reserved", h.name, x, c)
			}
		}
		if a, b := w.bank.book.LastGrant(h.name), h.book.LastGrant(h.name); a != b && h.leading {
			t.Errorf("%s was granted %d times and accepted %d", h.name, a, b)
		} else if a != b {
			sum += w.flying(h)
		}
		if a, b := w.bank.book.LastReturn(h.name), h.book.LastReturn(h.name); a != b && h.leading {
			t.Errorf("%s returned %d times, and %d were taken in", h.name, b, a)
		}
	}
	bank := w.bank.book
	for _, c := range append(clients, "poor") {
		prepaid, _ := bank.Prepaid(c)
		sum += prepaid
	}
	sum += w.wayward()
	out := bank.Balance(ledger.External("payouts"))
	if sum+out != total {
		t.Errorf("%s stand in the books and %s left, of %s that came in", sum, out, total)
	}
	granted := make([]ledger.Frame, len(w.bank.frames))
	for i, data := range w.bank.frames {
		var err error
		if granted[i], err = ledger.DecodeFrame(data); err != nil {
			w.t.Fatal(err)
		}
	}
	w.pledged.cover(w.t, granted)
	if found := ledger.Across(audit("treasury", w.bank.frames, w.bank.heads), hubs); len(found) > 0 {
		t.Error(found)
	}
	for _, a := range w.agents {
		if !a.core.Settled() || len(a.spool) > 0 || len(a.runs) > 0 {
			t.Errorf("%s is not settled: %d run, spool %d, pending %v", a.name, len(a.runs), len(a.spool),
				a.core.Pending(""))
		}
	}
	for _, d := range w.doors {
		if len(d.all) > 0 {
			t.Errorf("%s has %d tasks in hand", d.name, len(d.all))
		}
	}
	for _, r := range w.order {
		w.judge(r, entry(by, r.client+"/"+r.task.ID))
	}
}

func entry(by map[string]*paidFor, key string) *paidFor {
	if by[key] == nil {
		by[key] = &paidFor{}
	}
	return by[key]
}

// judge compares what a reader was told with what the journals say.
func (w *whole) judge(r *readerPart, p *paidFor) {
	t := w.t
	fault := func(format string, args ...any) {
		said := fmt.Sprint("error: ", r.err)
		if r.end != nil {
			said = fmt.Sprintf("%q (%s), paid %s, receipt %v", r.end.Code, r.end.Message, r.end.Paid(),
				r.end.Receipt)
		}
		t.Errorf("task %s: %s; told %s; journals: %+v", r.name, fmt.Sprintf(format, args...), said, *p)
	}
	switch {
	case len(p.captures) > 1:
		fault("paid %d times", len(p.captures))
	case !r.over:
		fault("it has no end")
	case r.again && len(w.left) == 0 && r.lost():
		fault("it was asked for once more, and nobody knows")
	case r.end == nil: // its reader does not know
		switch bus.CodeOf(r.err) {
		case bus.CodeUnknown, bus.CodeAnswerGone, bus.CodeUnavailable, bus.CodeCancelled, bus.CodeDuplicate,
			bus.CodeAgentFailed, bus.CodeEngineFailed, bus.CodeInternal:
		default:
			fault("an odd end")
		}
	case r.end.Code == "" || r.end.Code == bus.CodeCancelled && r.end.Receipt != nil && r.end.Paid() > 0:
		if len(p.captures) != 1 {
			fault("told that it is paid, and it is not")
		} else if r.end.Paid() != p.paid || r.end.Receipt == nil || r.end.Receipt.ID != p.captures[0] {
			fault("told another price or receipt")
		} else if want := len("word ") * r.end.Usage.Output; r.bytes != want && !r.saidByHub() &&
			!(r.bytes < want && strings.Contains(r.end.Message, " is lost, and agent ")) {
			fault("has %d bytes, and is told of %d", r.bytes, want)
		}
	case r.end.Code == bus.CodeUnknown, r.end.Code == bus.CodeAnswerGone, r.end.Code == bus.CodeUnavailable,
		r.end.Code == bus.CodeDuplicate:
	default:
		if len(p.captures) != 0 {
			fault("told that it is not served, and it is paid")
		}
	}
}

// saidByHub reports whether a hub told a reader how its cancelled task ended: it knows what was paid, and has
// none of the answer.
func (r *readerPart) saidByHub() bool {
	return r.end.Code == bus.CodeCancelled && !strings.HasPrefix(r.end.Message, agentd.ErrCancelled.Error())
}

// flying returns the sum granted to a hub that does not lead, and so has not heard of it.
func (w *whole) flying(h *hubPart) (sum market.Credits) {
	for _, data := range w.bank.frames {
		f, _ := ledger.DecodeFrame(data)
		for i := range f.Records {
			if x := f.Records[i].Transfer; f.Records[i].Kind == ledger.KindGrant && x.Hub == h.name &&
				x.Number > h.book.LastGrant(h.name) {
				sum += x.Amount
			}
		}
	}
	return sum
}

// wayward returns the sum that hubs which do not lead have returned and the treasury has not taken in.
func (w *whole) wayward() (sum market.Credits) {
	for _, h := range w.hubs {
		for _, data := range h.frames {
			f, _ := ledger.DecodeFrame(data)
			for i := range f.Records {
				if x := f.Records[i].Transfer; f.Records[i].Kind == ledger.KindReturn &&
					x.Number > w.bank.book.LastReturn(h.name) {
					sum += x.Amount
				}
			}
		}
	}
	return sum
}
