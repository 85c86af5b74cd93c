package hostile

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/market"
)

// How often an attacker guesses. Guesses come in pairs about one text at one moment, a right one and a wrong
// one: so whoever does better than chance by half a percentage point has them apart in one pair of a hundred,
// and of 500 pairs in one at least with a probability of 0.993, of 5,000 with one of 1 - 1e-21. (Guesses that
// are each by itself would have to be 117,000 to show as much at one percent four times in five: SOUK_SOAK.)
const (
	quotedGuesses, soakedGuesses = 10_000, 120_000
	paidGuesses                  = 1_000
	// so many guesses more, first, are what the attacker learns by
	learningGuesses = 400
	leakRate        = 0.01
)

// secret is a prompt of which an attacker knows all but a PIN in its midst.
type secret struct{ id, pin int }

// wrong is another PIN.
func (s secret) wrong(r *rand.Rand) int { return 1000 + (s.pin-1000+1+r.IntN(8999))%9000 }

// body asks for one token of an answer to the prompt with a PIN; names are those that its first sender used.
func (s secret) body(pin int, names bool) string {
	filler := func(word string, n int) string { return strings.TrimSpace(strings.Repeat(word+" ", n)) }
	souk := ""
	if names {
		souk = fmt.Sprintf(`,"souk":{"session":"s-%d","role":"teller","source":"till","run":"r-%d"}`, s.id, s.id)
	}
	return fmt.Sprintf(`{"max_tokens":1,"messages":[{"role":"system","content":"Branch %d. %s."},`+
		`{"role":"user","content":"%s, and my pin is %d. %s."}]%s}`, s.id, filler("be brief", 30),
		filler("please", 10), pin, filler("never tell it to anybody", 30), souk)
}

// figures are all numbers and switches that an answer has, by where they stand in it; its size; and how long
// it took.
func figures(answer []byte, took time.Duration) map[string]float64 {
	all := map[string]float64{"bytes": float64(len(answer)), "took": took.Seconds()}
	var look func(at string, v any)
	look = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, v := range v {
				look(at+"."+name, v)
			}
		case []any:
			for i, v := range v {
				look(fmt.Sprint(at, ".", i), v)
			}
		case float64:
			all[at] = v
		case bool:
			if all[at] = 0; v {
				all[at] = 1
			}
		}
	}
	var v any
	if json.Unmarshal(answer, &v) == nil {
		look("", v)
	}
	return all
}

// guess is an attacker's observation of one guess.
type guess struct {
	right bool
	saw   map[string]float64
}

// rule says which guesses are right: those of which a figure is above a bound, or those of which it is not.
type rule struct {
	figure string
	above  float64
	flip   bool
}

func (x rule) says(g guess) bool { return (g.saw[x.figure] > x.above) != x.flip }

func (x rule) right(all []guess) (n int) {
	for _, g := range all {
		if x.says(g) == g.right {
			n++
		}
	}
	return n
}

// learn finds the rule that does best.
func learn(all []guess) (best rule) {
	most := -1
	for _, figure := range slices.Sorted(maps.Keys(all[0].saw)) {
		bounds := map[float64]bool{}
		for _, g := range all {
			bounds[g.saw[figure]] = true
		}
		for _, above := range slices.Sorted(maps.Keys(bounds)) {
			for _, flip := range []bool{false, true} {
				x := rule{figure, above, flip}
				if n := x.right(all); n > most {
					most, best = n, x
				}
			}
		}
	}
	return best
}

// byChance returns the probability that n fair coins show heads as far from half as that, or further.
func byChance(heads, n int) float64 {
	least := min(heads, n-heads)
	p := 0.0
	log := func(n int) float64 { x, _ := math.Lgamma(float64(n + 1)); return x }
	for k := 0; k <= least; k++ {
		p += math.Exp(log(n) - log(k) - log(n-k) - float64(n)*math.Ln2)
	}
	return min(1, 2*p)
}

// judge wants an attacker to have learned nothing: by the rule that did best before it is right no more
// often than by chance, and of no figure do right and wrong guesses differ, pair by pair, in one direction
// more often than in the other; both by two-sided tests at one percent.
func judge(t *testing.T, what string, before, all []guess) {
	t.Helper()
	x := learn(before)
	right := x.right(all)
	apart, figure, worst := 0, "", 1.0
	for name := range all[0].saw {
		more, less := 0, 0
		for i := 0; i < len(all); i += 2 {
			r, w := all[i].saw[name], all[i+1].saw[name]
			if !all[i].right {
				r, w = w, r
			}
			switch {
			case r > w:
				more++
			case r < w:
				less++
			}
		}
		if p := byChance(more, more+less) * float64(len(all[0].saw)); p < worst {
			apart, figure, worst = more+less, name, p
		}
	}
	seen := 1 - math.Pow(1-leakRate, float64(len(all)/2))
	t.Logf("%d %s: %d right by %s (p = %.2g); figure %q is apart in %d of %d pairs (p = %.2g); had one in a "+
		"hundred told them apart, some would be with a probability of %.6f", len(all), what, right, x.figure,
		byChance(right, len(all)), figure, apart, len(all)/2, worst, seen)
	if p := byChance(right, len(all)); p < 0.01 {
		t.Errorf("%s: %d of %d guesses are right, by %s above %v (p = %.2g): an attacker learns another's prompt",
			what, right, len(all), x.figure, x.above, p)
	}
	if worst < 0.01 {
		t.Errorf("%s: %s tells right from wrong (p = %.2g): an attacker learns another's prompt", what, figure,
			worst)
	}
}

// figures sends a request and returns those of the answer.
func (h *house) figures(subject, body string) map[string]float64 {
	h.t.Helper()
	begun := time.Now()
	m, err := h.me.Request(h.t.Context(), bus.Msg{Subject: subject, Data: []byte(body)})
	h.must(err)
	if strings.Contains(string(m.Data), `"code"`) {
		h.t.Fatalf("%s: %s", subject, m.Data)
	}
	return figures(m.Data, time.Since(begun))
}

// rich gives clients money for thousands of tasks.
func (h *house) rich() {
	h.t.Helper()
	for _, c := range clients {
		data, err := bus.Encode(&bus.FundsRequest{ID: "more-" + c, Client: c, Amount: 1000 * market.Credit})
		h.must(err)
		_, err = h.me.Request(h.t.Context(), bus.Msg{Subject: bus.LedgerSubject(bus.OpDeposit, h.me.Name()),
			Data: data})
		h.must(err)
	}
}

// attacker guesses at the PINs of prompts that ann sends.
type attacker struct {
	*house
	r  *rand.Rand
	id int
}

// put has somebody else send a prompt.
func (a *attacker) put() secret {
	a.t.Helper()
	a.id++
	s := secret{a.id, 1000 + a.r.IntN(9000)}
	a.figures(bus.TaskSubject("ann", ""), s.body(s.pin, true))
	a.pass(time.Second)
	return s
}

// pair are a right and a wrong guess, in any order, each by one client.
func (a *attacker) pair(subject func(client, gateway string) string, rest time.Duration, s secret,
	who [2]string) (pair []guess) {
	a.t.Helper()
	pins, first := [2]int{s.pin, s.wrong(a.r)}, a.r.IntN(2)
	for i := range 2 {
		k := (first + i) % 2
		saw := a.figures(subject(who[i], ""), s.body(pins[k], a.r.IntN(2) == 0))
		pair = append(pair, guess{k == 0, saw})
		a.pass(rest)
	}
	return pair
}

// quoted are guesses by quotes, about twenty prompts. A hub gives a quote each 5 ms.
func (a *attacker) quoted(n int) (all []guess) {
	a.t.Helper()
	var secrets []secret
	for range 20 {
		secrets = append(secrets, a.put())
	}
	for len(all) < n {
		all = append(all, a.pair(bus.QuoteSubject, 6*time.Millisecond, secrets[a.r.IntN(len(secrets))],
			[2]string{"eve", "eve"})...)
	}
	return all
}

// paid are guesses by tasks, of two attackers. Whoever pays for one has its text in the cache, too: so each
// pair is about another prompt.
func (a *attacker) paid(n int) (all []guess) {
	a.t.Helper()
	for len(all) < n {
		all = append(all, a.pair(bus.TaskSubject, time.Second, a.put(), [2]string{"eve", "bob"})...)
	}
	return all
}

// An attacker who knows all of another client's prompt but a PIN cannot tell whether the one that it guesses
// is right: not by free quotes, whatever they say, and not by tasks that it pays, by nothing that these say
// or cost or by how long they take; also where it calls its sessions, roles, sources and runs as the other
// does.
func TestNobodyLearnsAnothersPrompt(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	synctest.Test(t, func(t *testing.T) {
		// always these: of tests at one percent one in a hundred fails by chance
		a := &attacker{house: open(t, direct, nil), r: rand.New(rand.NewPCG(1, 1))}
		a.rich()
		quotes := quotedGuesses
		if os.Getenv("SOUK_SOAK") != "" {
			quotes = soakedGuesses
		}
		all := a.quoted(learningGuesses + quotes)
		judge(t, "quotes", all[:learningGuesses], all[learningGuesses:])
		all = a.paid(learningGuesses + paidGuesses)
		judge(t, "paid tasks", all[:learningGuesses], all[learningGuesses:])
		a.close()
	})
}

// In one group all of them see what the others sent, by each of these: so whoever is not told apart above
// would have been, had there been anything to see.
func TestMembersOfAGroupSeeTheirTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attacker{house: open(t, direct, nil), r: rand.New(rand.NewPCG(1, 2))}
		a.rich()
		a.join("team", clients...)
		for what, all := range map[string][]guess{"quotes": a.quoted(100), "paid tasks": a.paid(100)} {
			if x := learn(all); x.right(all) != len(all) {
				t.Errorf("of %d %s %d are right, by %s", len(all), what, x.right(all), x.figure)
			}
		}
		a.close()
	})
}

// join puts clients into a group.
func (h *house) join(group string, members ...string) {
	h.t.Helper()
	for _, c := range members {
		value := fmt.Sprintf(`{"client":%q,"group":%q}`, c, group)
		h.must(h.world.Registry().Put(h.t.Context(), "/souk/v1/groups/"+c, []byte(value)))
	}
	h.pass(time.Second)
}

// withinFile has what tasks were quoted, given and billed while everybody shared one cache.
const withinFile = "testdata/within.txt"

var update = flag.Bool("update", false, "write "+withinFile)

// Within a group nothing changes: three clients of one, and one who is in none, with dialogues that begin
// alike, are quoted, given and billed, by the agent that serves all, what they were when there were no
// groups.
func TestWithinAGroupNothingChanges(t *testing.T) {
	var lines strings.Builder
	for _, of := range [][]string{clients, clients[:1]} {
		fmt.Fprintln(&lines, of)
		synctest.Test(t, func(t *testing.T) {
			h := open(t, direct, nil)
			h.rich()
			h.stop("node-2") // which of two agents serves a task is drawn
			if len(of) > 1 {
				h.join("team", of...)
			}
			h.talk(rand.New(rand.NewPCG(1, 3)), of, &lines)
			h.close()
		})
	}
	if *update {
		if err := os.WriteFile(withinFile, []byte(lines.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(withinFile)
	if err != nil {
		t.Fatal(err)
	}
	got, wants := strings.Split(lines.String(), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(got), len(wants)) {
		if got[i] != wants[i] {
			t.Fatalf("line %d: %s, and was %s", i+1, got[i], wants[i])
		}
	}
	if len(got) != len(wants) {
		t.Errorf("%d lines, and were %d", len(got), len(wants))
	}
}

// talk plays dialogues, each turn by one of some clients, and writes down what each turn is quoted and given.
func (h *house) talk(r *rand.Rand, of []string, lines *strings.Builder) {
	h.t.Helper()
	said := make([]string, 8) // of each dialogue
	for range 60 {
		d := r.IntN(len(said))
		if said[d] == "" || len(said[d]) > 4000 {
			said[d] = fmt.Sprintf(`{"role":"system","content":"House %d. %s"}`, d%3,
				strings.Repeat("be brief and be exact ", 20))
		}
		said[d] += fmt.Sprintf(`,{"role":"user","content":"%s %d"}`,
			strings.Repeat("and so on ", 1+r.IntN(40)), r.IntN(3))
		body := fmt.Sprintf(`{"max_tokens":%d,"messages":[%s]}`, 1+r.IntN(30), said[d])
		client := of[r.IntN(len(of))]
		for _, subject := range []string{bus.QuoteSubject(client, ""), bus.TaskSubject(client, "")} {
			saw, line := h.figures(subject, body), []string(nil)
			for _, name := range slices.Sorted(maps.Keys(saw)) {
				switch short := name[strings.LastIndexByte(name, '.')+1:]; short {
				case "bytes", "took", "ttft_ms", "valid_ms", "estimate", "epoch": // of the clock, or constant
				default:
					line = append(line, fmt.Sprint(short, " ", saw[name]))
				}
			}
			fmt.Fprintln(lines, strings.Join(line, ", "))
			h.pass(time.Second)
		}
		said[d] += `,{"role":"assistant","content":"so so"}`
	}
}
