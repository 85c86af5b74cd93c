package serve

import (
	"fmt"

	"souk/agentd"
	"souk/bus/follow"
)

// A runtime policy that does not come back holds up its agent, and nobody can end it but with the process. So
// the process ends, and the next one starts without that policy, which a file in the node's directory names.

// exitHung is the status of a process that ends because of that: it is to be started again.
const exitHung = 70

// without turns off the policies in which an earlier life hung.
func without(cfg *agentd.Config, deps *Deps) error {
	path := deps.Home.hung()
	if path == "" {
		return nil
	}
	names, err := follow.ReadHung(path)
	if err != nil {
		return fmt.Errorf("agentd: node %s: %w", cfg.Node, err)
	}
	for _, name := range names {
		if cfg.Policies.Without(name) {
			deps.Log.Warn("a policy is off, as an earlier life of this node hung in it: remove the file to try "+
				"it again", "node", cfg.Node, "policy", name, "file", path)
		}
	}
	return nil
}

// hangs ends the process for a policy that does not come back.
func (a *agent) hangs(policy string) {
	a.hung.Do(func() {
		var err error
		path := a.deps.Home.hung()
		if path != "" {
			err = follow.WriteHung(path, policy)
		}
		a.log.Error("a policy does not come back: the process ends, and starts without it", "policy", policy,
			"after", follow.Hangs, "file", path, "err", err)
		a.deps.Exit(exitHung)
	})
}
