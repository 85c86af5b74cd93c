package policies

import (
	"net/http"
	"strings"
	"testing"

	"souk/agentd/vllmsim"
)

// What engines computed is read from what they say of it, prompts and answers.
func TestWhatAnEngineComputed(t *testing.T) {
	s, err := vllmsim.New(vllmsim.Config{Model: "m", Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{0, 107, 214} {
		got, err := computedBy(s)
		if err != nil || got != want {
			t.Fatalf("%d tokens are computed, want %d (%v)", got, want, err)
		}
		r, err := http.Post(s.URL()+"/v1/completions", "application/json", strings.NewReader(`{"model":"m",`+
			`"prompt":[`+strings.Repeat("5,", 99)+`6],"max_tokens":7,"ignore_eos":true}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Fatal(r.Status)
		}
	}
}
