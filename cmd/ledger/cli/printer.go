package cli

import (
	"encoding/hex"
	"fmt"
	"io"

	"souk/cmd/console"
	"souk/ledger"
)

// printer writes records one after another.
type printer struct {
	w      io.Writer
	format string
	n      int
	csv    *sheet
	unit   string // of an export, which says of each record what it is about, and nothing else beside legs
}

func newPrinter(w io.Writer, format, unit string) *printer {
	p := &printer{w: w, format: format, unit: unit}
	columns := []string{"journal", "seq", "time", "kind", "id", "account", "credits"}
	if unit != "" {
		columns = append(columns, "currency", "client", "agent", "model", "task", "key", "ref")
	}
	if format == "csv" {
		p.csv = newSheet(w, format, columns...)
	}
	return p
}

// view is a record as JSON.
type view struct {
	Journal string           `json:"journal"`
	Seq     uint64           `json:"seq"`
	Epoch   int64            `json:"epoch"`
	Time    string           `json:"time"`
	Kind    string           `json:"kind"`
	ID      string           `json:"id"`
	Salt    string           `json:"salt,omitempty"`
	Legs    []ledger.Balance `json:"legs"`
	Content any              `json:"content,omitempty"`
	*about
	Currency string `json:"currency,omitempty"`
}

// print writes a record; what it is about is said in exports alone, and else nil.
func (p *printer) print(name string, f *ledger.Frame, r *ledger.Record, of *about) {
	if p.format == "table" {
		p.n++
		lines := make([][2]string, len(r.Legs))
		for i, l := range r.Legs {
			lines[i] = [2]string{console.Plain(l.Account), aligned(l.Amount)}
		}
		entry(p.w, fmt.Sprintf("%s %s %s  (%s, frame %d, epoch %d)", stamp(f.Time), r.Kind, console.Plain(r.ID),
			name, f.Seq, f.Epoch), []string{"; " + console.Plain(sentence(r))}, lines)
		return
	}
	v := view{Journal: name, Seq: f.Seq, Epoch: f.Epoch, Kind: r.Kind.String(), ID: r.ID, about: of}
	if of == nil {
		v.Salt, v.Content = hex.EncodeToString(r.Salt[:]), content(r)
	}
	p.write(v, f.Time, r.Legs)
}

// opening writes the balances at a time from which on an export says everything, as a record of its own.
func (p *printer) opening(name string, at int64, legs []ledger.Leg) {
	p.write(view{Journal: name, Kind: "opening", ID: "balances of " + name, about: &about{}}, at, legs)
}

func (p *printer) write(v view, at int64, legs []ledger.Leg) {
	p.n++
	if p.format == "csv" {
		for _, l := range legs {
			cells := []any{v.Journal, v.Seq, stamp(at), v.Kind, v.ID, l.Account, l.Amount}
			if v.about != nil {
				cells = append(cells, p.unit)
				for _, text := range v.all() {
					cells = append(cells, harmless(p.format, text))
				}
			}
			p.csv.add(cells...)
		}
		return
	}
	v.Time, v.Legs, v.Currency = exact(at), []ledger.Balance{}, p.unit
	for _, l := range legs {
		v.Legs = append(v.Legs, ledger.Balance(l))
	}
	if p.format == "json" {
		fmt.Fprint(p.w, [...]string{"[\n", ",\n"}[min(p.n-1, 1)])
	}
	writeLine(p.w, v)
}

func (p *printer) closing(string, balances) {}

func (p *printer) end() {
	switch p.format {
	case "json":
		fmt.Fprint(p.w, [...]string{"[]\n", "]\n"}[min(p.n, 1)])
	case "csv":
		p.csv.end()
	}
}
