package ledger

import (
	"path"
	"strings"

	"souk/market"
)

// Accounts whose names hold no id.
const (
	Surplus  = "surplus" // premiums less the flat fee: not the hub's
	Fee      = "fee"     // the hub's flat fee
	Treasury = "treasury"
)

// Prepaid names the account of a client's money with the treasury that no hub has.
func Prepaid(client string) string { return "client:" + client + ":prepaid" }

// PrepaidOf is the client of such an account.
func PrepaidOf(account string) (client string, ok bool) {
	client, isClient := strings.CutPrefix(account, "client:")
	client, ok = strings.CutSuffix(client, ":prepaid")
	return client, ok && isClient
}

// Avail names the account of a client's money that a hub may still hold.
func Avail(client string) string { return "client:" + client + ":avail" }

// Held is the sum of a client's open holds at a hub.
func Held(client string) string { return "client:" + client + ":held" }

// Payable names the account of a hub's debt to an agent.
func Payable(agent string) string { return "agent:" + agent + ":payable" }

// names has the names of a client's or an agent's accounts, each made once.
type names struct{ id, avail, held, payable string }

func (n *names) client() (avail, held string) {
	if n.avail == "" {
		n.avail, n.held = Avail(n.id), Held(n.id)
	}
	return n.avail, n.held
}

func (n *names) agent() string {
	if n.payable == "" {
		n.payable = Payable(n.id)
	}
	return n.payable
}

// Clearing names the account of money between another journal and this one. Its sum with that account in the
// other journal is the money in flight.
func Clearing(journal string) string { return "clearing:" + journal }

// External is the world outside.
func External(name string) string { return "external:" + name }

// MayOwe reports whether an account may be below zero: only the outside world and what is under way
// between two journals (invariant I2).
func MayOwe(account string) bool {
	return strings.HasPrefix(account, "external:") || strings.HasPrefix(account, "clearing:")
}

// maxID bounds an id in bytes, as on the bus.
const maxID = 64

// ValidID reports whether s may be part of an account name or a record's id: 1 to 64 letters, digits,
// '-' and '_', so that neither can be forged by a client's name.
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > maxID {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !idByte[s[i]] {
			return false
		}
	}
	return true
}

// ValidOp reports whether s may be the id of a deposit or payout: 1 to 128 visible ASCII characters but '/',
// so that it cannot be taken for a record of another kind.
func ValidOp(s string) bool {
	if len(s) == 0 || len(s) > 2*maxID {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '/' {
			return false
		}
	}
	return true
}

var idByte = func() (t [256]bool) {
	for c := range t {
		t[c] = c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	return t
}()

// Bytes of a request's id and of a task's tags, as on the bus.
const maxRequest, maxTags = 128, 512

// unbroken reports whether s has characters alone that break no line of a log or a table.
func unbroken(s string, most int) bool {
	return s == "" || len(s) <= most && strings.TrimFunc(s, func(c rune) bool {
		return c < 256 && (idByte[c] || strings.ContainsRune(".~%+=&:/@", c))
	}) == ""
}

// Balance is an account and what is in it.
type Balance struct {
	Account string         `json:"account"`
	Amount  market.Credits `json:"amount"`
}

// sum returns the sum of legs, and whether it fits.
func sum(legs []Leg) (market.Credits, bool) {
	var s market.Credits
	for _, l := range legs {
		var ok bool
		if s, ok = s.Add(l.Amount); !ok {
			return 0, false
		}
	}
	return s, true
}

// match reports whether name fits glob, in which '*' stands for anything and '?' for one character.
func match(glob, name string) bool {
	if glob == "" {
		return true
	}
	// ids and account names hold no '/', the only character that path.Match's '*' stops at
	ok, err := path.Match(glob, name)
	return ok && err == nil
}
