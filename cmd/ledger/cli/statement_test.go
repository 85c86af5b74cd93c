package cli

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"souk/bus/tip"
	"souk/ledger/inspect"
)

// Whatever clients call things, a page shows it and does nothing by it, a terminal obeys nothing of it, and a
// spreadsheet computes nothing of it.
func TestNamesThatWantMore(t *testing.T) {
	bad := []string{"<script>alert(1)</script>", "\x1b]0;owned\a", "=HYPERLINK(1)", "{{.}}", "a,\"b\"\nc",
		"'x", "＝1+1"}
	s := &inspect.Statement{Client: "ann", Currency: "USD", Period: inspect.Period{From: time.Unix(0, 0),
		To: time.Unix(1, 0), Zone: time.UTC}}
	for _, name := range bad {
		s.Lines = append(s.Lines, inspect.Line{What: "deposit", Record: "deposit/d", Note: name, Amount: 5})
		s.Usage = append(s.Usage, inspect.Sum{Of: []string{name}, Use: tip.Use{Tasks: 1, Paid: 7}})
	}
	text := map[string]string{}
	for _, format := range []string{"html", "table", "csv", "json"} {
		var out bytes.Buffer
		if err := (&env{output: format}).writeStatement(&out, s); err != nil {
			t.Fatal(err)
		}
		text[format] = out.String()
	}
	if strings.Contains(text["html"], "<script") ||
		!strings.Contains(text["html"], "&lt;script&gt;alert(1)") {
		t.Errorf("the page has a script in it:\n%s", text["html"])
	}
	if strings.Contains(text["html"], "http") {
		t.Error("the page names what lies elsewhere")
	}
	if strings.ContainsAny(text["table"], "\x1b\a") || !strings.Contains(text["table"], `"\x1b]0;owned\a"`) {
		t.Errorf("a terminal obeys it: %q", text["table"])
	}
	rows, err := csv.NewReader(strings.NewReader(text["csv"])).ReadAll()
	if err != nil || len(rows) != 1+2+2*len(bad) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, name := range bad {
		want := name
		if strings.ContainsAny(name[:1], "='") || strings.HasPrefix(name, "＝") {
			want = "'" + name
		}
		if note := rows[2+i][4]; note != want {
			t.Errorf("%q is %q", name, note)
		}
	}
}
