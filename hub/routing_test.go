package hub_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// question is put to models: its domain, and how well each answered.
type question struct {
	domain string
	scores []float64
}

// recordedAnswers are how well models answered public questions.
func recordedAnswers(t *testing.T) (models []string, all []question) {
	t.Helper()
	f, err := os.Open("testdata/routing.txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(z); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if models == nil {
			models = words[1:]
			continue
		}
		q := question{domain: words[0]}
		for _, w := range words[1:] {
			x, err := strconv.ParseFloat(w, 64)
			if err != nil {
				t.Fatal(err)
			}
			q.scores = append(q.scores, x)
		}
		all = append(all, q)
	}
	return models, all
}

// Nine models that their operators all call equal answer public questions as they were recorded. By the
// judgements of a client that has reference answers, the hub comes to send the questions of each domain to
// models that answer them well.
func TestQualityByRecordedAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	models, all := recordedAnswers(t)
	served := map[string]float64{}
	all = all[:1500]
	perModel := map[string][]float64{} // by domain: how well each answers there
	for _, q := range all[len(all)/2:] {
		if perModel[q.domain] == nil {
			perModel[q.domain] = make([]float64, len(models))
		}
		for i, x := range q.scores {
			perModel[q.domain][i] += x
		}
	}
	best := 0.0 // who knew which model is best in each domain
	for _, sums := range perModel {
		best += slices.Max(sums)
	}
	for _, way := range []string{"registered", "gold"} {
		h := newHouse(t, func(c *hub.Config) {
			c.Quality.Judges, c.Quality.Gold = []string{"ann"}, way == "gold"
		})
		domains := []bus.DomainScore{{Domain: "math", Score: 0.6}}
		for _, q := range all {
			x := bus.DomainScore{Domain: q.domain, Score: 0.6}
			if !slices.Contains(domains, x) {
				domains = append(domains, x)
			}
		}
		number := map[string]int{}
		for i, m := range models {
			r := registration(fmt.Sprint("a-", i), m, 1, 0.6, card(1, 1, 4))
			r.Domains = domains
			h.must(h.register(r))
			number[r.Agent] = i
		}
		h.run()
		sum, count, seq := 0.0, 0, uint64(0)
		quality := 0.99
		for i, q := range all {
			id := fmt.Sprint("t", i)
			h.must(h.step(h.task("ann", id, worth(market.Credit), func(m *bus.Task) {
				m.Domain, m.Terms.Delta = q.domain, &quality
			})))
			d := h.take("ann", id)
			agent := h.agentOf(d)
			h.serve(d, market.Usage{Prompt: 100, Output: 9})
			score := q.scores[number[agent]]
			h.must(h.step(&bus.Feedback{Client: "ann", Sender: "ann", Task: id, Quality: score, Gold: true}))
			if i >= len(all)/2 {
				sum, count = sum+score, count+1
			}
			h.now = h.now.Add(50 * time.Millisecond)
			for k := range models {
				if i%20 == 0 { // each second
					seq++
					h.must(h.summary(fmt.Sprint("a-", k), nil))
				}
			}
		}
		served[way] = sum / float64(count)
		t.Logf("%s: %.3f of the second half are answered well; by the best model of each domain %.3f", way,
			served[way], best/float64(count))
	}
	if a, b := served["registered"], served["gold"]; b < a+0.1 {
		t.Errorf("%v", served)
	}
}
