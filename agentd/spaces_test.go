package agentd

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"souk/agentd/kvevent"
	"souk/bus"
)

// batches returns what a real server with the adapters law and tax published, asked the same prompt of two
// blocks in this order: of the model, of law, of law with a salt, of tax, of the model with the salt.
func batches(t *testing.T) (all [5][]kvevent.Batch, ids []uint32) {
	t.Helper()
	file, err := os.Open("kvevent/testdata/adapters.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 0; n < 2*len(all) && lines.Scan(); n++ {
		var m struct {
			Frames [][]byte `json:"frames_base64"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		b, err := new(kvevent.Decoder).Decode(m.Frames[2])
		if err != nil || len(b.Events) != 1 {
			t.Fatal(b, err)
		}
		all[n/2] = append(all[n/2], b)
	}
	return all, append(all[0][0].Events[0].Tokens, 7)
}

// What an engine caches for an adapter, or under a salt, is held for prompts of that adapter and that salt,
// and for nobody else, though the tokens are the same.
func TestHeldOfItsOwnAdapterAndSalt(t *testing.T) {
	heard, ids := batches(t)
	asked := [5]struct{ model, salt string }{{"tiny", ""}, {"law", ""}, {"law", "pepper"}, {"tax", ""},
		{"tiny", "pepper"}}
	info := Info{Models: []string{"tiny", "law", "tax"}, Adapters: []string{"law", "tax"}, BlockSize: 32,
		KVTokens: 19_168}
	text := bus.Prompt{Bytes: 128, Tokens: 32, Prefixes: []bus.PrefixHash{{Bytes: 128, Hash: 1 << 60}}}
	for i, said := range heard {
		for j, of := range asked {
			cfg := oneAgent("a1", 4)
			cfg.Model = of.model
			a := NewAgent(cfg, Config{}, info, 7, [32]byte{1})
			a.Claimed(claim(5))
			a.Events(kvevent.Update{Restarted: true})
			d := dispatch("math-1")
			d.Model = of.model
			d.Task.Prompt = text
			// what the client says of a salt is in the dispatch's, or of no account
			d.Task.Body, d.Task.Salt = []byte(`{"prompt":"x","cache_salt":"paprika"}`), of.salt
			if r, ok := a.Dispatch("math", d); !ok {
				t.Fatalf("%+v", r)
			}
			a.Began(d, ids)
			for _, b := range said {
				a.Events(kvevent.Update{Batch: b})
			}
			if held := a.engine.Prefixes() > 0; held != (i == j) {
				t.Errorf("%+v is held: %t, where the engine computed it for %+v", of, held, asked[i])
			}
		}
	}
}

// An engine that comes back with what was a model as an adapter, or the other way, holds nothing that is
// known.
func TestAModelThatBecomesAnAdapter(t *testing.T) {
	heard, _ := batches(t)
	cfg := oneAgent("a1", 4)
	cfg.Model = "law"
	info := Info{Models: []string{"law"}, BlockSize: 32, KVTokens: 19_168}
	a := NewAgent(cfg, Config{}, info, 7, [32]byte{1})
	a.Events(kvevent.Update{Restarted: true})
	for _, b := range heard[0] {
		a.Events(kvevent.Update{Batch: b})
	}
	if a.engine.Blocks != 2 {
		t.Fatal(a.engine.Blocks)
	}
	info.Adapters = info.Models
	if err := a.Returned(info); err != nil || a.engine.Blocks != 0 || a.engine.Coverage() != 0 {
		t.Errorf("%v: %d blocks, coverage %v", err, a.engine.Blocks, a.engine.Coverage())
	}
}
