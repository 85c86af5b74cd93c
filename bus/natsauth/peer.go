package natsauth

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"

	"souk/bus"
)

// Approve signs a text with the user's key.
func (i *Identity) Approve(text []byte) (string, error) {
	signature, err := i.key.Sign(text)
	return base64.StdEncoding.EncodeToString(signature), err
}

// Operator reads the JWT of another user of the market, which the same key has signed as this one's, and
// returns the operator's name and public key. Whoever does not have that key cannot make such a JWT.
func (s Source) Operator(token string, now time.Time) (name, key string, err error) {
	if s == nil {
		return "", "", fmt.Errorf("%w of this process, by which others' could be judged", ErrNoCreds)
	}
	i, err := s()
	if err != nil {
		return "", "", err
	}
	own, err := jwt.DecodeUserClaims(i.jwt)
	if err != nil {
		return "", "", err
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return "", "", fmt.Errorf("the second operator's JWT: %w", err)
	}
	other := identity(claims, token, nil)
	switch {
	case claims.Issuer != own.Issuer || claims.IssuerAccount != own.IssuerAccount:
		return "", "", fmt.Errorf("the creds of %.64q are of another market, or of a key that signs no more",
			other.Name)
	case other.Role != bus.RoleOperator:
		return "", "", fmt.Errorf("%w: %.64q is a %.20s, and an operator is to approve", ErrRole, other.Name,
			other.Role)
	}
	return other.Name, claims.Subject, other.Expired(now)
}
