package local

import (
	"strings"
	"testing"

	"souk/agentd/vllmsim"
)

// A server that was named by --vllm is sold by all of its names, each by an agent of its own, with the key
// that it wants; one of a file by the name that stands there, else by the first.
func TestTheNamesOfAServer(t *testing.T) {
	s, err := vllmsim.New(vllmsim.Config{Model: "base", APIKey: "sk-engine",
		Adapters: vllmsim.Adapters{Names: []string{"sql", "law"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	of := Default().WithEngines([]string{s.URL()}, DefaultRow, "sk-engine").Agents[0]
	for _, test := range []struct {
		change func(*Agent)
		want   string
		err    string
	}{
		{func(*Agent) {}, "vllm-1=base vllm-1-2=sql vllm-1-3=law", ""},
		{func(a *Agent) { a.every = false }, "vllm-1=base", ""},
		{func(a *Agent) { a.every, a.Model = false, "law" }, "vllm-1=law", ""},
		{func(a *Agent) { a.every, a.Model = false, "wine" }, "", "does not serve wine, but base, sql, law"},
		{func(a *Agent) { a.Engine.APIKey = "sk-old" }, "", "401: Unauthorized: it wants a key, or another one: " +
			"engine.api_key, or VLLM_API_KEY for souk up --vllm"},
	} {
		a := of
		test.change(&a)
		sold, err := a.served(t.Context())
		var names []string
		slots := 0
		for _, x := range sold {
			slots += x.Slots
			c, err := x.config(x.Engine.URL, x.Model)
			if err != nil || c.Engine.APIKey != "sk-engine" {
				t.Errorf("%s asks with the key %q: %v", x.ID, c.Engine.APIKey, err)
			}
			names = append(names, x.ID+"="+x.Model)
		}
		if slots > 8 || err == nil && slots < 6 {
			t.Errorf("%v have %d slots of one engine", names, slots)
		}
		if got := strings.Join(names, " "); got != test.want || (err == nil) != (test.err == "") ||
			err != nil && (!strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "sk-")) {
			t.Errorf("%q, %v, want %q, %q", got, err, test.want, test.err)
		}
	}
}
