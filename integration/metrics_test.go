package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"souk/bus/bustest"
	"souk/cmd/local"
)

// page has the value of each series, of a histogram how many times it has, by its name and its labels in
// order.
type page map[string]float64

// scraped reads /metrics of a market, and how many lines of series the page has.
func scraped(t *testing.T, m *local.Market) (values page, series int, text []byte) {
	t.Helper()
	a, err := http.Get(m.State.Health + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err = io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 200 {
		t.Fatalf("%s: %v %.200s", a.Status, err, text)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	values = page{}
	for name, f := range all {
		for _, s := range f.Metric {
			values[name+labels(s.Label)] += s.GetCounter().GetValue() + s.GetGauge().GetValue() +
				float64(s.GetHistogram().GetSampleCount())
		}
	}
	for line := range bytes.Lines(text) {
		if line[0] != '#' {
			series++
		}
	}
	return values, series, text
}

// labels are as a page of Prometheus's has them; none is "".
func labels(all []*dto.LabelPair) string {
	var out []string
	for _, l := range all {
		out = append(out, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	if len(out) == 0 {
		return ""
	}
	return "{" + strings.Join(out, ",") + "}"
}

// A scraper reads of a market what its clients were told: answers by outcome, tokens, money. The page is one
// that Prometheus's own linter has nothing against, short, and without a word of anybody's prompt.
func TestWhatAScraperReads(t *testing.T) {
	m := start(t, one+"health: {listen: \"127.0.0.1:0\"}\n", hard)
	key, err := local.ReadKey(m.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	type usage struct {
		Prompt  int64 `json:"prompt_tokens"`
		Output  int64 `json:"completion_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	ask := func(key, body string) (status int, u usage) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", m.State.HTTP+"/v1/chat/completions",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		var said struct{ Usage usage }
		if err := json.NewDecoder(a.Body).Decode(&said); err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, said.Usage
	}
	const question = "What is a café? My number is 31415926."
	text, _ := json.Marshal(question)
	messages := `"messages":[{"role":"user","content":` + string(text) + `}]`
	var sum usage
	const served, wrong, unsold = 5, 3, 2
	for range served {
		status, u := ask(key, `{"max_tokens":40,`+messages+`}`)
		if status != 200 || u.Prompt == 0 || u.Output == 0 {
			t.Fatalf("%d %+v", status, u)
		}
		sum.Prompt += u.Prompt
		sum.Output += u.Output
		sum.Details.Cached += u.Details.Cached
	}
	for range wrong {
		if status, _ := ask(key+"x", `{`+messages+`}`); status != 401 {
			t.Fatalf("a wrong key: %d", status)
		}
	}
	for i := range unsold {
		if status, _ := ask(key, fmt.Sprintf(`{"model":"nobody-sells-%d\"}evil{",%s}`, i, messages)); status != 404 {
			t.Fatalf("a model that nobody sells: %d", status)
		}
	}
	var got page
	var series int
	var raw []byte
	bustest.Eventually(t, "all are settled", func() bool {
		got, series, raw = scraped(t, m)
		return got[`souk_hub_served_total{hub="general",model="gpt-oss-20b"}`] == served &&
			got[`souk_agentd_unacknowledged{agent="only",model="gpt-oss-20b"}`] == 0
	})
	const of, by = `model="gpt-oss-20b"`, `{agent="only",model="gpt-oss-20b"}`
	want := page{
		`souk_ready`: 1,
		`souk_gateway_requests_total{code="ok",route="/v1/chat/completions"}`:              served,
		`souk_gateway_requests_total{code="invalid_api_key",route="/v1/chat/completions"}`: wrong,
		`souk_gateway_requests_total{code="unknown_model",route="/v1/chat/completions"}`:   unsold,
		`souk_gateway_answers_total{code="ok"}`:                                            served,
		`souk_gateway_answers_total{code="unknown_model"}`:                                 unsold,
		`souk_gateway_first_token_seconds{` + of + `}`:                                     served,
		`souk_gateway_answer_seconds`:                                                      served + unsold,
		`souk_gateway_open_answers`:                                                        0,
		`souk_door_open_tasks`:                                                             0,
		`souk_hub_leading{hub="general"}`:                                                  1,
		`souk_hub_tasks_total{code="ok",hub="general"}`:                                    served,
		`souk_hub_slots{hub="general",` + of + `,state="free"}`:                            2,
		`souk_hub_agents{hub="general",` + of + `,state="open"}`:                           1,
		`souk_hub_wait_seconds{hub="general"}`:                                             served,
		`souk_agentd_answers_total{agent="only",code="ok",` + of + `}`:                     served,
		`souk_agentd_first_token_seconds` + by:                                             served,
		`souk_agentd_claimed` + by:                                                         1,
		`souk_hub_faults_total{hub="general"}`:                                             0,
		`souk_treasury_leading`:                                                            1,
	}
	for kind, n := range map[string]int64{"prompt": sum.Prompt, "cached": sum.Details.Cached,
		"output": sum.Output} {
		want[`souk_hub_tokens_total{hub="general",kind="`+kind+`",`+of+`}`] = float64(n)
		want[`souk_agentd_tokens_total{agent="only",kind="`+kind+`",`+of+`}`] = float64(n)
	}
	for name, n := range want {
		if v, there := got[name]; v != n || !there {
			t.Errorf("%s is %v (there: %v), want %v", name, v, there, n)
		}
	}
	// what clients paid is what the hub charged, and its cost what the agent claims
	cost := got[`souk_gateway_paid_credits_total{kind="cost"}`]
	if hub := got[`souk_hub_cost_credits_total{hub="general",`+of+`}`]; cost <= 0 || hub != cost ||
		got[`souk_agentd_earned_credits_total`+by] != cost {
		t.Errorf("clients paid %v, the hub charged %v, the agent claims %v", cost, hub,
			got[`souk_agentd_earned_credits_total`+by])
	}
	problems, err := promlint.New(bytes.NewReader(raw)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %+v", err, problems)
	}
	if series > 600 {
		t.Errorf("%d series in a process, want 600 at most", series)
	}
	for _, secret := range []string{"31415926", "nobody-sells", "evil", key, `"dev"`} {
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("the page has %q", secret)
		}
	}
	began := time.Now()
	scraped(t, m)
	t.Logf("%d series, %d bytes, read in %v", series, len(raw), time.Since(began))
}
