package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/market"
)

// settled sums up one task in the journals.
type settled struct {
	holds, open, captures int
	paid                  market.Credits
	receipt               string // of the capture
}

// Account sums up the journals of a fleet.
type Account struct {
	tasks  map[[2]string]*settled
	Holds  int
	Open   int // holds that have not ended
	Paid   market.Credits
	Voids  map[string]int // by reason
	Owned  map[string]market.Credits
	Moving market.Credits // allotments between the treasury and a hub
}

// Journals reads every journal of the fleet, also while they are written.
func (f *Fleet) Journals() (*Account, error) {
	paths, err := journal.Find(f.Data)
	if err != nil {
		return nil, err
	}
	a := &Account{tasks: map[[2]string]*settled{}, Voids: map[string]int{},
		Owned: map[string]market.Credits{}}
	for _, path := range paths {
		book := ledger.NewBook()
		held := map[string]*ledger.Hold{}
		err := journal.Read(path, func(fr ledger.Frame) error {
			if err := book.ApplyFrame(fr); err != nil {
				return err
			}
			for i := range fr.Records {
				a.take(held, &fr.Records[i])
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for id := range f.Clients {
			prepaid, _ := book.Prepaid(id)
			a.Owned[id] += prepaid + book.Avail(id) + book.Held(id)
		}
		for _, b := range book.Balances("clearing:*") {
			a.Moving += b.Amount
		}
	}
	return a, nil
}

func (a *Account) of(client, task string) *settled {
	key := [2]string{client, task}
	if a.tasks[key] == nil {
		a.tasks[key] = new(settled)
	}
	return a.tasks[key]
}

func (a *Account) take(held map[string]*ledger.Hold, r *ledger.Record) {
	switch r.Kind {
	case ledger.KindHold:
		held[r.ID] = r.Hold
		s := a.of(r.Hold.Client, r.Hold.Task)
		s.holds++
		s.open++
		a.Holds++
		a.Open++
	case ledger.KindCapture:
		h := held[r.Capture.Hold]
		s := a.of(h.Client, h.Task)
		s.open--
		s.captures++
		s.paid += r.Capture.Cost + h.Due(r.Capture)
		s.receipt = r.Capture.Hold
		a.Open--
		a.Paid += r.Capture.Cost + h.Due(r.Capture)
	case ledger.KindVoid:
		h := held[r.Void.Hold]
		a.of(h.Client, h.Task).open--
		a.Open--
		a.Voids[r.Void.Reason]++
	}
}

// Quiet waits until every hold has ended.
func (f *Fleet) Quiet(ctx context.Context) error {
	for {
		a, err := f.Journals()
		if err == nil && a.Open == 0 {
			return nil
		}
		if !follow.Pause(ctx, 100*time.Millisecond) {
			if err == nil {
				err = fmt.Errorf("%d of %d holds are open", a.Open, a.Holds)
			}
			return fmt.Errorf("the fleet does not come to rest: %w: %w", err, ctx.Err())
		}
	}
}

// Check runs `ledger check` on every journal, at all levels.
func (f *Fleet) Check(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, filepath.Join(f.Bin, "ledger"), "check", f.Data).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ledger check: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Judge compares what clients were told with what the journals say. Each difference is an error:
//
//   - a stream that was no stream: a gap, no last word, or two
//   - a task of which somebody was paid twice, or whose hold never ended
//   - an answer served to its end, or cancelled, that was not paid for at the figure that its client was told
//   - a payment for a task whose client was told that nothing was served
//   - money that is neither a client's nor paid
//
// A client that was told that nobody knows (unknown, answer_gone) may have paid for what it did not get,
// once; how often is returned.
func (f *Fleet) Judge(a *Account, words []Word) (unknown int, err error) {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	told := map[[2]string]bool{}
	for _, w := range words {
		key := [2]string{w.Client, w.Task}
		if told[key] {
			wrong("%s/%s has two last words", w.Client, w.Task)
		}
		told[key] = true
		if w.Fault != "" {
			wrong("%s/%s: %s", w.Client, w.Task, w.Fault)
		}
		s := a.tasks[key]
		if s == nil {
			s = new(settled)
		}
		switch {
		case w.Code == "" && s.captures != 1:
			wrong("%s was served to its end and paid %d times, in %d holds", w, s.captures, s.holds)
		case w.Result.Paid() > 0 && s.paid != w.Result.Paid():
			wrong("%s was told that it cost %s, the journals say %s", w, w.Result.Paid(), s.paid)
		case w.Code == "" && (w.Result.Receipt == nil || w.Result.Receipt.ID != s.receipt):
			wrong("%s has the receipt %+v, the journals say %s", w, w.Result.Receipt, s.receipt)
		case s.captures > 0 && (w.Code == bus.CodeUnknown || w.Code == bus.CodeAnswerGone):
			unknown++
		case s.captures > 0 && w.Code != "" && w.Code != bus.CodeCancelled:
			wrong("%s cost %s all the same", w, s.paid)
		}
	}
	for key, s := range a.tasks {
		if s.captures > 1 {
			wrong("%s/%s was paid %d times", key[0], key[1], s.captures)
		}
		if s.open != 0 {
			wrong("%s/%s has %d open holds", key[0], key[1], s.open)
		}
		if !told[key] && !f.Vanished[key[0]] {
			wrong("%s/%s stands in a journal, and its client was told nothing", key[0], key[1])
		}
	}
	deposits, owned := market.Credits(0), market.Credits(0)
	for id, amount := range f.Clients {
		deposits += amount
		owned += a.Owned[id]
	}
	if deposits != owned+a.Moving+a.Paid {
		wrong("%s were deposited, clients have %s, %s is on its way, and %s was paid", deposits, owned,
			a.Moving, a.Paid)
	}
	return unknown, errors.Join(errs...)
}

// Captured shows each hold of the journals in a directory that ended in payment, and whether what was
// believed to be cached for it was so by what its engine publishes.
func Captured(dir string, show func(h *ledger.Hold, c *ledger.Capture, events bool)) error {
	paths, err := journal.Find(dir)
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%s: no journal", dir)
	}
	for _, path := range paths {
		holds, events := map[string]*ledger.Hold{}, map[string]bool{}
		var round *ledger.Round
		read := journal.Read(path, func(f ledger.Frame) error {
			for i := range f.Records {
				switch r := &f.Records[i]; {
				case r.Round != nil:
					round = r.Round
				case r.Hold != nil:
					holds[r.ID] = r.Hold
					s := round.Expected(&round.Outcome.Awards[r.Hold.Slot])
					events[r.ID] = s != nil && s.Evidence == ledger.EvidenceEvents
				case r.Capture != nil:
					show(holds[r.Capture.Hold], r.Capture, events[r.Capture.Hold])
				}
			}
			return nil
		})
		if read != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", path, read))
		}
	}
	return err
}
