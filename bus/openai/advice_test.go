package openai

import (
	"strings"
	"testing"

	"souk/bus"
)

// A refusal says what to do in words of the endpoint that was asked: a completion has no messages.
func TestARefusalAdvisesWhatItsEndpointTakes(t *testing.T) {
	twice := bus.Header{"X-Souk-Worth": {"1", "2"}}
	for _, c := range []struct {
		kind, body string
		header     bus.Header
		says       string
	}{
		{bus.KindChat, `{"messages": []}`, nil, "give at least one message with content"},
		{bus.KindCompletion, `{"prompt": ""}`, nil, "prompt: it is empty: give it some text"},
		{bus.KindCompletion, `{"prompt": ["", "a"]}`, nil, "prompt[0]: it is empty: give it some text"},
		{bus.KindCompletion, `{"prompt": []}`, nil, "prompt: the array is empty: give it some text"},
		{bus.KindCompletion, `{"prompt": 5}`, nil, "prompt: a string or an array of strings is expected"},
		{bus.KindChat, `{"messages": "Hello"}`, nil,
			`messages: an array is expected, as [{"role": "user", "content": "Hello"}]`},
		{bus.KindChat, `{"messages": [{"role": "user", "content": "x"}]}`, twice,
			"header X-Souk-Worth: given 2 times: send it once"},
	} {
		asked, no := Ask([]byte(c.body), c.header, "dev", c.kind)
		for i := 0; no == nil && i < len(asked.Tasks); i++ { // what is asked well the door judges
			_, _, no = DecodeRequest(asked.Tasks[i].Body, nil, "dev", nil)
		}
		if no == nil || !strings.Contains(no.Message, c.says) {
			t.Errorf("%s: %v; it should say %q", c.body, no, c.says)
		}
		if no != nil && c.kind == bus.KindCompletion && strings.Contains(no.Message, "message") {
			t.Errorf("%s: %v: a completion is told of messages", c.body, no)
		}
	}
}
