package cli

import (
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"souk/ledger"
	"souk/market"
)

// printer writes records one after another.
type printer struct {
	w      io.Writer
	format string
	n      int
	csv    *sheet
}

func newPrinter(w io.Writer, format string) *printer {
	p := &printer{w: w, format: format}
	if format == "csv" {
		p.csv = newSheet(w, format, "journal", "seq", "time", "kind", "id", "account", "credits")
	}
	return p
}

// view is a record as JSON.
type view struct {
	Journal string `json:"journal"`
	Seq     uint64 `json:"seq"`
	Epoch   int64  `json:"epoch"`
	Time    string `json:"time"`
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	Salt    string `json:"salt"`
	Legs    []leg  `json:"legs"`
	Content any    `json:"content,omitempty"`
}

type leg struct {
	Account string         `json:"account"`
	Amount  market.Credits `json:"amount"`
}

func (p *printer) print(name string, f *ledger.Frame, r *ledger.Record) (err error) {
	p.n++
	switch p.format {
	case "csv":
		for _, l := range r.Legs {
			if err == nil {
				err = p.csv.add(name, f.Seq, stamp(f.Time), r.Kind.String(), r.ID, l.Account, l.Amount)
			}
		}
		return err
	case "json", "ndjson":
		v := view{name, f.Seq, f.Epoch, time.Unix(0, f.Time).UTC().Format(time.RFC3339Nano), r.Kind.String(),
			r.ID, hex.EncodeToString(r.Salt[:]), []leg{}, content(r)}
		for _, l := range r.Legs {
			v.Legs = append(v.Legs, leg(l))
		}
		if p.format == "ndjson" {
			return writeLine(p.w, v)
		}
		if _, err = io.WriteString(p.w, [...]string{"[\n", ",\n"}[min(p.n-1, 1)]); err == nil {
			err = writeLine(p.w, v)
		}
		return err
	}
	_, err = fmt.Fprintf(p.w, "%s %s %s  (%s, frame %d, epoch %d)\n    ; %s\n", stamp(f.Time), r.Kind, r.ID,
		name, f.Seq, f.Epoch, sentence(r))
	for _, l := range r.Legs {
		if err == nil {
			_, err = fmt.Fprintf(p.w, "    %-40s %20s\n", l.Account, aligned(l.Amount))
		}
	}
	return err
}

func (p *printer) end() error {
	switch p.format {
	case "json":
		_, err := io.WriteString(p.w, [...]string{"[]\n", "]\n"}[min(p.n, 1)])
		return err
	case "csv":
		return p.csv.end()
	}
	return nil
}
