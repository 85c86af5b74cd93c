package forecast

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"souk/bus"
	"souk/hub/estimate"
	"souk/hub/predict"
	"souk/market"
)

// room returns the room of a hub that has learned nothing, and the traits of an agent.
func room() (*Room, Traits) {
	r := New(Params{Hold: 32}, nil)
	m := predict.NewMeans()
	return r, Traits{Line: m.Line(), Model: "llama", Context: 8192,
		Price: market.Price{Miss: 10 * market.Credit, Hit: market.Credit, Out: 40 * market.Credit}, Tariff: 7}
}

func prompt(tokens int) *bus.Prompt {
	return &bus.Prompt{Tokens: tokens, Bytes: 4 * tokens, Text: 4 * tokens, Pieces: 1}
}

// An estimate goes by the task, the class and what is held, and by nothing else: the cost is the card's of
// what is expected, the worst is never less, and an answer has room beside its prompt.
func TestAnEstimate(t *testing.T) {
	r, x := room()
	domains := []bus.DomainScore{{Domain: "math", Score: 0.9}, {Domain: "code", Score: 0.4}}
	c, _ := r.Class(x, domains,
		[]float64{0.9, 0.4}, 16)
	task := Task{Prompt: prompt(1000), MaxTokens: 400, Domain: "code"}
	cold := r.Estimate(1, &task, c, estimate.Held{Tokens: 1000})
	warm := r.Estimate(1, &task, c, estimate.Held{Tokens: 1000, Cached: 800})
	if want := c.Price.Cost(market.Usage{Prompt: 1000, Output: cold.Output}) + 7; cold.Cost != want {
		t.Errorf("it costs %v, want %v", cold.Cost, want)
	}
	if warm.Cost >= cold.Cost || warm.First >= cold.First || warm.Prefill >= cold.Prefill ||
		warm.Worst < warm.Cost {
		t.Errorf("with 800 tokens cached %+v, with none %+v", warm, cold)
	}
	if cold.Quality != 0.4 || cold.Output < 1 || cold.Output > 400 {
		t.Errorf("%+v", cold)
	}
	long := Task{Prompt: prompt(8000), MaxTokens: 4000}
	e := r.Estimate(1, &long, c, estimate.Held{Tokens: 7000})
	if e.Prompt+e.MaxTokens > 8192 || e.Quality != 0.9 {
		t.Errorf("beside a prompt of 7000 tokens an answer may have %d, of quality %v", e.MaxTokens,
			e.Quality)
	}
}

// A task that names no max_tokens may take of an account so many times what it or a usual one costs, and no
// more.
func TestAnOpenTaskHasABound(t *testing.T) {
	r, x := room()
	x.Context = 0
	c, _ := r.Class(x, nil, nil, 16)
	task := Task{Prompt: prompt(1000)}
	e := r.Estimate(1, &task, c, estimate.Held{Tokens: 1000})
	if most := c.Cost(1000, 0, e.Output).Times(32); e.Worst != max(most, e.Floor) {
		t.Errorf("at worst it costs %v, want %v", e.Worst, most)
	}
	task.Usual = market.Credit
	if e := r.Estimate(1, &task, c, estimate.Held{Tokens: 1000}); e.Worst > market.Credit.Times(32) {
		t.Errorf("where a usual task costs a credit: %v", e.Worst)
	}
	if e.MaxTokens != openContext {
		t.Errorf("the engine is told %d tokens", e.MaxTokens)
	}
}

// What keeps a task from a class is said in one order, so that of several agents the one that comes nearest
// tells why none serves it.
func TestMay(t *testing.T) {
	r, x := room()
	x.Text = true
	c, _ := r.Class(x, nil, nil, 16)
	for _, test := range []struct {
		task  Task
		least int
		want  estimate.Obstacle
	}{
		{Task{}, 8191, estimate.None}, {Task{Model: "llama"}, 100, estimate.None},
		{Task{}, 8192, estimate.Context}, {Task{Carried: 100}, 8100, estimate.Context},
		{Task{Media: true}, 9000, estimate.Media},
		{Task{Media: true, Model: "qwen"}, 9000, estimate.Model},
		{Task{Parses: true, Model: "qwen"}, 9000, estimate.Parsers},
	} {
		test.task.Prompt = &bus.Prompt{AtLeast: test.least}
		if got := c.May(&test.task); got != test.want {
			t.Errorf("%+v: %d, want %d", test.task, got, test.want)
		}
	}
	p := new(bus.Prompt)
	x.Without = bus.Without(bus.KindCompletion)
	c, _ = r.Class(x, nil, nil, 16)
	chat := c.May(&Task{Prompt: p, Kind: bus.KindChat})
	completion := c.May(&Task{Prompt: p, Kind: bus.KindCompletion})
	if chat != estimate.None || completion != estimate.Model {
		t.Errorf("without completions: %d for a chat, %d for a completion", chat, completion)
	}
	x.Context, x.Text, x.Parses, x.Opaque, x.Without = 0, false, true, true, ""
	c, _ = r.Class(x, nil, nil, 16)
	p.AtLeast = 1 << 30
	if got := c.May(&Task{Prompt: p, Media: true, Parses: true}); got != estimate.None {
		t.Errorf("an agent that takes all: %d", got)
	}
	if got := c.May(&Task{Prompt: p, Carried: 1}); got != estimate.Parsers {
		t.Errorf("an answer of another engine: %d", got)
	}
}

// Agents of equal traits are of one class, whose scores nobody changes; of too many classes all but the new
// one are forgotten.
func TestClassesAreFound(t *testing.T) {
	r, x := room()
	rated := []float64{0.9}
	a, _ := r.Class(x, []bus.DomainScore{{Domain: "math", Score: 0.9}}, rated, 4)
	rated[0] = 0.1
	if b, _ := r.Class(x, nil, nil, 4); b != a || b.Quality("math") != 0.9 {
		t.Error("equal traits are of two classes, or what an agent has changes its class")
	}
	fulls := 0
	for i := range 10 {
		x.Tariff = market.Credits(100 + i)
		if _, full := r.Class(x, nil, nil, 4); full {
			fulls++
		}
	}
	if len(r.classes) > 4 || fulls != 2 {
		t.Errorf("%d classes, forgotten %d times", len(r.classes), fulls)
	}
	if q := r.ForAQuote(); !q.aside || len(q.classes) != 0 || r.aside {
		t.Error("a quote remembers classes")
	}
}

// An estimate is what it would be made to be, however many agents it is asked of; what was shown in a round
// stays as it was.
func TestASheet(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 49))
	r, x := room()
	lines := []*predict.Means{predict.NewMeans(), predict.NewMeans()}
	var classes []*Class
	for i := range 6 {
		x.Line, x.Context, x.Tariff = lines[i%2].Line(), 8192*(i%3), market.Credits(i)
		c, _ := r.Class(x, nil, nil, 16)
		classes = append(classes, c)
	}
	tasks := []Task{{Prompt: prompt(1000), MaxTokens: 400}, {Prompt: prompt(3000)},
		{Prompt: prompt(50), Source: predict.Source{Client: "ann"}}}
	now, same, sheet := int64(0), 0, Sheet{}
	for range 3000 {
		switch rng.IntN(7) {
		case 0:
			lines[rng.IntN(2)].Learn(predict.Features{Prompt: 500, MaxTokens: 400}, predict.Observation{
				Prompt: 400 + rng.IntN(300), Output: 1 + rng.IntN(400),
				TTFT: time.Duration(1+rng.IntN(900)) * time.Millisecond, ITL: 9 * time.Millisecond})
		case 1:
			r.Outputs.Learn(predict.Source{Client: "ann"}, rng.IntN(900), 300)
		case 2:
			now += rng.Int64N(int64(time.Second))
		case 3:
			tasks[rng.IntN(len(tasks))].Usual = market.Credits(rng.IntN(4)) * market.Credit
		}
		type pair struct{ got, want *estimate.Estimate }
		var shown []pair
		if sheet.Clear(0); len(sheet.rows) > 0 {
			t.Fatal("a round begins with estimates of the last")
		}
		for range rng.IntN(6) {
			task := &tasks[rng.IntN(len(tasks))]
			sheet.Next(task)
			for range rng.IntN(40) {
				c := classes[rng.IntN(len(classes))]
				h := estimate.Held{Tokens: 1000, Cached: 16 * rng.IntN(1+rng.IntN(20))}
				want, rows := r.Estimate(now, task, c, h), len(sheet.rows)
				got := sheet.Of(r, now, c, h)
				if shown = append(shown, pair{got, &want}); len(sheet.rows) == rows {
					same++
				}
			}
		}
		for _, x := range shown {
			if *x.got != *x.want {
				t.Fatalf("it says %+v, want %+v", *x.got, *x.want)
			}
		}
	}
	if same == 0 {
		t.Error("none was found that was asked for twice")
	}
}

// How long an answer is expected to be is asked anew once a second, and is the same in between.
func TestAnAnswerIsExpectedForASecond(t *testing.T) {
	r, x := room()
	c, _ := r.Class(x, nil, nil, 16)
	task := Task{Prompt: prompt(100), MaxTokens: 1000, Source: predict.Source{Client: "ann"}}
	before := r.Answer(0, &task, c)
	for range 100 {
		r.Outputs.Learn(task.Source, 7, 300)
	}
	if got := r.Answer(int64(time.Second)-1, &task, c); got != before {
		t.Errorf("%d tokens, and %d within a second", before, got)
	}
	if got := r.Answer(int64(time.Second), &task, c); got == before || got > 20 {
		t.Errorf("%d tokens after a second, of a client whose answers have 7", got)
	}
}

// Whatever a task claims and an agent says, an estimate is of amounts and times that a round may have.
func FuzzEstimate(f *testing.F) {
	f.Add(100, 400, 50, 1000, 8192, 0, int64(10), 30)
	f.Add(1<<24, 0, 1<<24, 1<<30, 0, 1<<20, int64(1_000_000), 1)
	f.Fuzz(func(t *testing.T, tokens, maxTokens, cached, text, context, carried int, price int64,
		tools int) {
		for _, n := range []int{tokens, text, carried, maxTokens, context, tools, cached} {
			if n < 0 || n > bus.MaxTokens {
				t.Skip()
			}
		}
		card := market.Price{Miss: market.Credits(price), Out: market.Credits(price)}
		if card.Validate() != nil {
			t.Skip()
		}
		r, x := room()
		x.Context, x.Price = context, card
		c, _ := r.Class(x, nil, nil, 16)
		p := &bus.Prompt{Tokens: tokens, Bytes: text, Text: text, Pieces: 1, Tools: tools}
		task := Task{Prompt: p, Carried: carried, MaxTokens: maxTokens}
		h := estimate.Held{Tokens: tokens, Cached: min(cached, tokens)}
		e := r.Estimate(1, &task, c, h)
		if e.Cost < 0 || e.Floor < 0 || e.Worst < max(e.Cost, e.Floor) || e.First < 0 ||
			e.First > time.Hour || e.Prefill < 0 || e.Output < 0 ||
			e.Output > e.MaxTokens ||
			e.MaxTokens < 1 {
			t.Fatalf("%+v", e)
		}
	})
}

// Who only asks has no agent's memory go by other names: a task does where its door has another key by now.
func TestAQuoteRenamesNothing(t *testing.T) {
	r, _ := room()
	cache := r.Prefixes.New(16, 10_000)
	was, is := prompt(400), prompt(400)
	for i := range uint64(4) {
		was.Prefixes = append(was.Prefixes, bus.PrefixHash{Bytes: 400 * int(i+1), Hash: i + 1})
		is.Prefixes = append(is.Prefixes, bus.PrefixHash{Bytes: 400 * int(i+1), Hash: 1<<40 + i})
		is.Former = binary.BigEndian.AppendUint64(is.Former, i+1)
	}
	cache.Served(cache.Sent(was, 400, 10, 0), 1, was, 400, 10, 0)
	task := Task{Prompt: is}
	var sheet Sheet
	sheet.Ask(r.ForAQuote(), 1, &task, nil, nil)
	if old, now := cache.Depth(was), cache.Depth(is); old != 4 || now != 0 {
		t.Errorf("of a quote it holds %d prefixes by the names it has, and %d by others", old, now)
	}
	r.Reach(1, &task, nil, nil)
	if old, now := cache.Depth(was), cache.Depth(is); old != 0 || now != 4 {
		t.Errorf("of a task it holds %d prefixes by the former names, and %d by those of now", old, now)
	}
}
