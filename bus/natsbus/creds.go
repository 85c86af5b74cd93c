package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/natsauth"
)

// ErrRefused marks a connection that a server does not take, for who it is and not for where it is.
var ErrRefused = errors.New("the NATS server refuses it")

// creds holds the identity that the connection showed last, and why it was refused.
type creds struct {
	mu      sync.Mutex
	shown   *natsauth.Identity
	unread  error // the creds themselves are wrong
	refused error // told last, and not over
}

// present reads the creds for one attempt to connect. Those that are over are not shown: what a server says
// of them does not tell why.
func (b *Bus) present() (string, error) {
	i, err := b.config.Creds()
	if err == nil {
		err = i.Expired(time.Now())
	}
	b.creds.mu.Lock()
	b.creds.shown, b.creds.unread = i, err
	b.creds.mu.Unlock()
	if err != nil {
		b.failed(nil, nil, err)
		return "", err
	}
	return i.JWT(), nil
}

// sign proves that the key of the JWT shown is here.
func (c *creds) sign(nonce []byte) ([]byte, error) {
	c.mu.Lock()
	shown := c.shown
	c.mu.Unlock()
	return shown.Sign(nonce)
}

// explain says why a server, or what is to be shown to it, keeps the connection from being made; nil if that
// is not what err says.
func (c *creds) explain(err error) error {
	if err == nil || errors.Is(err, ErrRefused) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	who := "creds are missing: name a file of them (market.creds or SOUK_MARKET_CREDS)"
	if c.shown != nil {
		who = c.shown.String()
	}
	switch {
	case c.unread != nil:
		return fmt.Errorf("%w: %w", ErrRefused, c.unread)
	case errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("%w: the creds of %s were revoked (souk auth renew makes others), or %s", ErrRefused, who,
			keptAway)
	case errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAccountAuthExpired):
		return fmt.Errorf("%w: the creds of %s have expired (souk auth renew makes others)", ErrRefused, who)
	case errors.Is(err, nats.ErrAuthorization) && c.shown == nil:
		return fmt.Errorf("%w: %s", ErrRefused, who)
	case errors.Is(err, nats.ErrAuthorization):
		return fmt.Errorf("%w: the creds of %s were revoked, or are of another market than this server's "+
			"(souk auth list, where the keys are, says which), or %s", ErrRefused, who, keptAway)
	case errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("%w: %s may not: %w", bus.ErrForbidden, who, err)
	}
	return nil
}

// keptAway describes a closed connection for which NATS has no error of its own.
const keptAway = "their name took more than its share, and is kept away for a minute (the server's log says of what)"

// news reports whether a refusal was not told since the connection was last there.
func (c *creds) news(refused error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(refused, bus.ErrForbidden) {
		return true
	}
	told := c.refused != nil && c.refused.Error() == refused.Error()
	c.refused = refused
	return !told
}

// accepted notes that a server took what was shown.
func (c *creds) accepted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = nil
}

// Refused says why the server does not take this connection; nil while it does, or is out of reach.
func (b *Bus) Refused() error {
	b.creds.mu.Lock()
	defer b.creds.mu.Unlock()
	return b.creds.refused
}

// pushWithin bounds how long a server may take to answer that it knows of a revocation.
const pushWithin = 5 * time.Second

// newest refuses to take back what was revoked since the keys were copied. A server that does not say what it
// has is told all the same.
func newest(ctx context.Context, b *Bus, account string, keys *natsauth.Store) error {
	there, err := natsauth.Revocations(b.accountJWT(ctx, account))
	if err != nil {
		return nil
	}
	return keys.Newest(there, time.Now())
}

// accountJWT returns a server's copy of an account: the one on its disk, or, where it keeps none, the one in
// use. A server with a copy on disk does not use it before somebody of the account has connected.
func (b *Bus) accountJWT(ctx context.Context, account string) string {
	if m, err := b.Request(ctx, bus.Msg{Subject: account + "CLAIMS.LOOKUP"}); err == nil && len(m.Data) > 0 {
		return string(m.Data)
	}
	var said struct {
		Data struct {
			JWT string `json:"jwt"`
		} `json:"data"`
	}
	if m, err := b.Request(ctx, bus.Msg{Subject: account + "INFO"}); err == nil {
		_ = json.Unmarshal(m.Data, &said)
	}
	return said.Data.JWT
}

// PushAccount tells the servers behind a connection what the keys say of their account now, so that whoever
// was revoked is cut off at once. config says where they are; who tells them is the keys' matter.
func PushAccount(ctx context.Context, config Config, keys *natsauth.Store) error {
	config.Name, config.Creds = "souk-auth", keys.System
	subject, token, err := keys.Account()
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	b, err := Connect(config)
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(ctx, pushWithin)
	defer cancel()
	if err := newest(ctx, b, strings.TrimSuffix(subject, "CLAIMS.UPDATE"), keys); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	m, err := b.Request(ctx, bus.Msg{Subject: subject, Data: []byte(token)})
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	var said struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &said); err != nil {
		return fmt.Errorf("push: the server answers %.200q: %w", m.Data, err)
	}
	if said.Error != nil {
		return fmt.Errorf("push: the server says: %.200s", said.Error.Description)
	}
	return nil
}
