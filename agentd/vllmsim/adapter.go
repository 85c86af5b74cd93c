package vllmsim

import (
	"encoding/json"
	"fmt"
	"net/http"
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
	// POST /v1/load_lora_adapter and unload_lora_adapter, as vLLM has them with
	// VLLM_ALLOW_RUNTIME_LORA_UPDATING
	Updates bool
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
	due    time.Duration // that the next step takes longer, for what was loaded by demand
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

// gone is in the place of an adapter that was unloaded: the others keep their numbers.
const gone = "\x00"

// adapter is the number of a name, from 1; 0: it is none.
func (s *Server) adapter(name string) int32 {
	if name == gone {
		return 0
	}
	return int32(slices.Index(*s.adapters.Load(), name) + 1)
}

// named is the name of what answers who asks for a model: that of the adapter, or else of the model.
func (s *Server) named(asked string) string {
	if s.adapter(asked) > 0 {
		return asked
	}
	return s.cfg.Model
}

// mostAdapters bounds those that were ever loaded: one that is unloaded keeps its number.
const mostAdapters = 4096

// update loads or unloads an adapter by demand. The step that follows takes as long as loading does.
func (s *Server) update(load bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, p := s.body(w, r)
		var asked struct {
			Name string `json:"lora_name"`
			Path string `json:"lora_path"`
		}
		switch {
		case p != nil:
		case json.Unmarshal(body, &asked) != nil:
			p = invalid("json_invalid", "body", "JSON decode error", "{}")
		case load && (asked.Name == "" || asked.Path == "" || asked.Name == gone):
			p = userInput("Both 'lora_name' and 'lora_path' must be provided.")
		case asked.Name == "" || asked.Name == gone:
			p = userInput("'lora_name' needs to be provided to unload a LoRA adapter.")
		default:
			p = s.updated(asked.Name, load)
		}
		if p != nil {
			refuse(w, p)
			return
		}
		done := "removed"
		if load {
			done = "added"
		}
		fmt.Fprintf(w, "Success: LoRA adapter '%s' %s successfully.", asked.Name, done)
	}
}

// userInput is how vLLM refuses an adapter.
func userInput(format string, args ...any) *problem {
	return &problem{400, fmt.Sprintf(format, args...), "InvalidUserInput", ""}
}

func (s *Server) updated(name string, load bool) *problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Clone(*s.adapters.Load())
	i := slices.Index(names, name)
	switch {
	case load && name == s.cfg.Model:
		return userInput("The lora adapter '%s' conflicts with a served base model.", name)
	case load && i >= 0:
		return userInput("The lora adapter '%s' has already been loaded. If you want to load the adapter in place, "+
			"set 'load_inplace' to True.", name)
	case !load && i < 0:
		return &problem{404, fmt.Sprintf("The lora adapter '%s' cannot be found.", name), "NotFoundError", ""}
	case load && len(names) >= mostAdapters:
		return badRequest("lora_name", "%d adapters have been loaded since the server began, and it counts no "+
			"further", len(names))
	case load:
		names = append(names, name)
	default:
		names[i] = gone
	}
	s.adapters.Store(&names)
	s.engine.adapters.Names = names
	if load {
		s.engine.adapters.due += s.engine.adapters.use(int32(len(names)))
	}
	return nil
}

// named are the names of the adapters that sequences use, as vllm:lora_requests_info has them.
func (a *adapters) named(all []*sequence) string {
	var out []string
	for i, name := range a.Names {
		uses := func(q *sequence) bool { return int(q.run.Adapter) == i+1 }
		if name != gone && slices.ContainsFunc(all, uses) {
			out = append(out, name)
		}
	}
	return strings.Join(out, ",")
}

// adapterPath is where an adapter would be.
func adapterPath(name string) string { return "/adapters/" + name }
