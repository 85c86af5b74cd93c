package vllmsim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Adapters are LoRA adapters that the engine serves beside its model, each under a name of its own.
type Adapters struct {
	Names []string // --lora-modules
	// different ones in a step (--max-loras); default 1
	AtOnce int
	// that stay loaded, those used last (--max-cpu-loras); default AtOnce
	Loaded int
	Load   time.Duration // that a step takes longer for each one that is not loaded
}

// Validate says what is wrong with them.
func (a Adapters) Validate(model string) error {
	for i, name := range a.Names {
		if name == "" || name == model || slices.Contains(a.Names[:i], name) {
			return fmt.Errorf("lora-modules: %q is empty, the model's name, or there twice", name)
		}
	}
	switch {
	case a.AtOnce < 0 || a.Loaded < 0 || a.Load < 0:
		return fmt.Errorf("max-loras %d, max-cpu-loras %d, sim-adapter-load %v: none may be negative", a.AtOnce,
			a.Loaded, a.Load)
	case a.Loaded > 0 && a.Loaded < max(1, a.AtOnce):
		return fmt.Errorf("max-cpu-loras is %d; it must be at least max-loras, %d", a.Loaded, max(1, a.AtOnce))
	}
	return nil
}

// adapters holds what an engine has loaded.
type adapters struct {
	Adapters
	loaded []int32 // the one used last at the end
	loads  int
}

func newAdapters(a Adapters) adapters {
	a.AtOnce = max(1, a.AtOnce)
	a.Loaded = max(a.AtOnce, a.Loaded)
	return adapters{Adapters: a}
}

// use notes that a step uses an adapter and returns how much longer it takes as that has to be loaded.
func (a *adapters) use(x int32) (longer time.Duration) {
	i := slices.Index(a.loaded, x)
	switch {
	case x == 0:
		return 0
	case i >= 0:
		a.loaded = slices.Delete(a.loaded, i, i+1)
	default:
		a.loads++
		longer = a.Load
	}
	a.loaded = append(a.loaded, x)
	a.loaded = slices.Delete(a.loaded, 0, max(0, len(a.loaded)-a.Loaded))
	return longer
}

// adapter is the number of a name, from 1; 0: it is none.
func (s *Server) adapter(name string) int32 {
	return int32(slices.Index(s.cfg.Adapters.Names, name) + 1)
}

// named is the name of what answers who asks for a model: that of the adapter, or else of the model.
func (s *Server) named(asked string) string {
	if s.adapter(asked) > 0 {
		return asked
	}
	return s.cfg.Model
}

// named are the names of the adapters that sequences use, as vllm:lora_requests_info has them.
func (a *adapters) named(all []*sequence) string {
	var out []string
	for i, name := range a.Names {
		uses := func(q *sequence) bool { return int(q.run.Adapter) == i+1 }
		if slices.ContainsFunc(all, uses) {
			out = append(out, name)
		}
	}
	return strings.Join(out, ",")
}
