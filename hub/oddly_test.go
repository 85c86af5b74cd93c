package hub_test

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// How late a first token may come is not made of what is believed to be cached: a client that sees to it that
// what is inferred is wrong would cancel, and have all that was computed until then for nothing.
func TestTheFirstTokensWorstCaseBelievesNothing(t *testing.T) {
	h := newHouse(t, nil)
	r := registration("a-1", "llama", 1, 0.9, card(1, 1, 4))
	r.Template, r.MaxModelLen = &bus.Template{Fixed: 20, Each: 8, Tools: 100, Wide: 1}, 1<<17
	h.must(h.register(r))
	h.run()
	same := func(m *bus.Task) { m.Session = "s" }
	// Nine tenths of the bytes are few tokens, and the rest many.
	sparse := strings.Repeat("the quick brown fox ", 10_000)
	h.must(h.step(h.written("ann", "t1", chat(sparse+strings.Repeat("a", 20_000)), same)))
	first := h.take("ann", "t1")
	h.accept(first)
	c := completion("a-1", first, market.Usage{Prompt: 50_000, Output: 1})
	c.TTFTUS = 0 // nothing is learned of how fast it is
	h.must(h.step(c))
	h.must(h.step(h.written("ann", "t2", chat(sparse+strings.Repeat("b", 20_000)), same)))
	d := h.take("ann", "t2")
	if rec, _ := h.n.Book().Hold(d.Hold); rec.Cached < 30_000 {
		t.Fatalf("%d tokens are believed to be there, which tests nothing", rec.Cached)
	}
	f, _, _ := h.n.Held(d.Hold)
	uncached := h.n.Forecast("a-1", f)
	f.Cached = 0
	whole := h.n.Forecast("a-1", f)
	if whole.TTFT <= uncached.TTFT {
		t.Fatalf("%v with the cache and %v without, which tests nothing", uncached.TTFT, whole.TTFT)
	}
	if want := (2*time.Second + 4*whole.TTFT).Milliseconds(); d.FirstMS < want {
		t.Errorf("the first token may take %d ms, and all of the prompt takes %d at worst", d.FirstMS, want)
	}
}

// An engine finds nothing in its cache of a text that it is given with other arguments of the template, or
// under another salt; so nothing is verified.
func TestTheSameTextUnderAnotherSaltIsNotCached(t *testing.T) {
	long := strings.Repeat("the quick brown fox ", 200)
	for name, more := range map[string]string{
		"a salt":                    `,"cache_salt":"one"`,
		"arguments of the template": `,"chat_template_kwargs":{"date":"today"}`,
		"thinking":                  `,"chat_template_kwargs":{"enable_thinking":false}`,
		"an effort":                 `,"reasoning_effort":"low"`,
		"a choice of tools":         `,"tool_choice":"none"`,
		"a format":                  `,"response_format":{"type":"json_object"}`,
		"tokens that begin a text":  `,"add_special_tokens":true`,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, nil)
			h.measured("a-1", 1, card(1, 1, 4))
			same := func(m *bus.Task) { m.Session = "s" }
			serve := func(id, body string) bus.Dispatch {
				h.must(h.step(h.written("ann", id, body, same, worth(market.Credit))))
				d := h.take("ann", id)
				h.serve(d, market.Usage{Prompt: 1000, Output: 10})
				return d
			}
			serve("t1", chat(long))
			if d := serve("t2", chat(long, more)); d.Cached != 0 {
				t.Errorf("%d tokens of it are believed to be there", d.Cached)
			}
			if d := serve("t3", chat(long, more)); d.Cached != 992 {
				t.Errorf("%d tokens of the very same are believed to be there, want its whole blocks",
					d.Cached)
			}
		})
	}
	t.Run("a picture, which may be another by now", func(t *testing.T) {
		h := newHouse(t, nil)
		h.measured("a-1", 1, card(1, 1, 4))
		body := `{"max_tokens":10,"messages":[{"role":"user","content":[{"type":"text","text":"` + long +
			`"},{"type":"image_url","image_url":{"url":"http://x/y"}}]}]}`
		for i, id := range []string{"t1", "t2"} {
			h.must(h.step(h.written("ann", id, body, func(m *bus.Task) { m.Session = "s" },
				worth(market.Credit))))
			d := h.take("ann", id)
			if d.Cached != 0 {
				t.Errorf("task %d: %d tokens of it are believed to be there", i, d.Cached)
			}
			context := 120 * time.Microsecond * 8192 // a token takes so long on an agent that nobody has seen
			if d.FirstMS < (4*context).Milliseconds() && i == 0 {
				t.Errorf("its first token may take %d ms, and what is in the picture is not known", d.FirstMS)
			}
			h.serve(d, market.Usage{Prompt: 1000, Output: 10})
		}
	})
}
