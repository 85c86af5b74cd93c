package market

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"souk/bus/bustest/golden"
)

// textRound is a round as people write it; testdata/max-flow.txt says how.
type textRound struct {
	name                   string
	round                  Round
	clear, prices, welfare string
}

func readRounds(t *testing.T, path string) (rounds []textRound) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n, line := range strings.Split(string(data), "\n") {
		line, _, _ = strings.Cut(line, "# ")
		line = strings.TrimSpace(strings.TrimSuffix(line, "#"))
		if line == "" {
			continue
		}
		key, rest, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("%s:%d: no colon in %q", path, n+1, line)
		}
		rest = strings.TrimSpace(rest)
		if key == "name" {
			rounds = append(rounds,
				textRound{name: rest, round: Round{Domain: "text", Number: 1, Rule: DefaultRule}})
			continue
		}
		r := &rounds[len(rounds)-1]
		fail := func(err error) {
			if err != nil {
				t.Fatalf("%s:%d: %v", path, n+1, err)
			}
		}
		switch key {
		case "fee":
			r.round.Fee, err = ParseCredits(rest)
			fail(err)
		case "clarke":
			r.round.Rule.Clarke = rest
		case "pricing":
			r.round.Rule.Pricing, r.round.Rule.Instead, _ = strings.Cut(rest, " instead of ")
		case "sellers":
			for i, word := range strings.Fields(rest) {
				s, tariff, _ := strings.Cut(word, "@")
				owner, class, _ := strings.Cut(s, "/")
				c, err := ParseCredits(tariff)
				fail(err)
				r.round.Sellers = append(r.round.Sellers, Seller{owner, class, c})
				if i >= len(r.round.Agents) {
					t.Fatalf("%s:%d: more sellers than agents", path, n+1)
				}
			}
		case "slots":
			words := strings.Fields(rest)
			for i := 0; i+1 < len(words); i += 2 {
				s, err := readSupply(words[i], words[i+1])
				fail(err)
				r.round.Agents = append(r.round.Agents, s)
			}
		case "clear":
			r.clear = rest
		case "prices":
			r.prices = rest
		case "welfare":
			r.welfare = rest
		default:
			fail(r.addTask(key, strings.Fields(rest)))
		}
	}
	return rounds
}

func readSupply(name, slots string) (Supply, error) {
	s := Supply{Agent: AgentID(name)}
	for part := range strings.SplitSeq(slots, "+") {
		var at Seat
		count, in, later := strings.Cut(part, "@")
		if _, err := fmt.Sscan(count, &at.Slots); err != nil {
			return s, err
		}
		if at.Later = later; later {
			var err error
			if at.In, err = time.ParseDuration(in); err != nil {
				return s, err
			}
		}
		s.Seats = append(s.Seats, at)
	}
	return s, nil
}

// addTask adds a task "client/name" or "name", with edges "agent value-cost~toll~own" in pairs of words. A
// first word "second=1" is what a second costs it.
func (r *textRound) addTask(name string, words []string) error {
	client, _, ok := strings.Cut(name, "/")
	if !ok {
		client = name
	}
	j := len(r.round.Tasks)
	task := Task{ID: TaskID(name), Client: client}
	if len(words) > 0 {
		if second, ok := strings.CutPrefix(words[0], "second="); ok {
			c, err := ParseCredits(second)
			if err != nil {
				return err
			}
			task.Second, words = c, words[1:]
		}
	}
	r.round.Tasks = append(r.round.Tasks, task)
	for k := 0; k+1 < len(words); k += 2 {
		i := slices.IndexFunc(r.round.Agents, func(s Supply) bool { return string(s.Agent) == words[k] })
		if i < 0 {
			return fmt.Errorf("no agent %q", words[k])
		}
		value, rest, _ := strings.Cut(words[k+1], "-")
		cost, tolls, _ := strings.Cut(rest, "~")
		toll, own, _ := strings.Cut(tolls, "~")
		e := Edge{Task: j, Agent: i}
		for _, part := range []struct {
			text string
			to   *Credits
			sign Credits
		}{{value, &e.Value, 1}, {cost, &e.Cost, 1}, {cmp.Or(toll, "0"), &e.Toll, -1},
			{cmp.Or(own, "0"), &e.Own, 1}} {
			c, err := ParseCredits(part.text)
			if err != nil {
				return err
			}
			*part.to = c * part.sign
		}
		r.round.Edges = append(r.round.Edges, e)
	}
	return nil
}

// Everything in testdata clears as written there.
func TestRoundsAsText(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no rounds: %v", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split("\n"+string(text), "\nname:") // the head of the file, and each round
		for i, want := range readRounds(t, path) {
			t.Run(filepath.Base(path)+"/"+want.name, func(t *testing.T) {
				r := want.round
				r.Sort()
				o, err := Clear(r)
				if err != nil {
					t.Fatal(err)
				}
				if err := Check(r, o); err != nil {
					t.Error(err)
				}
				got := textRound{name: want.name, round: want.round, clear: textAwards(r, o),
					prices: textPrices(r, o), welfare: o.Welfare.String()}
				if *golden.Update {
					parts[i+1] = got.rewrite(parts[i+1])
					return
				}
				if d := gocmp.Diff([]string{want.clear, want.prices, want.welfare},
					[]string{got.clear, got.prices, got.welfare}); d != "" {
					x, _ := Explain(r, o)
					t.Errorf("as written (-), as cleared (+):\n%s\n%s", d, x)
				}
			})
		}
		if *golden.Update {
			if err := os.WriteFile(path, []byte(strings.Join(parts, "\nname:")[1:]), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// rewrite has the text of a round say how it was cleared.
func (r *textRound) rewrite(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		switch key, _, _ := strings.Cut(line, ":"); key {
		case "clear":
			lines[i] = strings.TrimSpace("clear: " + r.clear)
		case "prices":
			lines[i] = strings.TrimSpace("prices: " + r.prices)
		case "welfare":
			lines[i] = "welfare: " + r.welfare
		}
	}
	return strings.Join(lines, "\n")
}

func textAwards(r Round, o Outcome) string {
	var words []string
	for _, p := range placesOf(&r, &o) {
		place := string(r.Agents[p.agent].Agent)
		if p.seat > 0 {
			place += fmt.Sprintf("#%d", p.seat+1)
		}
		word := fmt.Sprintf("%s>%s", r.Tasks[p.task].ID, place)
		if p.award != nil {
			word += fmt.Sprintf(" pays %s", p.award.Cost+p.award.Premium)
		} else {
			word += " waits"
		}
		words = append(words, word)
	}
	return strings.Join(words, "  ")
}

func textPrices(r Round, o Outcome) string {
	var words []string
	for _, p := range o.Prices {
		place := string(r.Agents[p.Agent].Agent)
		if p.Seat > 0 {
			place += fmt.Sprintf("#%d", p.Seat+1)
		}
		words = append(words, place+" "+p.Price.String())
	}
	return strings.Join(words, "  ")
}
