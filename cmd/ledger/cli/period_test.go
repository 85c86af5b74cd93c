package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus/tip"
	"souk/ledger"
)

// command runs a command on a market's data, and returns what it has said and its exit code.
func command(t *testing.T, data string, args ...string) (string, int) {
	t.Helper()
	var said bytes.Buffer
	code := Run(context.Background(), "v1", append(args, "--data", data), &said, &said)
	return said.String(), code
}

// A bound that no journal reaches, as many write one for "ever", leaves nothing out.
func TestBoundsBeyondWhatNanosecondsCount(t *testing.T) {
	data := t.TempDir()
	if err := writeMarket(data, 3, ""); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"spend", "earn", "export"} {
		want, code := command(t, data, verb)
		if code != ExitClean || strings.Count(want, "\n") < 5 {
			t.Fatalf("%s: exit %d, %s", verb, code, want)
		}
		for _, bounds := range []string{"--to=9999-12-31", "--from=1500-01-01", "--from=0001-01-02 --to=2300-01-01"} {
			got, code := command(t, data, append([]string{verb}, strings.Fields(bounds)...)...)
			if code != ExitClean || got != want {
				t.Errorf("%s %s: exit %d, %s\nwant %s", verb, bounds, code, got, want)
			}
		}
	}
}

// An export dates by the zone whose days bound it.
func TestAnExportHasTheDaysOfItsZone(t *testing.T) {
	data := t.TempDir()
	if err := writeMarket(data, 1, ""); err != nil {
		t.Fatal(err)
	}
	days := map[string]bool{}
	for _, zone := range []string{"Pacific/Kiritimati", "Pacific/Pago_Pago"} { // 25 hours apart
		out, code := command(t, data, "export", "--format=csv", "--zone", zone)
		if code != ExitClean {
			t.Fatal(out)
		}
		out, _ = command(t, data, "export", "--zone", zone)
		for line := range strings.Lines(out) {
			if day, _, is := strings.Cut(line, " * deposit"); is {
				days[day] = true
			}
		}
	}
	if len(days) != 2 {
		t.Errorf("days are %v", days)
	}
}

// Whoever names a format by the flag of the other commands is told, and gets no other.
func TestAnExportsFormatsAreItsOwn(t *testing.T) {
	data := t.TempDir()
	if err := writeMarket(data, 1, ""); err != nil {
		t.Fatal(err)
	}
	if out, code := command(t, data, "export", "-O", "json"); code != ExitUsage ||
		!strings.Contains(out, "--format json") {
		t.Errorf("exit %d, %s", code, out)
	}
}

// Who sums up what clients spent is told of a hub whose journal is not there, and of none that is there.
func TestSumsNameTheJournalsThatTheyLack(t *testing.T) {
	data := t.TempDir()
	if err := writeMarket(data, 3, ""); err != nil {
		t.Fatal(err)
	}
	const says = "hub-maths is not among these"
	whole, code := command(t, data, "spend")
	if code != ExitClean || strings.Contains(whole, says) {
		t.Errorf("exit %d, %s", code, whole)
	}
	if err := os.RemoveAll(filepath.Join(data, "journal", "hub-maths")); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"spend", "earn"} {
		if out, code := command(t, data, verb); code != ExitClean || !strings.Contains(out, says) {
			t.Errorf("%s: exit %d, %s", verb, code, out)
		}
		if out, _ := command(t, data, verb, "--journal=treasury"); strings.Contains(out, says) {
			t.Errorf("%s: %s", verb, out)
		}
	}
}

// Books that are exported name the bank's reference of what came, and which agent was paid by which invoice.
func TestAnExportNamesReferences(t *testing.T) {
	data := t.TempDir()
	w, err := newWriter(data, "treasury", ledger.RoleTreasury)
	if err != nil {
		t.Fatal(err)
	}
	d := ledger.NewDeposit("d", "ann", 5, &tip.Order{By: "cfo", Ref: "SEPA-1"}, w.salt())
	if err := errorOf(w.write(d), w.write(ledger.NewGrant("general", 1, "ann", 4, "", w.salt())),
		w.write(w.book.NewOrder("general", tip.Ordered{Kind: "remit", Number: 1, Amount: 3,
			Order: &tip.Order{By: "cfo", Ref: "=INV-1", Agent: "a-1"}}, w.salt())), w.j.Close()); err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string][]string{
		"hledger":   {"; ref: SEPA-1\n", "; agent: a-1\n", "; ref: =INV-1\n"},
		"beancount": {"ref: \"SEPA-1\"", "agent: \"a-1\""},
		"csv":       {"credits,currency,client,agent,model,task,key,ref\n", "-0.000000003,USD,,a-1,,,,'=INV-1\n"},
		"json":      {`"ref":"SEPA-1"`, `"agent":"a-1","ref":"=INV-1"`}} {
		out, code := command(t, data, "export", "--format", format)
		for _, text := range want {
			if code != ExitClean || !strings.Contains(out, text) {
				t.Errorf("%s lacks %q: exit %d, %s", format, text, code, out)
			}
		}
	}
}

// A day begins with its first moment, also where clocks are put forward at midnight and have no 0:00 then.
func TestDaysWithoutAMidnight(t *testing.T) {
	for _, test := range []struct {
		p        period
		from, to string
	}{
		{period{from: "2026-09-06", to: "2026-09-07", zone: "America/Santiago"}, "2026-09-06T04:00:00Z",
			"2026-09-07T03:00:00Z"},
		{period{from: "2026-03-28", to: "2026-03-29", zone: "Asia/Beirut"}, "2026-03-27T22:00:00Z",
			"2026-03-28T22:00:00Z"},
		{period{month: "2017-09", zone: "America/Asuncion"}, "2017-09-01T04:00:00Z", "2017-10-01T04:00:00Z"},
		{period{month: "2026-12", zone: "Europe/Berlin"}, "2026-11-30T23:00:00Z", "2026-12-31T23:00:00Z"},
	} {
		got, err := test.p.read()
		if err != nil {
			t.Fatal(err)
		}
		from, to := got.From.UTC().Format(time.RFC3339), got.To.UTC().Format(time.RFC3339)
		if from != test.from || to != test.to {
			t.Errorf("%+v is from %s to %s, want %s, %s", test.p, from, to, test.from, test.to)
		}
	}
}
