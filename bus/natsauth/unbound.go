package natsauth

import (
	"os"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// WriteUnbound writes creds that no role binds, and that never end: they may say and hear anything in the
// market's account. They are for whoever measures its servers with subjects of their own. Whoever can make
// them has the signing key, and can be anybody.
func (s *Store) WriteUnbound(name, file string) error {
	signer, err := s.key(signingSeed)
	if err != nil {
		return err
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	claims := jwt.NewUserClaims(public(user))
	claims.Name, claims.IssuerAccount = name, s.account
	token, err := claims.Encode(signer)
	if err != nil {
		return err
	}
	seed, err := user.Seed()
	if err != nil {
		return err
	}
	data, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}
