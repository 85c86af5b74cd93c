package vllm

import (
	"encoding/json"
	"maps"
	"testing"

	"souk/agentd"
)

// The counts of what was generated elsewhere become biases, on top of the request's own, within what vLLM
// takes.
func TestPenaltiesGoAlong(t *testing.T) {
	for _, c := range []struct {
		body  string
		bias  map[uint32]float64
		found bool
	}{
		{`{}`, nil, false},
		{`{"frequency_penalty":0}`, nil, false},
		{`{"frequency_penalty":0.5}`, map[uint32]float64{4: -1, 5: -0.5}, true},
		{`{"frequency_penalty":-0.5,"logit_bias":{"4":0.25,"9":3}}`,
			map[uint32]float64{4: 1.25, 5: 0.5, 9: 3}, true},
		{`{"frequency_penalty":2,"logit_bias":{"4":-99}}`, map[uint32]float64{4: -100, 5: -2}, true},
		{`{"presence_penalty":0.5}`, map[uint32]float64{4: -0.5, 5: -0.5}, true},
		{`{"presence_penalty":0.5,"frequency_penalty":1}`, map[uint32]float64{4: -2.5, 5: -1.5}, true},
		{`{"presence_penalty":0,"frequency_penalty":0}`, nil, false},
	} {
		var body map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.body), &body); err != nil {
			t.Fatal(err)
		}
		data, err := completion(agentd.Request{Model: "m"}, body, []uint32{1, 2, 4, 4, 5}, 3, 10, nil)
		if err != nil {
			t.Fatal(err)
		}
		var q struct {
			Frequency float64            `json:"frequency_penalty"`
			Presence  float64            `json:"presence_penalty"`
			Bias      map[uint32]float64 `json:"logit_bias"`
		}
		if err := json.Unmarshal(data, &q); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(q.Bias, c.bias) || (q.Frequency != 0 || q.Presence != 0) != c.found {
			t.Errorf("%s: %s, want the bias %v", c.body, data, c.bias)
		}
	}
	for _, name := range []string{"frequency_penalty", "presence_penalty"} {
		if _, err := completion(agentd.Request{}, map[string]json.RawMessage{name: []byte(`"x"`)},
			[]uint32{1}, 1, 1, nil); err == nil {
			t.Errorf("a %s that is no number was taken", name)
		}
	}
}
