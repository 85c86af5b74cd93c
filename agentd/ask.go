package agentd

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"souk/bus"
	"souk/market"
)

// Ask answers a hub's call for the agent's ask: with a seal that nobody can read, and with the ask itself
// once the hub says that the sealing is on record. Nonces are made from the secret of the process, so that a
// call repeated gets the same answer. Only the hub that has claimed the agent is answered.
func (a *Agent) Ask(node, domain string, c *bus.Call) (*bus.Ask, error) {
	r := a.Registration(node)
	owner, class := r.Seller()
	switch {
	case a.claim == nil || a.claim.Domain != domain || a.claim.Epoch != c.Lead:
		return nil, fmt.Errorf("call of %s, leadership %d, which has not claimed the agent", domain, c.Lead)
	case c.Agent != a.cfg.ID || c.Class != class:
		return nil, fmt.Errorf("call for %s of class %q: this is %s of class %q", c.Agent, c.Class, a.cfg.ID,
			class)
	}
	mac := hmac.New(sha256.New, a.secret[:])
	mac.Write(binary.BigEndian.AppendUint64(nil, c.Epoch))
	mac.Write([]byte(a.cfg.ID + "\n" + class))
	ask := market.Ask{Owner: owner, Amount: a.cfg.Ask}
	copy(ask.Nonce[:], mac.Sum(nil))
	out := &bus.Ask{Agent: a.cfg.ID, Class: class, Epoch: c.Epoch}
	if c.Open {
		out.Amount, out.Nonce = ask.Amount, ask.Nonce[:]
		return out, nil
	}
	seal := ask.Seal(class, c.Epoch)
	out.Seal = seal[:]
	return out, nil
}
