package natsauth

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// Shown holds the credentials of a connection to a server of ours: a user's JWT, and a signature of the nonce
// that the server gave it.
type Shown struct {
	JWT, Signature string
	Nonce          []byte
}

// Account is an account as a server knows it now.
type Account struct {
	*jwt.AccountClaims
	Revoked map[string]time.Time // by user key, "*" for all: what was issued until then is void
}

// Admit finds out who has shown that, and what it may. account gives those that the server trusts. Terms that
// this package does not write are refused, lest one be overlooked.
func (s Shown) Admit(account func(key string) (Account, bool)) (*jwt.UserClaims, *Identity, error) {
	claims, err := jwt.DecodeUserClaims(s.JWT) // signed by whoever it names
	if err != nil {
		return nil, nil, fmt.Errorf("user JWT: %w", err)
	}
	of := cmp.Or(claims.IssuerAccount, claims.Issuer)
	a, ok := account(of)
	if !ok || !a.DidSign(claims) {
		return nil, nil, errors.New("user JWT: none of this market's accounts has signed it")
	}
	if scope, _ := a.SigningKeys.GetScope(claims.Issuer); scope != nil {
		return nil, nil, errors.New("user JWT: its signing key has terms of its own")
	}
	l := claims.Limits
	if claims.BearerToken || claims.ProxyRequired || len(claims.AllowedConnectionTypes) > 0 ||
		claims.Resp != nil || len(l.Src) > 0 || len(l.Times) > 0 {
		return nil, nil, errors.New("user JWT: it has terms that souk auth writes into none")
	}
	var wrong jwt.ValidationResults
	if claims.Validate(&wrong); wrong.IsBlocking(true) {
		return nil, nil, errors.New("user JWT: it is not good now, or damaged")
	}
	key, err := nkeys.FromPublicKey(claims.Subject)
	if err != nil {
		return nil, nil, fmt.Errorf("user JWT: %w", err)
	}
	signature, err := base64.RawURLEncoding.DecodeString(s.Signature)
	if err != nil { // some clients write it so
		signature, err = base64.StdEncoding.DecodeString(s.Signature)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("signature: %w", err)
	}
	if len(s.Nonce) == 0 {
		return nil, nil, errors.New("signature: there is no nonce")
	}
	if err := key.Verify(s.Nonce, signature); err != nil {
		return nil, nil, fmt.Errorf("signature: %w", err)
	}
	for _, key := range []string{jwt.All, claims.Subject} {
		if until, ok := a.Revoked[key]; ok && until.Unix() >= claims.IssuedAt {
			return nil, nil, errors.New("user JWT: it was revoked")
		}
	}
	return claims, identity(claims, s.JWT, nil), nil
}
