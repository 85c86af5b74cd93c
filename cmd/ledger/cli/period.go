package cli

import (
	"cmp"
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // a machine may have none

	"github.com/spf13/cobra"

	"souk/ledger/inspect"
)

// period is flags for a span of time.
type period struct{ from, to, month, zone string }

func (p *period) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&p.from, "from", "", "from this day on, like 2026-11-01, or this moment, like 2026-11-01T12:00:00Z")
	f.StringVar(&p.to, "to", "", "until this day or moment, which is left out")
	p.monthFlags(c)
}

func (p *period) monthFlags(c *cobra.Command) {
	c.Flags().StringVar(&p.month, "month", "", "this month, like 2026-11")
	c.Flags().StringVar(&p.zone, "zone", "UTC", "time zone of days and months, like Europe/Berlin")
}

// read returns the period that the flags say.
func (p *period) read() (out inspect.Period, err error) {
	if out.Zone, err = time.LoadLocation(p.zone); err != nil || p.zone == "" || p.zone == "Local" {
		return out, fmt.Errorf("--zone %.40q: no time zone that is known: write UTC, or one like Europe/Berlin", p.zone)
	}
	if p.month != "" {
		if p.from != "" || p.to != "" {
			return out, errors.New("--month says all: leave --from and --to out")
		}
		month, err := time.Parse("2006-01", p.month)
		if err != nil {
			return out, fmt.Errorf("--month %.40q: there is no such month: write one like 2026-11", p.month)
		}
		out.From, out.To = begins(month, out.Zone), begins(month.AddDate(0, 1, 0), out.Zone)
		return out, nil
	}
	moment := func(flag, s string) (t time.Time, err error) {
		if s == "" {
			return t, nil
		}
		if t, err = time.Parse(time.DateOnly, s); err == nil {
			return begins(t, out.Zone), nil
		}
		t, err = time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return t, fmt.Errorf("--%s %.40q: there is no such day: write one like 2026-11-01, or a moment like "+
				"2026-11-01T12:00:00Z", flag, s)
		}
		return t, nil
	}
	var wrong [2]error
	out.From, wrong[0] = moment("from", p.from)
	out.To, wrong[1] = moment("to", p.to)
	if err := cmp.Or(wrong[0], wrong[1]); err != nil {
		return out, err
	}
	if p.from != "" && p.to != "" && !out.From.Before(out.To) {
		return out, fmt.Errorf("--from %s --to %s: nothing lies between them: --to is left out", p.from, p.to)
	}
	return out, nil
}

// begins returns the first moment of a day in a zone: the change, where clocks are put forward at midnight.
func begins(day time.Time, zone *time.Location) time.Time {
	y, m, d := day.Date()
	t := time.Date(y, m, d, 0, 0, 0, 0, zone)
	if t.Day() != d {
		_, t = t.ZoneBounds()
	}
	return t
}
