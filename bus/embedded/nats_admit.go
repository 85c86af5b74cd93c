package embedded

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"souk/bus/natsauth"
)

// token stands for a JWT that was found good, so that whoever shows it once too often is refused without
// finding that out again: it takes half a millisecond.
type token [sha256.Size]byte

// maxTokens bounds the tokens remembered of one name: a process shows one.
const maxTokens = 8

// answerIn bounds how long a refused process waits for the answer on its own connection: it comes again as
// soon as it has heard. Clients wait for two seconds by themselves.
const answerIn = 1500 * time.Millisecond

// Check reports whether a connection is let in. The server asks on that connection's own goroutine, with no
// lock held, and reads nothing more from it before it is told.
func (g *natsGuard) Check(c server.ClientAuthentication) bool {
	o, cid := c.GetOpts(), c.GetID()
	seen := token(sha256.Sum256([]byte(o.JWT)))
	if !g.hasRoom(seen, cid) {
		g.wait()
		return false
	}
	claims, who, err := natsauth.Shown{JWT: o.JWT, Signature: o.Sig, Nonce: c.GetNonce()}.Admit(g.account)
	if err != nil {
		return false // the server says that it refuses somebody
	}
	of := cmp.Or(claims.IssuerAccount, claims.Issuer)
	account, err := g.server.LookupAccount(of)
	if err != nil {
		return false
	}
	if of == g.auth.Market && !g.admit(who, seen, cid) {
		g.wait()
		return false
	}
	user := &server.User{Username: who.Name, Account: account, ConnectionDeadline: who.Expires}
	pub, sub := claims.Pub, claims.Sub
	if len(pub.Allow)+len(pub.Deny)+len(sub.Allow)+len(sub.Deny) > 0 {
		user.Permissions = &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: pub.Allow, Deny: pub.Deny},
			Subscribe: &server.SubjectPermission{Allow: sub.Allow, Deny: sub.Deny}}
	}
	c.RegisterUser(user)
	return true
}

// account returns the account of a key, if it is one of the server's two.
func (g *natsGuard) account(key string) (a natsauth.Account, ok bool) {
	if key != g.auth.Market && key != g.auth.System {
		return a, false
	}
	if account, err := g.server.LookupAccount(key); err != nil || account.IsExpired() {
		return a, false
	}
	z, err := g.server.Accountz(&server.AccountzOptions{Account: key})
	if err != nil || z.Account.Claim == nil {
		return a, false
	}
	return natsauth.Account{AccountClaims: z.Account.Claim, Revoked: z.Account.RevokedUser}, true
}

// hasRoom reports whether a connection may show who it is: what it shows was not found good before, or that
// name has room.
func (g *natsGuard) hasRoom(seen token, cid uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.shown[seen]
	return h == nil || g.room(h, cid)
}

// admit counts a connection to its name, if there is room.
func (g *natsGuard) admit(who *natsauth.Identity, seen token, cid uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.names[who.Name]
	if h == nil {
		h = &host{name: who.Name}
		g.names[who.Name] = h
	}
	h.share = who.Share()
	g.remember(h, seen)
	if !g.room(h, cid) {
		return false
	}
	p := g.connections[cid] // it may show something else later on
	switch {
	case p == nil:
		g.connections[cid] = &connection{of: h}
	case p.of != h:
		p.of.here = slices.DeleteFunc(p.of.here, func(c uint64) bool { return c == cid })
		p.of = h
	}
	h.here = append(h.here, cid)
	return true
}

// room reports whether a name may have one more connection, beside those that are there. A server knows of
// one that has gone before another can come.
func (g *natsGuard) room(h *host, cid uint64) bool {
	now := g.now()
	if !now.Before(h.until) {
		h.here = slices.DeleteFunc(h.here, func(c uint64) bool { return c == cid || g.gone(c) })
		if len(h.here) < h.share.Connections {
			return true
		}
		h.closed++
		g.tell(h, now, "connections", h.share.Connections)
	}
	return false
}

func (g *natsGuard) gone(cid uint64) bool { return g.server.GetClient(cid) == nil }

func (g *natsGuard) remember(h *host, seen token) {
	if g.shown[seen] == h {
		return
	}
	if len(h.shown) == maxTokens {
		delete(g.shown, h.shown[0])
		h.shown = slices.Delete(h.shown, 0, 1)
	}
	h.shown = append(h.shown, seen)
	g.shown[seen] = h
}

func (g *natsGuard) wait() {
	select {
	case <-time.After(answerIn):
	case <-g.closing:
	}
}
