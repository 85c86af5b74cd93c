package natsauth

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"souk/bus"
)

// accounts returns the accounts of a market as its server knows them.
func (s *Store) accounts(t *testing.T) map[string]Account {
	server := may[*Server](t)(s.Server())
	all := map[string]Account{}
	for key, token := range server.Accounts {
		a := may[*jwt.AccountClaims](t)(jwt.DecodeAccountClaims(token))
		all[key] = Account{AccountClaims: a, Revoked: map[string]time.Time{}}
	}
	return all
}

// A server of ours lets in whose JWT one of the market's accounts has signed, plainly and for now, and who
// proves by the nonce that the key is there; nobody else.
func TestWhoIsAdmitted(t *testing.T) {
	s, elsewhere := store(t), store(t)
	signer := may[nkeys.KeyPair](t)(s.key(signingSeed))
	other := may[nkeys.KeyPair](t)(elsewhere.key(signingSeed))
	user := may[nkeys.KeyPair](t)(nkeys.CreateUser())
	stranger := may[nkeys.KeyPair](t)(nkeys.CreateUser())
	self := may[nkeys.KeyPair](t)(nkeys.CreateAccount())
	now := time.Now()
	type shows struct {
		claims   *jwt.UserClaims
		signer   nkeys.KeyPair
		key      nkeys.KeyPair
		accounts map[string]Account
		change   func(*Shown)
	}
	revoked := func(key string, at time.Duration) func(*shows) {
		return func(sh *shows) { sh.accounts[s.account].Revoked[key] = now.Add(at) }
	}
	of := func(account string) func(*shows) {
		return func(sh *shows) { sh.claims.IssuerAccount = account }
	}
	for what, c := range map[string]struct {
		change func(*shows)
		says   string // "": it is let in
	}{
		"all is well": {func(*shows) {}, ""},
		"as other clients sign": {func(s *shows) {
			s.change = func(s *Shown) {
				raw := may[[]byte](t)(base64.RawURLEncoding.DecodeString(s.Signature))
				s.Signature = base64.StdEncoding.EncodeToString(raw)
			}
		}, ""},
		"nothing": {func(s *shows) {
			s.change = func(s *Shown) { *s = Shown{Nonce: s.Nonce} }
		}, "user JWT"},
		"a changed JWT": {func(s *shows) {
			s.change = func(s *Shown) {
				parts := strings.Split(s.JWT, ".")
				text := may[[]byte](t)(base64.RawURLEncoding.DecodeString(parts[1]))
				text = bytes.Replace(text, []byte(`"dev"`), []byte(`"ada"`), 1)
				parts[1] = base64.RawURLEncoding.EncodeToString(text)
				s.JWT = strings.Join(parts, ".")
			}
		}, "user JWT"},
		"an account's JWT": {func(s *shows) {
			s.change = func(sh *Shown) {
				sh.JWT = may[*Server](t)(elsewhere.Server()).Accounts[elsewhere.account]
			}
		}, "user JWT"},
		"another market's": {func(s *shows) {
			s.signer, s.claims.IssuerAccount = other, elsewhere.account
		}, "none of this"},
		"another market's key in our name": {func(s *shows) { s.signer = other }, "none of this"},
		"its own account": {func(s *shows) {
			s.signer, s.claims.IssuerAccount = self, ""
		}, "none of this"},
		"our key in another's name":       {of(public(self)), "none of this"},
		"our key in the servers' account": {of(s.system), "none of this"},
		"our key, which is of no account": {of(""), "none of this"},
		"a signing key with terms": {func(sh *shows) {
			scope := jwt.NewUserScope()
			scope.Key = public(signer)
			sh.accounts[s.account].SigningKeys.AddScopedSigner(scope)
		}, "terms of its own"},
		"over":          {func(s *shows) { s.claims.Expires = now.Add(-time.Second).Unix() }, "not good now"},
		"not yet":       {func(s *shows) { s.claims.NotBefore = now.Add(time.Hour).Unix() }, "not good now"},
		"no signature":  {func(s *shows) { s.change = func(s *Shown) { s.Signature = "" } }, "signature"},
		"no base64":     {func(s *shows) { s.change = func(s *Shown) { s.Signature = "!" } }, "signature"},
		"another's key": {func(s *shows) { s.key = stranger }, "signature"},
		"an old nonce": {func(s *shows) {
			s.change = func(s *Shown) { s.Nonce = []byte("another") }
		}, "signature"},
		"no nonce":   {func(s *shows) { s.change = func(s *Shown) { s.Nonce = nil } }, "nonce"},
		"bearer":     {func(s *shows) { s.claims.BearerToken = true }, "terms"},
		"by a proxy": {func(s *shows) { s.claims.ProxyRequired = true }, "terms"},
		"a network":  {func(s *shows) { s.claims.Limits.Src.Add("10.0.0.0/8") }, "terms"},
		"hours": {func(s *shows) {
			s.claims.Limits.Times = []jwt.TimeRange{{Start: "01:00:00", End: "02:00:00"}}
		}, "terms"},
		"a kind of connection": {func(s *shows) { s.claims.AllowedConnectionTypes.Add("MQTT") }, "terms"},
		"answers": {func(s *shows) {
			s.claims.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: time.Minute}
		}, "terms"},
		"revoked":       {revoked(public(user), time.Hour), "revoked"},
		"all are":       {revoked(jwt.All, time.Hour), "revoked"},
		"another is":    {revoked(public(stranger), time.Second), ""},
		"an earlier is": {revoked(public(user), -time.Hour), ""},
	} {
		claims := jwt.NewUserClaims(public(user))
		claims.Name, claims.IssuerAccount, claims.Expires = "dev", s.account, now.Add(time.Hour).Unix()
		claims.Tags.Add(roleTag + string(bus.RoleClient))
		sh := shows{claims: claims, signer: signer, key: user, accounts: s.accounts(t),
			change: func(*Shown) {}}
		c.change(&sh)
		nonce := []byte("a nonce of the server")
		shown := Shown{JWT: may[string](t)(sh.claims.Encode(sh.signer)), Nonce: nonce,
			Signature: base64.RawURLEncoding.EncodeToString(may[[]byte](t)(sh.key.Sign(nonce)))}
		sh.change(&shown)
		got, who, err := shown.Admit(func(key string) (Account, bool) {
			a, ok := sh.accounts[key]
			return a, ok
		})
		switch {
		case c.says == "" && (err != nil || got.Subject != public(user) || who.Name != "dev" ||
			who.Role != bus.RoleClient):
			t.Errorf("%s: it is refused: %v", what, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
}

// Whatever is shown, it is admitted or refused, and nothing else happens.
func FuzzAdmit(f *testing.F) {
	s := may[*Store](f)(Init(Dir(f.TempDir())))
	signer := may[nkeys.KeyPair](f)(s.key(signingSeed))
	user := may[nkeys.KeyPair](f)(nkeys.CreateUser())
	claims := jwt.NewUserClaims(public(user))
	claims.IssuerAccount = s.account
	token := may[string](f)(claims.Encode(signer))
	server := may[*Server](f)(s.Server())
	account := may[*jwt.AccountClaims](f)(jwt.DecodeAccountClaims(server.Accounts[s.account]))
	f.Add(token, "AAAA", []byte("nonce"))
	f.Add(server.Accounts[s.account], "", []byte{})
	f.Add("a.b.c", "!", []byte(nil))
	f.Fuzz(func(t *testing.T, token, signature string, nonce []byte) {
		shown := Shown{JWT: token, Signature: signature, Nonce: nonce}
		_, _, err := shown.Admit(func(key string) (Account, bool) {
			return Account{AccountClaims: account}, key == s.account
		})
		if err == nil { // nobody has signed anything
			t.Errorf("%q is let in", token)
		}
	})
}
