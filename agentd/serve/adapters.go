package serve

import (
	"context"
	"sync"
	"time"

	"souk/agentd"
	"souk/bus/policy"
)

// adapters connects an agent with the others of its engine, where a policy keeps adapters ready.
type adapters struct {
	peers *peers // nil: there is no such policy
	// ends this agent's load, if one is under way; guarded by the agent's lock
	endLoad context.CancelFunc
}

// peers are the agents of one engine. The first of them that the engine was ready for has the policy: one
// whose adapter the engine does not find waits for it, and must not keep the others from theirs.
type peers struct {
	sync.Mutex
	first   *agent // nil: none is ready
	loading bool   // one of them has its adapter loaded
}

// loadTakes bounds how long a token may take that is asked for to have an adapter ready.
const loadTakes = 30 * time.Second

// pair says of an agent which of those before it have its engine.
func (s *Server) pair(a *agent) {
	if s.cfg.Policies.Adapter == "" {
		return
	}
	a.peers = &peers{}
	for _, x := range s.agents {
		if x.cfg.Engine.URL == a.cfg.Engine.URL {
			a.peers = x.peers
		}
	}
}

// lead is the agent that has the policy, which is a where none has it yet.
func (p *peers) lead(a *agent) *agent {
	p.Lock()
	defer p.Unlock()
	if p.first == nil {
		p.first = a
	}
	return p.first
}

// newCore is the agent's machine, with the policy of adapters where it is the one that has it.
func (a *agent) newCore(info agentd.Info) *agentd.Agent {
	limits, tells := a.Server.cfg, false
	if a.peers != nil && a.peers.lead(a) != a {
		limits.Policies.Adapter, tells = "", true
	}
	core := agentd.NewAgent(a.cfg, limits, info, a.boot, a.secret)
	if tells {
		core.Tells()
	}
	return core
}

// tell passes on what the agent's machine has to tell the one that has the policy.
func (a *agent) tell(heard []policy.Event) {
	if len(heard) == 0 {
		return
	}
	a.peers.lead(a).with(func(core *agentd.Agent) {
		for _, e := range heard {
			core.Overhear(e)
		}
	})
}

// do does what the policy wants: the agent that it names asks its engine for one token.
func (a *agent) do(e *policy.Effect) {
	for _, x := range a.known() {
		if e.Kind == policy.Load && x.peers == a.peers && policy.IDOf(x.cfg.ID) == e.Agent {
			x.beginLoad()
			return
		}
	}
	a.with((*agentd.Agent).Undone) // nobody here does that
}

// beginLoad has the agent's adapter loaded, unless another one of the engine's is.
func (a *agent) beginLoad() {
	alone := a.peers.loads(true)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.core == nil:
	case !alone:
		a.core.Undone()
	case a.core.LoadBegins(time.Now()):
		ctx, end := context.WithTimeout(context.Background(), loadTakes)
		a.endLoad = end
		request := a.core.LoadRequest()
		a.runs.Go(func() { a.load(ctx, &request) }) // under the lock: whoever drains waits for it
		return
	}
	if alone {
		defer a.peers.loads(false)
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
func (p *peers) loads(on bool) (changed bool) {
	p.Lock()
	defer p.Unlock()
	changed = p.loading != on
	p.loading = on
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
	a.peers.loads(false)
	if err != nil {
		a.log.Debug("adapter not loaded", "err", err)
	}
	a.tell(heard)
}
