package quality

import (
	"slices"
	"strings"
	"testing"

	"souk/bus"
)

var domains = []bus.DomainScore{{Domain: "math", Score: 0.8}, {Domain: "code", Score: 0.4}}

func registered() *Standing {
	s := new(Standing)
	s.Register(domains)
	s.Rate(Default())
	return s
}

// An answer is judged in the domain of its task's label where the agent is registered for that, else in the
// agent's first; what is said there moves that domain alone, in steps, and the text of the scores with it.
func TestAStandingMovesByDomain(t *testing.T) {
	s, j := registered(), Default()
	if s.Rate(j) {
		t.Error("nothing was said, and the standing has changed")
	}
	if d := s.Served("law", "ann", 1); d != "math" {
		t.Errorf("an answer of another domain is judged in %q", d)
	}
	_, before := s.Rated()
	for range 30 {
		d := s.Served("code", "ann", 1)
		if d != "code" {
			t.Fatalf("it is judged in %q", d)
		}
		s.Judge(j, d, &bus.Feedback{Client: "ann", Quality: 1})
	}
	if !s.Rate(j) || s.Rate(j) {
		t.Error("thirty judgements change nothing, or one and the same changes it twice")
	}
	by, text := s.Rated()
	if by[0] != 0.8 || by[1] <= 0.5 || by[1] != float64(int(by[1]*128))/128 || text == before {
		t.Errorf("%v, %s", by, text)
	}
	list := s.Scored()
	if len(list) != 2 || list[1].Registered != 0.4 || list[1].Quality != by[1] || len(list[1].Heard) != 1 ||
		list[1].Heard[0].Count != 30 {
		t.Errorf("%+v", list)
	}
	s.Judge(j, "law", &bus.Feedback{Client: "ann", Quality: 0}) // of which nothing was served
	s.Register(domains[:1])
	if !s.Rate(j) || len(s.Scored()) != 1 {
		t.Error("it is registered for one domain, and has two")
	}
	s.Register(nil)
	if s.Rate(j); s.Served("math", "ann", 1) != "" {
		t.Error("an agent without a domain is judged in one")
	}
}

// Gold is the word of judges alone; what is not used counts for nothing, and what was said is kept and
// forgotten as a whole.
func TestWhoseWordCounts(t *testing.T) {
	s, j := registered(), Default()
	j.Judges = []string{"ann"}
	for range 20 {
		for _, client := range []string{"ann", "bob"} {
			d := s.Served("math", client, 1)
			s.Judge(j, d, &bus.Feedback{Client: client, Quality: 0, Gold: true})
		}
	}
	var said []string
	for _, h := range s.Scored()[0].Heard {
		if said = append(said, h.Source); h.Count != 20 {
			t.Errorf("%s: %d judgements, want 20", h.Source, h.Count)
		}
	}
	if !slices.Equal(said, []string{"gold", "feedback"}) {
		t.Errorf("%v", said)
	}
	s.Rate(Judging{})
	if by, _ := s.Rated(); by[0] != 0.8 {
		t.Errorf("nobody's word counts, and 0.8 is %v", by[0])
	}
	kept := s.Said
	again := registered()
	again.Said = kept
	s.Rate(j)
	if again.Rate(j); !slices.Equal(again.rated, s.rated) || again.rated[0] >= 0.5 {
		t.Errorf("restored %v, of %v", again.rated, s.rated)
	}
	again.Said = Agent{}
	if again.Rate(j); again.rated[0] != 0.8 {
		t.Errorf("forgotten, and still %v", again.rated)
	}
}

func TestJudgesThatAreNone(t *testing.T) {
	many := make([]string, mostJudges+1)
	for i := range many {
		many[i] = "ann"
	}
	for want, judges := range map[string][]string{"judges: ": {"not an id"}, "65 are named": many} {
		if err := (Judging{Judges: judges}).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}
