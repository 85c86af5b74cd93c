package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"souk/bus"
)

// quotes has a hub answer questions, and returns those that it heard.
func (h *hub) quotes(answer func(m bus.Msg)) (heard func() []bus.Task) {
	var all []bus.Task
	h.w.subscribe(bus.HubQuoteSubject(h.domain, "*"), func(m bus.Msg) {
		var t bus.Task
		if err := bus.Decode(m.Data, &t); err != nil || bus.LastToken(m.Subject) != "door" {
			h.w.t.Errorf("hub %s hears on %s: %v", h.domain, m.Subject, err)
		}
		h.mu.Lock()
		all = append(all, t)
		h.mu.Unlock()
		answer(m)
	})
	return func() []bus.Task {
		h.mu.Lock()
		defer h.mu.Unlock()
		return all
	}
}

// of answers with a quote of one model.
func (h *hub) of(model string) func(bus.Msg) {
	return func(m bus.Msg) {
		h.w.send(m.Reply, &bus.HubQuote{Hub: h.domain, Round: 7, ValidMS: 1000, Models: []bus.ModelQuote{
			{Model: model, TTFTMS: 40.5, Cost: 2_500_000, CachedShare: 0.25, Quality: 0.9, WouldWin: true}}})
	}
}

func (w *world) quote(client, body string) (out map[string]any, hubs []map[string]any) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
	defer cancel()
	m, err := w.me.Request(ctx, bus.Msg{Subject: bus.QuoteSubject(client, ""), Data: []byte(body)})
	if err != nil {
		w.t.Fatalf("no answer: %v", err)
	}
	if err := json.Unmarshal(m.Data, &out); err != nil {
		w.t.Fatalf("answer is not JSON: %v: %q", err, m.Data)
	}
	list, _ := out["hubs"].([]any)
	for _, h := range list {
		hubs = append(hubs, h.(map[string]any))
	}
	return out, hubs
}

// A quote is asked of the hubs that might be given the task, the one it would go to first, and is said to be
// an estimate. No hub has a task of it, and the door no memory.
func TestADoorAsksHubsForAQuote(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, general := twoHubs(w)
		heard := math.quotes(math.of("llama"))
		general.quotes(general.of("qwen"))
		out, hubs := w.quote("ada", chat(mathQuestion, `"terms":{"worth":0.5},"session":"s"`))
		if out["estimate"] != true || out["client"] != "ada" || out["domain"] != "math" ||
			out["code"] != nil || len(hubs) != 2 || hubs[0]["hub"] != "math" || hubs[1]["hub"] != "general" {
			t.Fatalf("quote is %v", out)
		}
		model := hubs[0]["models"].([]any)[0].(map[string]any)
		for key, want := range map[string]any{"model": "llama", "ttft_ms": 40.5, "wait_ms": 0.0,
			"cost": 0.0025, "premium": 0.0, "slot_price": 0.0,
			"cached_share": 0.25, "quality": 0.9, "would_win": true} {
			if model[key] != want {
				t.Errorf("%s is %v, want %v", key, model[key], want)
			}
		}
		if hubs[0]["round"] != 7.0 || hubs[0]["valid_ms"] != 1000.0 {
			t.Errorf("hub says %v", hubs[0])
		}
		got := heard()
		if len(got) != 1 || got[0].Client != "ada" || got[0].Prompt.Tokens == 0 || len(got[0].Body) > 0 ||
			*got[0].Terms.Worth != 500_000_000 || got[0].Domain != "math" {
			t.Errorf("the hub heard %+v", got)
		}
		if len(math.seen())+len(general.seen()) > 0 {
			t.Error("a hub has a task of it")
		}
		if st := w.door.Stats(); st.Received+st.Accepted+uint64(len(st.Domains)) != 0 || st.Quoted[""] != 1 {
			t.Errorf("stats %+v", st)
		}
		// msgpack is answered in msgpack
		data, err := bus.Encode(&bus.Task{Body: []byte(`{"messages":[{"role":"user","content":"hi"}]}`)})
		if err != nil {
			t.Fatal(err)
		}
		m, err := w.me.Request(t.Context(), bus.Msg{Subject: bus.QuoteSubject("ada", ""), Data: data})
		if err != nil {
			t.Fatal(err)
		}
		var q bus.Quote
		if err := bus.Decode(m.Data, &q); err != nil || len(q.Hubs) != 2 {
			t.Errorf("%v: %+v", err, q)
		}
	})
}

// At most four hubs are asked, whatever the terms, and those that are silent or talk nonsense are waited for
// 100 ms and said to be so. Where none has a quote it is refused as by the first.
func TestADoorAsksFourHubsFor100ms(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		var hubs []*hub
		var asked sync.Map
		for i := range 6 {
			h := w.hub(fmt.Sprint("h", i), bus.Status{Labels: []string{"math"}, General: i == 5})
			answer := h.of("llama")
			switch i {
			case 1:
				answer = func(m bus.Msg) {} // silent
			case 2:
				answer = func(m bus.Msg) { w.me.Publish(bus.Msg{Subject: m.Reply, Data: []byte("\xc1")}) }
			case 3:
				answer = hubs[0].of("llama") // in another's name
			}
			h.quotes(func(m bus.Msg) { asked.Store(h.domain, true); answer(m) })
			hubs = append(hubs, h)
		}
		begun := time.Now()
		_, got := w.quote("ada", chat(mathQuestion, ""))
		if took := time.Since(begun); took != bus.QuoteWithin {
			t.Errorf("it took %v", took)
		}
		if len(got) != 4 {
			t.Fatalf("%d hubs: %v", len(got), got)
		}
		for i, want := range []string{"", "within 100ms", "not understood", "speaks as hub h0"} {
			code, _ := got[i]["code"].(string)
			message, _ := got[i]["message"].(string)
			if got[i]["hub"] != fmt.Sprint("h", i) || (code == "unavailable") != (want != "") ||
				!strings.Contains(message, want) || want != "" && got[i]["retry_ms"] != 1000.0 {
				t.Errorf("hub %d: %v, want %q", i, got[i], want)
			}
		}
		for i := range hubs {
			if _, ok := asked.Load(fmt.Sprint("h", i)); ok != (i < 4) {
				t.Errorf("hub %d was asked: %v", i, ok)
			}
		}
		_, again := w.quote("ada", chat(mathQuestion, `"terms":{"worth":0.000001,"max_price":0.0000001}`))
		for i := range again {
			if again[i]["hub"] != got[i]["hub"] {
				t.Errorf("on other terms hub %d is %v", i, again[i]["hub"])
			}
		}
		out, all := w.quote("ada", chat(mathQuestion, `"hub":"h1"`))
		if all[0]["hub"] != "h1" || out["code"] != nil {
			t.Errorf("of a hub that the client names: %v", out)
		}
	})
	inWorld(t, nil, func(t *testing.T, w *world) {
		h := w.hub("math", bus.Status{Labels: []string{"math"}})
		h.quotes(func(m bus.Msg) {
			w.send(m.Reply, &bus.HubQuote{Hub: "math", Code: bus.CodePromptTooLong, Message: "said hub math"})
		})
		out, _ := w.quote("ada", chat(mathQuestion, ""))
		if w.wantCode(out, bus.CodePromptTooLong); out["message"] != "said hub math" {
			t.Errorf("quote is %v", out)
		}
	})
}

// What cannot be read, and what nobody sells, is refused as a task would be.
func TestAQuoteThatNobodyIsAskedFor(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		for body, want := range map[string]bus.Code{
			chat(mathQuestion, ""):             bus.CodeNoHub,
			"{":                                bus.CodeBadRequest,
			"\xff\xfe":                         bus.CodeBadRequest,
			`{"messages":[]}`:                  bus.CodeEmptyPrompt,
			chat(" ", ""):                      bus.CodeEmptyPrompt,
			chat("hi", `"terms":{"worth":-1}`): bus.CodeBadTerms,
			chat("hi", `"deadline_ms":1`):      bus.CodePastDeadline,
			`{"n":3,"messages":[{"role":"user","content":"a"}]}`: bus.CodeUnsupportedField,
		} {
			out, _ := w.quote("ada", body)
			if w.wantCode(out, want); out["message"] == "" {
				t.Errorf("%.40s: %v", body, out)
			}
		}
		w.hub("math", bus.Status{Labels: []string{"math"}})
		out, _ := w.quote("ada", strings.Replace(chat("hi", ""), "{", `{"model":"gpt",`, 1))
		w.wantCode(out, bus.CodeUnknownModel)
	})
}

// A quote goes to the inbox of who asked, which is the client's or its gateway's, and nowhere else: a door
// may publish where its askers may not.
func TestAQuoteGoesToNobodyElse(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		heard := math.quotes(math.of("llama"))
		var mu sync.Mutex
		var came []string
		w.subscribe(">", func(m bus.Msg) {
			if strings.Contains(string(m.Data), "llama") {
				mu.Lock()
				defer mu.Unlock()
				came = append(came, m.Subject)
			}
		})
		ask := func(subject, reply string) {
			w.me.Publish(bus.Msg{Subject: subject, Reply: reply, Data: []byte(chat("hi", ""))})
			w.pass(time.Second)
		}
		answers := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(came)
		}
		for _, reply := range []string{"souk.v1.hub.math.completion.a", "souk.v1.task.bob", "_INBOX.bob.1",
			"_INBOX.ada", "_INBOX.ada2.x", "_INBOX.ada.*", ""} {
			ask(bus.QuoteSubject("ada", ""), reply)
			ask(bus.QuoteSubject("bob", "ada"), reply)
		}
		ask(bus.QuoteSubject("ada", "gate"), "_INBOX.ada.1") // who speaks for a client asks for itself
		if len(answers())+len(heard()) > 0 || w.door.Stats().Stray != 15 {
			t.Errorf("answers to others: %q, %d questions, %d strays", answers(), len(heard()),
				w.door.Stats().Stray)
		}
		ask(bus.QuoteSubject("ada", ""), "_INBOX.ada.1")
		ask(bus.QuoteSubject("ada", "gate"), "_INBOX.gate.1.2")
		if got := heard(); len(got) != 2 || got[1].Client != "ada" {
			t.Errorf("the hub heard %+v", got)
		}
		if on := answers(); !slices.Contains(on, "_INBOX.ada.1") || !slices.Contains(on, "_INBOX.gate.1.2") {
			t.Errorf("quotes came on %q", on)
		}
	})
}

// Ten thousand at once: a client has 64 quotes in hand, all clients 256, and who asks for more is told so at
// once. Tasks find room all the while.
func TestManyQuotesAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		math.quotes(func(m bus.Msg) {}) // silent, so that each is in hand for 100 ms
		var mu sync.Mutex
		codes := map[string]int{}
		var all sync.WaitGroup
		for i := range 10_000 {
			all.Go(func() {
				out, _ := w.quote(fmt.Sprint("c", i%10), chat(mathQuestion, ""))
				code, _ := out["code"].(string)
				mu.Lock()
				defer mu.Unlock()
				codes[code]++
			})
		}
		w.wantCode(w.ask("ada", stream(mathQuestion, ""), nil), "")
		all.Wait()
		if codes["unavailable"] != 256 || codes["no_room"]+codes["too_many_tasks"] != 10_000-256 {
			t.Errorf("codes %v", codes)
		}
		for range 100 {
			all.Go(func() { w.quote("ada", chat(mathQuestion, "")) })
		}
		all.Wait()
		if st := w.door.Stats(); st.Quoted[bus.CodeUnavailable] != 256+64 ||
			st.Quoted[bus.CodeTooManyTasks] < 36 {
			t.Errorf("stats %+v", st.Quoted)
		}
	})
}
