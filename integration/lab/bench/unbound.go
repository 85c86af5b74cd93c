package bench

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"souk/bus/natsauth"
)

// writeUnbound writes creds that no role binds, and that never end: they may say and hear anything in the
// market's account, for whoever measures its servers with subjects of their own. Whoever can make them has
// the signing key, and can be anybody.
func writeUnbound(keys *natsauth.Store, name, file string) error {
	server, err := keys.Server()
	if err != nil {
		return err
	}
	seed, err := os.ReadFile(filepath.Join(keys.Dir, "signing.seed"))
	if err != nil {
		return err
	}
	signer, err := nkeys.FromSeed(bytes.TrimSpace(seed))
	if err != nil {
		return err
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	public, err := user.PublicKey()
	if err != nil {
		return err
	}
	claims := jwt.NewUserClaims(public)
	claims.Name, claims.IssuerAccount = name, server.Market
	token, err := claims.Encode(signer)
	if err != nil {
		return err
	}
	secret, err := user.Seed()
	if err != nil {
		return err
	}
	data, err := jwt.FormatUserConfig(token, secret)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}
