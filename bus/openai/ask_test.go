package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"souk/bus"
)

func mustAsk(t *testing.T, kind, body string, header bus.Header) *Asked {
	t.Helper()
	a, no := Ask([]byte(body), header, "dev", kind)
	if no != nil {
		t.Fatalf("%s: %v", body, no)
	}
	return a
}

func TestARequestIsATask(t *testing.T) {
	a := mustAsk(t, bus.KindChat, `{"model":"m" , "souk":{"terms":{"worth":0.5}}, "stream":true,
		"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}],
		"prompt_cache_key":"s-1","x":1.50}`, bus.Header{"X-Souk-Max-Price": {"0.25"}})
	if len(a.Tasks) != 1 || a.Model != "m" || !a.Stream || !a.Usage || a.IDs {
		t.Fatalf("%+v", a)
	}
	task := a.Tasks[0]
	want := `{"model":"m" ,  "stream":true,
		"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}],
		"prompt_cache_key":"s-1","x":1.50}`
	if string(task.Body) != want {
		t.Errorf("body %s", task.Body)
	}
	if task.Session != "s-1" || task.Terms.Worth.String() != "0.5" ||
		task.Terms.MaxPrice.String() != "0.25" || task.Client != "dev" || !task.Stream || task.ID != "" {
		t.Errorf("%+v", task)
	}
	if _, _, no := DecodeRequest(task.Body, nil, "dev", nil); no != nil {
		t.Errorf("the door refuses it: %v", no)
	}
}

// n answers and several prompts are tasks of their own, that cost no more together.
func TestSeveralAnswersAreSeveralTasks(t *testing.T) {
	a := mustAsk(t, bus.KindCompletion, `{"n": 2,"prompt":["a","b\n", "c"] ,"seed":7,"souk":{"task":"t",`+
		`"terms":{"max_price":0.6}}}`, nil)
	var got []string
	for _, task := range a.Tasks {
		got = append(got, task.ID+" "+string(task.Body)+" "+task.Terms.MaxPrice.String())
	}
	var want []string
	for i, body := range []string{`"a" ,"seed":7`, `"a" ,"seed":8`, `"b\n" ,"seed":7`, `"b\n" ,"seed":8`,
		`"c" ,"seed":7`, `"c" ,"seed":8`} {
		want = append(want, "t-"+string(rune('0'+i))+` {"n": 1,"prompt":`+body+`} 0.1`)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, task := range a.Tasks {
		if !json.Valid(task.Body) {
			t.Errorf("%s", task.Body)
		}
	}
}

// Of an answer that is given whole each agent hears that it is.
func TestTasksOfAWholeAnswerSaySo(t *testing.T) {
	for body, whole := range map[string]bool{`{"prompt":"a"}`: true, `{"prompt":["a","b"],"stream":false}`: true,
		`{"prompt":"a","stream":true}`: false} {
		for _, task := range mustAsk(t, bus.KindCompletion, body, nil).Tasks {
			if task.Whole != whole {
				t.Errorf("%s: whole %v", body, task.Whole)
			}
		}
	}
}

// An endpoint that takes either kind takes what the body is.
func TestEitherKindIsAsked(t *testing.T) {
	for body, kind := range map[string]string{
		`{"messages":[{"role":"user","content":"x"}]}`: bus.KindChat, `{"prompt":"x"}`: bus.KindCompletion} {
		if a := mustAsk(t, "", body, nil); a.Kind != kind || a.Tasks[0].Kind != kind {
			t.Errorf("%s: asked for a %s by a task of kind %s", body, a.Kind, a.Tasks[0].Kind)
		}
	}
	if _, no := Ask([]byte(`{"prompt":"x","souk":{"kind":"chat"}}`), nil, "dev", ""); no == nil ||
		no.Code != bus.CodeBadRequest {
		t.Errorf("a prompt as a chat: %v", no)
	}
}

func TestWhatIsNotAsked(t *testing.T) {
	message := `"messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct {
		kind, body, header string
		code               bus.Code
		field              string
	}{
		{bus.KindChat, ``, "", bus.CodeBadRequest, ""},
		{bus.KindChat, `{` + message + `,"n":9}`, "", bus.CodeBadRequest, "n"},
		{bus.KindChat, `{` + message + `,"n":0}`, "", bus.CodeBadRequest, "n"},
		{bus.KindChat, `{` + message + `,"n":"2"}`, "", bus.CodeBadRequest, "n"},
		{bus.KindChat, `{` + message + `,"n":2,"seed":"x"}`, "", bus.CodeBadRequest, "seed"},
		{bus.KindChat, `{` + message + `,"n":2,"n":2}`, "", bus.CodeBadRequest, ""},
		{bus.KindChat, `{` + message + `,"best_of":2}`, "", bus.CodeUnsupportedField, "best_of"},
		{bus.KindChat, `{"prompt":"x"}`, "", bus.CodeBadRequest, "prompt"},
		{bus.KindCompletion, `{` + message + `}`, "", bus.CodeBadRequest, "messages"},
		{bus.KindCompletion, `{"prompt":["a","b","c","d","e"],"n":2}`, "", bus.CodeUnsupportedField, "n"},
		{bus.KindCompletion, `{"prompt":["a",["b"]]}`, "", bus.CodeUnsupportedField, "prompt"},
		{bus.KindCompletion, `{"prompt":[1,2]}`, "", bus.CodeUnsupportedField, "prompt"},
		{bus.KindCompletion, `{"prompt":[]}`, "", bus.CodeEmptyPrompt, "prompt"},
		{bus.KindCompletion, `{"prompt":["a",""]}`, "", bus.CodeEmptyPrompt, "prompt[1]"},
		{bus.KindCompletion, `{"prompt":["a","b"," \n"]}`, "", bus.CodeEmptyPrompt, "prompt[2]"},
		{bus.KindChat, `{` + message + `,"souk":{"x":1}}`, "", bus.CodeBadRequest, "souk"},
		{bus.KindChat, `{` + message + `,"souk":{"kind":"completion"}}`, "", bus.CodeBadRequest, "souk.kind"},
		{bus.KindChat, `{` + message + `}`, "X-Souk-Wealth", bus.CodeBadRequest, ""},
		{bus.KindChat, `{` + message + `,"prompt_cache_key":1}`, "", bus.CodeBadRequest, "prompt_cache_key"},
		{bus.KindChat, `{` + message + `,"return_token_ids":true}`, "", bus.CodeUnsupportedField,
			"return_token_ids"},
		{bus.KindChat, `{` + message + `,"n":8,"souk":{"terms":{"max_price":0.000000007}}}`, "",
			bus.CodeBadTerms, "max_price"},
		{bus.KindChat, `{` + message + `,"n":2,"souk":{"task":"` + strings.Repeat("x", 64) + `"}}`, "",
			bus.CodeBadRequest, "task"},
	} {
		header := bus.Header{}
		if c.header != "" {
			header[c.header] = []string{"1"}
		}
		_, no := Ask([]byte(c.body), header, "dev", c.kind)
		if no == nil || no.Code != c.code || fieldOf(no.Code, no.Message) != c.field {
			t.Errorf("%s: %v (field %q)", c.body, no, fieldOf(bus.CodeOf(no), no.Message))
		}
	}
}

// A list of prompts that is too long is told so, not that it is no list.
func TestTooManyPromptsAreToldApart(t *testing.T) {
	for body, want := range map[string]string{
		`{"prompt":["1","2","3","4","5","6","7","8","9"]}`: "more than 8 prompts",
		`{"prompt":["1",2]}`: "token ids are not taken",
	} {
		if _, no := Ask([]byte(body), nil, "dev", bus.KindCompletion); no == nil ||
			no.Code != bus.CodeUnsupportedField || !strings.Contains(no.Message, want) {
			t.Errorf("%s: %v", body, no)
		}
	}
}

// Whatever the bytes are, tasks that come of them have bodies that the door judges by itself.
func FuzzAsk(f *testing.F) {
	f.Add([]byte(`{"n":2,"prompt":["a","b"],"seed":7,"souk":{"terms":{"max_price":0.6}}}`), true)
	f.Add([]byte(`{"messages":[{"role":"user","content":"x"}],"souk":null,"stream":true}`), false)
	f.Add([]byte(` { "souk":{} , "seed" : 1 , "n" : 3 , "messages" : [ ] } `), false)
	f.Fuzz(func(t *testing.T, data []byte, completion bool) {
		kind := bus.KindChat
		if completion {
			kind = bus.KindCompletion
		}
		a, no := Ask(data, nil, "dev", kind)
		if no != nil {
			if len(no.Message) == 0 {
				t.Error("a refusal without a reason")
			}
			return
		}
		if len(a.Tasks) == 0 || len(a.Tasks) > MaxAnswers {
			t.Fatalf("%d tasks", len(a.Tasks))
		}
		for _, task := range a.Tasks {
			if !json.Valid(task.Body) {
				t.Fatalf("%s", task.Body)
			}
			if _, _, no := DecodeRequest(task.Body, nil, "dev", nil); no != nil &&
				strings.Contains(no.Message, "souk") {
				t.Fatalf("%s: %v", task.Body, no)
			}
		}
	})
}

// The body of a response, sent to another endpoint, is told where it is taken: gateways do take it.
func TestAResponsesBodyIsToldWhereItGoes(t *testing.T) {
	for _, kind := range []string{bus.KindChat, bus.KindCompletion} {
		if _, no := Ask([]byte(`{"input":"x"}`), nil, "dev", kind); no == nil ||
			no.Code != bus.CodeUnsupportedField || !strings.Contains(no.Message, "/v1/responses") {
			t.Errorf("kind %q: %v", kind, no)
		}
	}
}
