package embedded

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
)

// bars keeps names away from a server for a while, by the only means of NATS to refuse who comes: their keys
// count as revoked. A server alone knows of it, and no longer than it runs.
type bars struct {
	server *server.Server
	market string // the account

	until map[string]time.Time // by key

	knock *slowly
}

// slowly has whoever is refused wait for the answer while anybody is kept away: who is barred comes again as
// soon as he has heard, and to find out once more that his creds are void takes a third of a millisecond. He
// waits on his own connection.
type slowly struct {
	on   atomic.Bool
	end  chan struct{} // closed: nobody waits any more
	once sync.Once
}

// answerIn is how long that is: others who are refused meanwhile, for creds that are revoked, wait with them.
// After two seconds the server asks whether somebody is still there, and its clients take that for no answer.
const answerIn = 1500 * time.Millisecond

func (s *slowly) wait() {
	if s == nil || !s.on.Load() {
		return
	}
	t := time.NewTimer(answerIn)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.end:
	}
}

func (s *slowly) stop() { s.once.Do(func() { close(s.end) }) }

// add bars keys.
func (b *bars) add(keys map[string]bool, until time.Time) error {
	for key := range keys {
		b.until[key] = until
	}
	return b.apply()
}

// end lets in again whose time is over.
func (b *bars) end(now time.Time) error {
	over := false
	for key, until := range b.until {
		if !now.Before(until) {
			delete(b.until, key)
			over = true
		}
	}
	if !over {
		return nil
	}
	return b.apply()
}

// apply tells the server of the account as it is in the market's keys, and of those who are barred now.
func (b *bars) apply() error {
	token, err := b.server.AccountResolver().Fetch(b.market)
	if err != nil {
		return fmt.Errorf("the market's account: %w", err)
	}
	claims, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return fmt.Errorf("the market's account: %w", err)
	}
	account, err := b.server.LookupAccount(b.market)
	if err != nil {
		return fmt.Errorf("the market's account: %w", err)
	}
	if claims.Revocations == nil {
		claims.Revocations = jwt.RevocationList{}
	}
	for key := range b.until {
		claims.Revocations[key] = math.MaxInt64 // whenever it was made
	}
	b.knock.on.Store(len(b.until) > 0)
	b.server.UpdateAccountClaims(account, claims)
	return nil
}
