package natsauth

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"

	"souk/bus"
)

// Approve signs a text with the user's key.
func (i *Identity) Approve(text []byte) (string, error) {
	signature, err := i.key.Sign(text)
	return base64.StdEncoding.EncodeToString(signature), err
}

// AccountFile names the file that lists whose creds were revoked: beside a file of creds, or where souk auth
// made both; "" where there is none.
func AccountFile(creds string) string {
	dir := filepath.Dir(creds)
	path := filepath.Join(dir, accountJWT)
	if absent(path) && filepath.Base(dir) == credsDir {
		path = filepath.Join(filepath.Dir(dir), accountJWT)
	}
	if absent(path) {
		return ""
	}
	return path
}

// Operator reads the JWT of another user of the market, which the same key has signed as this one's, and
// returns the operator's name and public key. Whoever does not have that key cannot make such a JWT. account
// is the file of the account's JWT, which says whose creds were revoked, and is read each time; "": those are
// not known, and their approvals are good until the creds expire.
func (s Source) Operator(token string, now time.Time, account string) (name, key string, err error) {
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
	if err := other.Expired(now); err != nil || account == "" {
		return other.Name, claims.Subject, err
	}
	text, err := readSecret(account, maxAccount)
	if err != nil {
		return "", "", fmt.Errorf("whose creds were revoked cannot be read: %w", err)
	}
	a, err := jwt.DecodeAccountClaims(strings.TrimSpace(string(text)))
	switch {
	case err != nil:
		return "", "", fmt.Errorf("%s: %w", account, err)
	case a.Subject != own.IssuerAccount:
		return "", "", fmt.Errorf("%s is another market's", account)
	case a.IsClaimRevoked(claims):
		return "", "", fmt.Errorf("%.64q: %w", other.Name, ErrRevoked)
	}
	return other.Name, claims.Subject, nil
}
