package classifier

import (
	"fmt"
	"time"

	"souk/bus"
)

// How many quotes a door has in hand at once, of all clients and of each.
var quotesMost, quotesEach = load{256, 16 << 20}, load{64, 4 << 20}

// EnterQuote takes a request for a quote in, which is of so many bytes, or says what is in its way.
func (d *Desk) EnterQuote(client string, size int) *bus.Error {
	if no := d.judge(client, size); no != nil {
		return no
	}
	return d.quotes.enter("quotes", client, max(1, size))
}

// Quoted counts the answer to a request for a quote, and forgets the request if it had entered.
func (d *Desk) Quoted(client string, size int, entered bool, q *bus.Quote) {
	d.stats.Quoted[q.Code]++
	if entered {
		d.quotes.leave(client, max(1, size))
	}
}

// Quoters names the hubs that are asked what a task would be given: those that would be asked to take it, one
// after the other, if it came without terms. Nothing is remembered of the task.
func (d *Desk) Quoters(t *bus.Task, label string, confidence float64, hubs *Table,
	now time.Time) (names []string, no *bus.Error) {
	w := d.c.label(t, label, confidence)
	w.Terms = bus.Terms{}
	if t.Session != "" {
		if v := d.sessions.Peek(d.key('s', t.Client, t.Session)); v != nil {
			w.Session = *v
		}
	}
	for len(names) < bus.MaxQuoteHubs {
		name, no := hubs.Choose(d.c, &w, now, names)
		if no != nil && len(names) == 0 {
			return nil, no
		}
		if no != nil {
			break
		}
		names = append(names, name)
	}
	return names, nil
}

// Silent stands in for the quote of a hub that gave none.
func Silent(hub string, why error) bus.HubQuote {
	return bus.HubQuote{Hub: hub, Code: bus.CodeUnavailable, RetryMS: retryMS,
		Message: bus.Clip(fmt.Sprintf("hub %s gave no quote: %v", hub, why), bus.MaxText)}
}

// QuoteOf joins the hubs' quotes for a task. If none has one, it is refused with the first hub's reason.
func QuoteOf(t *bus.Task, hubs []bus.HubQuote) *bus.Quote {
	q := &bus.Quote{Client: t.Client, Domain: t.Domain, Hubs: hubs,
		Code: hubs[0].Code, Message: hubs[0].Message, RetryMS: hubs[0].RetryMS}
	for i := range hubs {
		if hubs[i].Code == "" {
			q.Code, q.Message, q.RetryMS = "", "", 0
		}
	}
	return q
}

// NoQuote is a refusal of the door's own.
func NoQuote(err error, client string) *bus.Quote {
	r := Refusal(err, client, "", nil)
	return &bus.Quote{Client: r.Client, Code: r.Code, Message: r.Message, RetryMS: r.RetryMS}
}
