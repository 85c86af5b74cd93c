package serve

import (
	"context"
	"sync"
	"time"

	"souk/agentd"
	"souk/bus/policy"
)

// adapters is what agents of one engine have to do with each other, where a policy is to have adapters ready.
// The first of them in the configuration has the policy.
type adapters struct {
	first   *agent // that has the policy; nil: there is none
	firsts  sync.Mutex
	loading bool // of first, guarded by firsts: one of them has its adapter loaded
	// ends this agent's load, if one is under way; guarded by the agent's lock
	endLoad context.CancelFunc
}

// loadTakes bounds how long a token may take that is asked for to have an adapter ready.
const loadTakes = 30 * time.Second

// lead says of each agent which one has the policy of its engine.
func (s *Server) lead() {
	if s.cfg.Policies.Adapter == "" {
		return
	}
	first := map[string]*agent{}
	for _, a := range s.agents {
		if first[a.cfg.Engine.URL] == nil {
			first[a.cfg.Engine.URL] = a
		}
		a.first = first[a.cfg.Engine.URL]
	}
}

// newCore is the agent's machine, with the policy of adapters where it is the one that has it.
func (a *agent) newCore(info agentd.Info) *agentd.Agent {
	limits := a.Server.cfg
	if a.first != a {
		limits.Policies.Adapter = ""
	}
	core := agentd.NewAgent(a.cfg, limits, info, a.boot, a.secret)
	if a.first != nil && a.first != a {
		core.Tells()
	}
	return core
}

// tell passes on what the agent's machine has to tell the one that has the policy.
func (a *agent) tell(heard []policy.Event) {
	if len(heard) == 0 {
		return
	}
	a.first.with(func(core *agentd.Agent) {
		for _, e := range heard {
			core.Overhear(e)
		}
	})
}

// do does what the policy wants: the agent that it names asks its engine for one token.
func (a *agent) do(e *policy.Effect) {
	for _, x := range a.agents {
		if e.Kind == policy.Load && x.first == a && policy.IDOf(x.cfg.ID) == e.Agent {
			x.beginLoad()
			return
		}
	}
	a.with((*agentd.Agent).Undone) // nobody here does that
}

// beginLoad has the agent's adapter loaded, unless another one of the engine's is.
func (a *agent) beginLoad() {
	alone := a.first.loads(true)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.core == nil:
	case !alone:
		a.core.Undone()
	case a.core.LoadBegins():
		ctx, end := context.WithTimeout(context.Background(), loadTakes)
		a.endLoad = end
		request := a.core.LoadRequest()
		a.runs.Go(func() { a.load(ctx, &request) }) // under the lock: whoever drains waits for it
		return
	}
	if alone {
		defer a.first.loads(false)
	}
}

// stopLoad ends a load that is under way: it is of no use to who leaves.
func (a *agent) stopLoad() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.endLoad != nil {
		a.endLoad()
	}
}

// loads notes that one of the engine's agents has its adapter loaded, or that it is. It reports whether that
// is news.
func (a *agent) loads(on bool) (changed bool) {
	a.firsts.Lock()
	defer a.firsts.Unlock()
	changed = a.loading != on
	a.loading = on
	return changed
}

// load has the engine say one token, which nobody reads.
func (a *agent) load(ctx context.Context, request *agentd.Request) {
	_, err := a.engine.Complete(ctx, *request, func(agentd.Chunk) error { return nil })
	a.mu.Lock()
	a.endLoad()
	a.endLoad = nil
	heard := a.core.LoadOver(time.Now(), err)
	a.mu.Unlock()
	a.first.loads(false)
	if err != nil {
		a.log.Debug("adapter not loaded", "err", err)
	}
	a.tell(heard)
	a.beginTouches()
}
