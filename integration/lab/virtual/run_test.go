package virtual

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"souk/agentd/vllmsim"
	"souk/cmd/replay"
)

var scripts = sync.OnceValues(func() ([]*Script, error) {
	ds, err := replay.BundledSet("mtrag.jsonl.gz")
	if err != nil {
		return nil, err
	}
	return NewScripts(ds[:12], false, 16), nil
})

// small is a setting of three engines.
func small(t testing.TB, seed uint64) Setting {
	t.Helper()
	all, err := scripts()
	if err != nil {
		t.Fatal(err)
	}
	p := profile(t, "rtxpro6000-llama-3.1-8b")
	return Setting{Engines: 3, Scripts: all, Callers: 20, Tasks: 300,
		Think: 50 * time.Millisecond, Seed: seed, Hop: 300 * time.Microsecond, Scrape: 2 * time.Second,
		Engine: EngineConfig{Profile: p, Slots: 4, MaxBatched: 2048, Blocks: 1000, BlockSize: 16}}
}

func routed(t testing.TB, s Setting, name string) ([]*Request, []*Engine) {
	t.Helper()
	p, err := NewRule(name, s.Seed)
	if err != nil {
		t.Fatal(err)
	}
	all, engines, err := Run(s, p)
	if err != nil {
		t.Fatal(err)
	}
	return all, engines
}

// digest hashes everything that happened.
func digest(t testing.TB, all []*Request) string {
	t.Helper()
	h := sha256.New()
	for _, r := range all {
		fmt.Fprintln(h, r.ID, r.Caller, r.Play, r.Turn, r.Engine, r.Arrived, r.First, r.Done, r.Cached,
			r.Refused)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// One seed gives one run, whatever else the machine does; another gives another.
func TestSameSeedSameRun(t *testing.T) {
	for _, name := range RuleNames() {
		all, _ := routed(t, small(t, 1), name)
		was := runtime.GOMAXPROCS(1)
		again, _ := routed(t, small(t, 1), name)
		runtime.GOMAXPROCS(was)
		other, _ := routed(t, small(t, 2), name)
		if digest(t, all) != digest(t, again) {
			t.Errorf("%s: the same seed gave another run", name)
		}
		if digest(t, all) == digest(t, other) {
			t.Errorf("%s: another seed gave the same run", name)
		}
	}
}

// What callers ask and how long they think is theirs: the same under any policy.
func TestSameQuestionsUnderAnyPolicy(t *testing.T) {
	asked := func(name string) map[int][]string {
		s := small(t, 4)
		s.Say = Spread
		all, _ := routed(t, s, name)
		by := map[int][]string{}
		for _, r := range all {
			said := fmt.Sprint(r.Turn, r.Prompt, r.Output, r.Terms.Worth)
			by[r.Caller] = append(by[r.Caller], said)
		}
		return by
	}
	one, other := asked("random"), asked("two-block")
	for caller, said := range one {
		n := min(len(said), len(other[caller]))
		if n < 5 || !slices.Equal(said[:n], other[caller][:n]) {
			t.Errorf("caller %d asks %v, and under another policy %v", caller, said, other[caller])
		}
	}
}

// Whoever asks is answered: all in order, each turn after the one before, at the times at which engines are.
func TestEverybodyIsAnswered(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Setting)
	}{
		{"callers", func(*Setting) {}},
		{"at random", func(s *Setting) { s.Callers, s.Rate = 0, 3 }},
		{"for a while", func(s *Setting) { s.Callers, s.Rate, s.Tasks, s.Length = 0, 3, 0, 20*time.Second }},
		{"as recorded", func(s *Setting) {
			s.Callers = 0
			s.Arrive = []time.Duration{5 * time.Second, time.Second, time.Second, 9 * time.Second}
		}},
		{"no time at all", func(s *Setting) { s.Engine.Profile, s.Hop = vllmsim.Instant, 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := small(t, 3)
			c.change(&s)
			all, engines := routed(t, s, "two-block")
			if s.Tasks > 0 && s.Arrive == nil && len(all) != s.Tasks || len(all) < 8 {
				t.Errorf("%d requests", len(all))
			}
			turns := map[int][]*Request{}
			prompts, cached, output := 0, 0, 0
			for i, r := range all {
				if r.ID != i || r.Engine < 0 || r.First < r.Arrived || r.Done < r.First ||
					s.Hop > 0 && r.First < r.Arrived+2*s.Hop {
					t.Fatalf("request %d: %+v", i, *r)
				}
				turns[r.Play] = append(turns[r.Play], r)
				prompts, cached, output = prompts+r.Prompt, cached+r.Cached, output+r.Output
			}
			for _, play := range turns {
				for i, r := range play {
					if r.Turn != i || i > 0 && r.Arrived < play[i-1].Done {
						t.Errorf("turn %d of play %d: %+v", i, r.Play, *r)
					}
				}
			}
			for _, e := range engines {
				prompts, cached, output = prompts-e.Prompt, cached-e.Cached, output-e.Output
			}
			if prompts != 0 || cached != 0 || output != 0 {
				t.Errorf("engines and requests differ by %d, %d and %d tokens", prompts, cached, output)
			}
		})
	}
}

// nobody is a rule that refuses everything.
type nobody struct {
	Plain
	asked []Placed
}

// Arrive implements Policy.
func (n *nobody) Arrive(_ time.Time, r *Request, _ *View) int {
	n.asked = append(n.asked, Placed{Request: r, Engine: Wait})
	return Wait
}

// Wake implements Policy.
func (n *nobody) Wake(time.Time) (place []Placed, next time.Time) {
	place, n.asked = n.asked, nil
	return place, next
}

// Callers who need no time to think do not ask without end where everything is refused.
func TestWhoIsRefusedDoesNotAskWithoutEnd(t *testing.T) {
	s := small(t, 1)
	s.Think, s.Tasks, s.Length = 0, 0, 20*time.Second
	all, _, err := Run(s, &nobody{})
	if most := s.Callers * int(s.Length/backOff+1); err != nil || len(all) < s.Callers || len(all) > most {
		t.Errorf("%d callers ask %d times in %v, %v: want at most %d", s.Callers, len(all), s.Length, err, most)
	}
}

// Nobody's text is found in a cache before it was computed, and a dialogue that nobody else comes between
// finds all its blocks.
func TestPlaysShareNothing(t *testing.T) {
	s := small(t, 1)
	s.Engines, s.Callers, s.Tasks = 1, 1, 60
	all, _ := routed(t, s, "random")
	for i, r := range all {
		want := 0
		if r.Turn > 0 {
			before := all[i-1]
			want = min((before.Prompt+before.Output-1)/16, (r.Prompt-1)/16) * 16
		}
		if r.Cached != want {
			t.Errorf("turn %d of play %d: %d tokens cached, want %d", r.Turn, r.Play, r.Cached, want)
		}
	}
}

// A play has the blocks of the text that it asks: all share a system prompt that all dialogues have, and
// nothing else; each turn's prompt begins with the one before and its answer.
func TestScripts(t *testing.T) {
	for file, shared := range map[string]bool{"mtrag.jsonl.gz": false, "tau.jsonl.gz": true} {
		ds, err := replay.BundledSet(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range NewScripts(ds[:6], shared, 16) {
			last := len(s.turns) - 1
			for _, play := range []int{0, 12345} {
				whole := vllmsim.ChatTokens(s.messages(play, last))
				for turn, want := range s.turns {
					ids := vllmsim.ChatTokens(s.messages(play, turn))
					answer := vllmsim.Tokens().Encode(nil, ds[i].Turns[turn].Answer)
					if len(ids) != want.prompt || len(answer)+1 != want.output ||
						!slices.Equal(ids, whole[:len(ids)]) ||
						turn < last && !slices.Equal(answer, whole[len(ids):][:len(answer)]) {
						t.Fatalf("%s, dialogue %d, turn %d: not a prefix of what follows", file, i, turn)
					}
				}
				if play == 0 && !slices.Equal(hashes(whole, 16), s.hashes[:len(whole)/16]) {
					t.Errorf("%s, dialogue %d: other blocks", file, i)
				}
			}
			a, b := s.hashesOf(1), s.hashesOf(2)
			same := 0
			for same < len(a) && a[same] == b[same] {
				same++
			}
			for k := same; k < len(a); k++ {
				if a[k] == b[k] {
					t.Errorf("%s, dialogue %d: plays share block %d", file, i, k)
				}
			}
			if same != s.common || shared != (same > 50) {
				t.Errorf("%s, dialogue %d: plays share %d blocks, want %d", file, i, same, s.common)
			}
		}
	}
}

// The body of a request has the terms that its client states.
func TestBody(t *testing.T) {
	s := small(t, 1)
	s.Say = Spread
	all, _ := routed(t, s, "random")
	var b struct {
		Messages []struct{ Role, Content string }
		Souk     struct {
			Session string
			Terms   struct{ Worth float64 }
		}
	}
	if err := json.Unmarshal(all[5].Body(true), &b); err != nil {
		t.Fatal(err)
	}
	if len(b.Messages) < 2 || b.Souk.Session == "" || b.Souk.Terms.Worth < 0.001 || b.Souk.Terms.Worth > 0.1 {
		t.Errorf("%+v", b)
	}
}

// A setting that cannot be played is an error.
func TestSettings(t *testing.T) {
	for name, change := range map[string]func(*Setting){
		"no engine":   func(s *Setting) { s.Engines = 0 },
		"no slots":    func(s *Setting) { s.Engine.Slots = 0 },
		"no end":      func(s *Setting) { s.Tasks = 0 },
		"nobody":      func(s *Setting) { s.Callers = 0 },
		"small cache": func(s *Setting) { s.Engine.Blocks = 20 },
		"no look":     func(s *Setting) { s.Scrape = 0 },
	} {
		s := small(t, 1)
		change(&s)
		if _, _, err := Run(s, &choice{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewRule("tea-leaves", 1); err == nil {
		t.Error("a rule that there is not")
	}
}
