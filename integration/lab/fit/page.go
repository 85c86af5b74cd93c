package fit

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"souk/integration/lab/page"
)

// Made holds the results of one server; Err says why there are fewer.
type Made struct {
	Server *Server // nil: it was not found
	URL    string
	Fitted *Fitted
	Rounds []Round
	Err    error
}

// Page shows what was fitted, and how far the stand-ins are from the servers.
func Page(command, when string, z Sizes, p Plan, all []Made) *page.Page {
	var b strings.Builder
	fmt.Fprintf(&b, about, z.Seqs, z.Batched, p.Callers, p.Turns, p.Pause, longest, p.Rounds)
	var profiles, apart [][]string
	for i := range all {
		m := &all[i]
		if m.Fitted != nil {
			f := m.Fitted
			profiles = append(profiles, []string{m.name(), number(f.Base, 0), number(f.Prefill, 2),
				number(f.Attention*1000, 1),
				number(f.Decode, 1), number(f.Resident, 4), number(float64(f.Entry)/1e3, 0),
				number(f.PerByte*1000, 1), number(f.Beside, 0),
				fmt.Sprintf("%d of %d", m.Server.Info.KVTokens/m.Server.Info.BlockSize,
					m.Server.Info.BlockSize)})
		}
		if len(m.Rounds) > 0 {
			a := Compare(m.Rounds, m.Server.Info.BlockSize)
			apart = append(apart, []string{m.name(), strconv.Itoa(a.Tasks), share(a.Cached, a.Prompt),
				share(a.Found, a.Prompt), strconv.Itoa(a.Beyond), both(a.First), off(a.First), both(a.Other),
				both(a.Between), off(a.Between)})
		}
	}
	if profiles != nil {
		b.WriteString("\n## Profiles\n\nMicroseconds: of a step, a token of a prompt, a thousand pairs of " +
			"one and a token before it, a sequence that decodes, a token in the cache of those that run; and before a request waits for a step, with more for each 1,000 bytes and for each answer under way.\n\n" + page.Table([]string{"server",
			"step", "prompt token", "pairs", "sequence", "token held", "entry", "bytes", "beside", "blocks"},
			profiles))
	}
	if apart != nil {
		b.WriteString("\n## The same run in the stand-in\n\nCached is of prompt tokens; **beyond** counts tasks whose cached " +
			"tokens differ by more than a block. Times are ms, the server's and the stand-in's: the medians of first " +
			"tokens and of the times between two, and what nine in ten first tokens stay below.\n\n" +
			page.Table([]string{"server", "tasks", "cached", "stand-in", "beyond", "first token", "off",
				"nine in ten", "between", "off"}, apart))
	}
	for i := range all {
		if m := &all[i]; m.Fitted != nil {
			var rows [][]string
			for _, x := range m.Fitted.Points {
				rows = append(rows, []string{x.what(), strconv.Itoa(x.AtOnce), strconv.Itoa(x.Beside),
					strconv.Itoa(x.Prompt),
					strconv.Itoa(x.Cached), millis(x.Took), millis(x.Fitted),
					millis(x.Fitted + x.Own), off([2]time.Duration{x.Took, x.Fitted + x.Own})})
			}
			fmt.Fprintf(&b, "\n## What %s was fitted to\n\nMedians of %d, in ms.\n\n%s", m.name(), repeats,
				page.Table([]string{"what", "at once", "beside", "prompt", "cached", "measured", "profile",
					"stand-in", "off"}, rows))
		}
	}
	var left []string
	for i := range all {
		if m := &all[i]; m.Err != nil {
			left = append(left, fmt.Sprintf("* %s, after %d of %d rounds: %v", m.name(), len(m.Rounds), p.Rounds, m.Err))
		}
	}
	if left != nil {
		b.WriteString("\n## What was left out\n\n" + strings.Join(left, "\n") + "\n")
	}
	return &page.Page{Name: "fit", Title: "Stand-ins of running servers", Command: command, Clock: when, Text: b.String()}
}

const about = `Each server is measured alone: first tokens of prompts that are new or cached, and the time between tokens of
answers side by side. The profile of a stand-in is fitted to that by least squares, each error by what was
measured, and less what a stand-in takes beside its profile, which is measured on one. A server does not say how many sequences run at once and how many tokens are in a step: %d and %d are
taken.

Then the same run is played on the server and on the stand-in in turn: %d callers ask %d turns each of mtRAG's
dialogues, after a mean pause of %v, as token ids, with the server's own answers of up to %d tokens between them;
%d times, each with a cache of its own. None of these tasks was fitted to.
`

func (m *Made) name() string {
	if m.Server == nil {
		return m.URL
	}
	return m.Server.Model + " at " + strings.TrimPrefix(m.URL, "http://")
}

func (x *Load) what() string {
	if x.Output > 1 {
		return "between tokens"
	}
	return "first token"
}

func number(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }

func millis(d time.Duration) string { return number(float64(d)/1e6, 2) }

func both(d [2]time.Duration) string { return millis(d[0]) + ", " + millis(d[1]) }

// off is how far the second is from the first, in percent.
func off(d [2]time.Duration) string {
	if d[0] <= 0 {
		return "-"
	}
	return fmt.Sprintf("%+.0f %%", 100*(float64(d[1])/float64(d[0])-1))
}

func share(n, of int) string { return number(float64(n)/float64(max(1, of)), 4) }

// When says when, and beside what else, a page by the clock was made.
func When(now time.Time) string {
	when := "on " + now.UTC().Format("2 January 2006")
	data, err := os.ReadFile("/proc/loadavg")
	if load := strings.Fields(string(data)); err == nil && len(load) > 1 {
		when += fmt.Sprintf(", on %d processors with a load of %s over the five minutes before", runtime.NumCPU(), load[1])
	}
	return when + "; figures differ from run to run"
}
