package natsauth

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"souk/bus"
)

func store(t testing.TB) *Store {
	t.Helper()
	s, err := Init(filepath.Join(t.TempDir(), "data", "auth"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// may ends the test on an error.
func may[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Creds say who one is and what that one may, for 90 days, signed by the signing key and not by the
// account's.
func TestCreds(t *testing.T) {
	s := store(t)
	now := time.Now()
	path := may[string](t)(s.Add(bus.RoleClient, bus.IDs{Name: "dev"}, now, Valid))
	if want := filepath.Join(s.Dir, "creds", "dev.creds"); path != want {
		t.Errorf("they are in %s, want %s", path, want)
	}
	i := may[*Identity](t)(ReadFile(path))
	if i.Name != "dev" || i.Role != bus.RoleClient || i.Account != s.account ||
		i.Expires.Unix() != now.Add(Valid).Unix() {
		t.Errorf("got %+v", i)
	}
	claims := may[*jwt.UserClaims](t)(jwt.DecodeUserClaims(i.JWT()))
	p := may[bus.Permissions](t)(bus.PermissionsOf(bus.RoleClient, bus.IDs{Name: "dev"}))
	if !slices.Equal(claims.Pub.Allow, p.Publish) || !slices.Equal(claims.Sub.Allow, p.Subscribe) ||
		claims.Resp != nil || claims.Issuer == s.account {
		t.Errorf("the JWT says %+v, signed by %s", claims.Permissions, claims.Issuer)
	}
	path = may[string](t)(s.Add(bus.RoleTreasury, bus.IDs{Name: "treasury"}, now, Valid))
	claims = may[*jwt.UserClaims](t)(jwt.DecodeUserClaims(may[*Identity](t)(ReadFile(path)).JWT()))
	if claims.Resp != nil || !slices.Contains(claims.Pub.Allow, bus.Inboxes) {
		t.Errorf("a treasury answers by %+v", claims.Permissions)
	}
}

// Creds that let a server keep reply subjects, or any number of subscriptions, say more than their role may:
// a process that makes its own has them made anew.
func TestCredsThatSayTooMuchAreMadeAnew(t *testing.T) {
	s := store(t)
	now, ids := time.Now(), bus.IDs{Name: "node", Agents: []string{"a1"}}
	path := may[string](t)(s.Ensure(bus.RoleAgentd, ids, now))
	made := may[*Identity](t)(ReadFile(path))
	signer := may[nkeys.KeyPair](t)(s.key(signingSeed))
	seed := may[[]byte](t)(made.key.Seed())
	for what, change := range map[string]func(*jwt.UserClaims){
		"answers": func(c *jwt.UserClaims) {
			c.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: 15 * time.Minute}
		},
		"subscriptions": func(c *jwt.UserClaims) { c.Limits.Subs = jwt.NoLimit },
		"neither":       func(*jwt.UserClaims) {},
	} {
		claims := may[*jwt.UserClaims](t)(jwt.DecodeUserClaims(made.JWT()))
		change(claims)
		old := may[[]byte](t)(jwt.FormatUserConfig(may[string](t)(claims.Encode(signer)), seed))
		if err := os.WriteFile(path, old, 0o600); err != nil {
			t.Fatal(err)
		}
		may[string](t)(s.Ensure(bus.RoleAgentd, ids, now))
		got := may[*Identity](t)(ReadFile(path))
		now := may[*jwt.UserClaims](t)(jwt.DecodeUserClaims(got.JWT()))
		if now.Resp != nil || now.Limits.Subs != int64(bus.ShareOf(bus.RoleAgentd, 1).Subscriptions) {
			t.Errorf("%s: %+v remains", what, now.Permissions)
		}
		if same := now.Subject == claims.Subject; same != (what == "neither") {
			t.Errorf("%s: the same creds remain: %v", what, same)
		}
		made, seed = got, may[[]byte](t)(got.key.Seed())
	}
}

// All that is in the directory is for its owner's eyes alone.
func TestModes(t *testing.T) {
	s := store(t)
	may[string](t)(s.Add(bus.RoleClient, bus.IDs{Name: "dev"}, time.Now(), Valid))
	if err := s.Revoke("dev", time.Now()); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if seen++; info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || seen < 11 {
		t.Errorf("%d files, %v", seen, err)
	}
}

// A name belongs to one role for ever, also an agent's, and also once it is revoked.
func TestANameBelongsToOneRole(t *testing.T) {
	s := store(t)
	now := time.Now()
	add := func(role bus.Role, ids bus.IDs) error {
		_, err := s.Add(role, ids, now, Valid)
		return err
	}
	node := func(name string, agents ...string) error {
		return add(bus.RoleAgentd, bus.IDs{Name: name, Agents: agents})
	}
	if err := errors.Join(add(bus.RoleClient, bus.IDs{Name: "ada"}), node("node-1", "a1", "a2"),
		node("solo", "solo"), add(bus.RoleHub, bus.IDs{Name: "math", Domain: "math"}),
		add(bus.RoleOperator, bus.IDs{Name: "rob"})); err != nil {
		t.Fatal(err)
	}
	taken := func(what string, err error, by string) {
		t.Helper()
		if !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), by) {
			t.Errorf("%s: %v, want %v by %s", what, err, ErrTaken, by)
		}
	}
	for _, role := range bus.Roles {
		ids := bus.IDs{Name: "ada"}
		if role == bus.RoleHub {
			ids.Domain = "math"
		}
		if role == bus.RoleAgentd {
			ids.Agents = []string{"ada-8000"}
		}
		taken(string(role)+" ada", add(role, ids), "client")
	}
	taken("an agent with a client's name", node("node-2", "ada"), "a client")
	taken("a client with an agent's name", add(bus.RoleClient, bus.IDs{Name: "a1"}), "the agentd node-1")
	taken("an agentd with the name of another's agent", node("a1", "a9"), "the agentd node-1")
	taken("an agent of another agentd", node("node-2", "a2"), "the agentd node-1")
	taken("a client with an operator's name", add(bus.RoleClient, bus.IDs{Name: "rob"}), "to an operator")
	taken("a gateway with a hub's name", add(bus.RoleGateway, bus.IDs{Name: "math"}), "a hub")
	if _, err := s.Member(bus.RoleDoor, bus.IDs{Name: "ada"}); !errors.Is(err, ErrTaken) {
		t.Errorf("a part of the process: %v", err)
	}
	if _, err := s.Ensure(bus.RoleOperator, bus.IDs{Name: "ada"}, now); !errors.Is(err, ErrTaken) {
		t.Errorf("ensured: %v", err)
	}
	if err := errors.Join(s.Revoke("ada", now), s.Revoke("node-1", now)); err != nil {
		t.Fatal(err)
	}
	taken("a revoked client's name", add(bus.RoleGateway, bus.IDs{Name: "ada"}), "a client")
	taken("a revoked node's agent as a client", add(bus.RoleClient, bus.IDs{Name: "a2"}), "the agentd node-1")
	if err := node("node-2", "a2"); err != nil { // an agent may move to another machine
		t.Errorf("an agent of an agentd that was revoked: %v", err)
	}
	_, _, err := s.Renew("node-1", nil, now, Valid)
	taken("the node before, with the agent that moved", err, "the agentd node-2")
	if _, _, err := s.Renew("node-1", []string{"a1"}, now, Valid); err != nil {
		t.Errorf("the node before, without it: %v", err)
	}
}

// Revoked creds are voided in what servers are told; renewed ones are good beside them.
func TestRevokeAndRenew(t *testing.T) {
	s := store(t)
	now := time.Now() // creds are dated by the clock when they are made: what ends them comes after
	dev := bus.IDs{Name: "dev"}
	first := may[*Identity](t)(ReadFile(may[string](t)(s.Add(bus.RoleClient, dev, now, Valid))))
	renew := func(id string, agents ...string) *Identity {
		t.Helper()
		path, _, err := s.Renew(id, agents, now, Valid)
		if err != nil {
			t.Fatal(err)
		}
		return may[*Identity](t)(ReadFile(path))
	}
	second := renew("dev")
	if err := s.Revoke("dev", time.Now()); err != nil {
		t.Fatal(err)
	}
	good := func(s *Store, i *Identity) bool {
		subject, token, err := s.Account()
		if err != nil || !strings.Contains(subject, s.account) {
			t.Fatal(subject, err)
		}
		a := may[*jwt.AccountClaims](t)(jwt.DecodeAccountClaims(token))
		return !a.IsClaimRevoked(may[*jwt.UserClaims](t)(jwt.DecodeUserClaims(i.JWT())))
	}
	if good(s, first) || good(s, second) {
		t.Error("creds of a user that was revoked are good")
	}
	if _, err := s.Ensure(bus.RoleClient, dev, now); !errors.Is(err, ErrRevoked) {
		t.Errorf("ensured although revoked: %v", err)
	}
	third := renew("dev")
	if good(s, first) || good(s, second) || !good(s, third) {
		t.Error("after the renewal not the new ones alone are good")
	}
	users := may[[]User](t)(s.List())
	if len(users) != 1 || users[0].Name != "dev" || users[0].Revoked ||
		users[0].Expires.Unix() != now.Add(Valid).Unix() {
		t.Errorf("listed: %+v", users)
	}
	for _, err := range []error{s.Revoke("nobody", now), func() error {
		_, _, err := s.Renew("nobody", nil, now, Valid)
		return err
	}()} {
		if !errors.Is(err, ErrNoName) {
			t.Errorf("of nobody: %v", err)
		}
	}
	// an agentd that has an agent no more may not speak for it by creds of before
	node := bus.IDs{Name: "node", Agents: []string{"a1", "a2"}}
	both := may[*Identity](t)(ReadFile(may[string](t)(s.Add(bus.RoleAgentd, node, now, Valid))))
	if more := renew("node", "a1", "a2", "a3"); !good(s, both) || !good(s, more) {
		t.Error("creds end since an agent was added")
	}
	path, dropped, err := s.Renew("node", []string{"a2"}, time.Now(), Valid)
	if err != nil || good(s, both) || !good(s, may[*Identity](t)(ReadFile(path))) ||
		!slices.Equal(dropped, []string{"a1", "a3"}) {
		t.Errorf("of three agents one is left: %q dropped, the creds of before good: %v, %v", dropped,
			good(s, both), err)
	}
	if err := os.Rename(filepath.Join(s.Dir, operatorSeed), filepath.Join(t.TempDir(), "x")); err != nil {
		t.Fatal(err)
	}
	if _, _, err = s.Renew("node", []string{"a4"}, now, Valid); err == nil ||
		!strings.Contains(err.Error(), operatorSeed) {
		t.Errorf("an agent is dropped where nobody can revoke: %v", err)
	}
	renew("node", "a2", "a4")
	s = store(t)
	third = may[*Identity](t)(ReadFile(may[string](t)(s.Add(bus.RoleClient, dev, now, Valid))))

	// a crash between the two files: the next change finds what the account's JWT lacks
	stale := may[[]byte](t)(os.ReadFile(filepath.Join(s.Dir, accountJWT)))
	if err := s.Revoke("dev", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, accountJWT), stale, 0o600); err != nil {
		t.Fatal(err)
	}
	may[string](t)(s.Add(bus.RoleClient, bus.IDs{Name: "eve"}, now, Valid))
	if again := may[*Store](t)(Open(s.Dir)); good(again, third) {
		t.Error("a revocation was lost")
	}
}

// A revocation counts whatever the clock says: one that was set right, or that of another machine, may be
// behind the one by which the creds are dated.
// The list says when the creds end that a process has now, and what else lets it in.
func TestUntilWhenCredsAreGood(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := store(t)
	if _, err := s.Add(bus.RoleClient, bus.IDs{Name: "ada"}, now, Valid); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ valid, earlier time.Duration }{
		{0, 0}, {time.Minute, Valid}, {time.Hour, Valid}, {2 * Valid, 0}, {Valid, 2 * Valid}} {
		want := User{Name: "ada", Role: bus.RoleClient, Expires: now.Add(cmp.Or(c.valid, Valid))}
		if c.earlier != 0 {
			want.Earlier = now.Add(c.earlier)
		}
		if c.valid != 0 {
			if _, _, err := s.Renew("ada", nil, now, c.valid); err != nil {
				t.Fatal(err)
			}
		}
		if got := may[[]User](t)(s.List()); len(got) != 1 || !got[0].Expires.Equal(want.Expires) ||
			!got[0].Earlier.Equal(want.Earlier) {
			t.Errorf("renewed for %v: %+v, want %+v", c.valid, got, want)
		}
	}
}

func TestRevokeByAClockThatIsBehind(t *testing.T) {
	s := store(t)
	now := time.Now()
	dev := bus.IDs{Name: "dev"}
	creds := may[*Identity](t)(ReadFile(may[string](t)(s.Add(bus.RoleClient, dev, now, Valid))))
	for range 2 {
		if err := s.Revoke("dev", now.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		_, token, err := s.Account()
		if err != nil {
			t.Fatal(err)
		}
		a := may[*jwt.AccountClaims](t)(jwt.DecodeAccountClaims(token))
		if !a.IsClaimRevoked(may[*jwt.UserClaims](t)(jwt.DecodeUserClaims(creds.JWT()))) {
			t.Error("creds that were revoked by a clock an hour behind are good")
		}
	}
}

// Creds are made when they are needed, kept while they are good, renewed before they end, and as the role's
// permissions or the agents change.
func TestEnsure(t *testing.T) {
	s := store(t)
	now := time.Now()
	node := bus.IDs{Name: "node", Agents: []string{"a1"}}
	read := func(ids bus.IDs, now time.Time) string {
		t.Helper()
		return may[*Identity](t)(ReadFile(may[string](t)(s.Ensure(bus.RoleAgentd, ids, now)))).JWT()
	}
	first := read(node, now)
	if read(node, now.Add(Valid/2)) != first {
		t.Error("good creds were made anew")
	}
	second := read(node, now.Add(Valid*3/4))
	if second == first {
		t.Error("creds that end soon were kept")
	}
	node.Agents = []string{"a1", "a2"}
	if third := read(node, now.Add(Valid*3/4)); third == second || read(node, now.Add(Valid*3/4)) != third {
		t.Error("another agent did not make creds anew, or did so twice")
	}
	more := read(node, now.Add(Valid*3/4))
	if node.Agents = []string{"a2"}; read(node, now.Add(Valid*3/4)) != more {
		t.Error("creds that name more agents were made anew")
	}
	if err := os.WriteFile(s.CredsPath("node"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	read(node, now)
	// where the signing key is not, what is there is taken, and nothing made
	if err := os.Remove(filepath.Join(s.Dir, signingSeed)); err != nil {
		t.Fatal(err)
	}
	read(node, now.Add(2*Valid))
	if _, err := s.Ensure(bus.RoleClient, bus.IDs{Name: "new"}, now); !errors.Is(err, ErrNoCreds) {
		t.Errorf("without the signing key: %v", err)
	}
	if _, err := s.Add(bus.RoleClient, bus.IDs{Name: "new"}, now, Valid); err == nil ||
		!strings.Contains(err.Error(), "signing.seed") {
		t.Errorf("without the signing key: %v", err)
	}
}

// Many processes that begin on one directory at once have the same keys, and no name is lost.
func TestManyBeginAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	const many = 8
	accounts := make([]string, many)
	var wait sync.WaitGroup
	for i := range many {
		wait.Go(func() {
			s, err := Init(dir)
			if err != nil {
				t.Error(err)
				return
			}
			accounts[i] = s.account
			if _, err := s.Add(bus.RoleClient, bus.IDs{Name: fmt.Sprint("c", i)}, time.Now(),
				Valid); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if slices.Sort(accounts); accounts[0] == "" || accounts[0] != accounts[many-1] {
		t.Errorf("they have the accounts %q", accounts)
	}
	if users := may[[]User](t)(may[*Store](t)(Open(dir)).List()); len(users) != many {
		t.Errorf("%d of %d names: %v", len(users), many, users)
	}
	left := may[[]string](t)(filepath.Glob(filepath.Join(filepath.Dir(dir), ".auth-*")))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A directory that is damaged, or half there, is refused with the file's name, and never written over.
func TestADamagedDirectory(t *testing.T) {
	other := store(t)
	for _, c := range []struct {
		file   string
		damage func(t *testing.T, path string)
		says   string
	}{
		{operatorJWT, remove, "operator.jwt"},
		{accountJWT, remove, "account.jwt"},
		{systemJWT, remove, "system.jwt"},
		{namesFile, remove, "names.json"},
		{accountJWT, cut, "account.jwt"},
		{namesFile, cut, "names.json"},
		{signingSeed, cut, "signing.seed holds no seed"},
		{operatorSeed, from(other), "operator.seed is not the key"},
		{signingSeed, from(other), "signing.seed is not the key"},
		{accountJWT, from(other), "not of one operator"},
		{operatorJWT, from(other), "not of one operator"},
	} {
		s := store(t)
		c.damage(t, filepath.Join(s.Dir, c.file))
		for name, open := range map[string]func(string) (*Store, error){"open": Open, "init": Init} {
			if _, err := open(s.Dir); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(),
				c.says) ||
				!strings.Contains(err.Error(), s.Dir) {
				t.Errorf("%s with %s: %v, want %q", name, c.file, err, c.says)
			}
		}
	}
	// keys that are kept elsewhere are no damage
	s := store(t)
	remove(t, filepath.Join(s.Dir, operatorSeed))
	remove(t, filepath.Join(s.Dir, accountSeed))
	s = may[*Store](t)(Open(s.Dir))
	may[string](t)(s.Add(bus.RoleClient, bus.IDs{Name: "dev"}, time.Now(), Valid))
	if err := s.Revoke("dev", time.Now()); err == nil || !strings.Contains(err.Error(), "operator.seed") {
		t.Errorf("revoked without the operator's key: %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrNoStore) {
		t.Errorf("nothing there: %v", err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func cut(t *testing.T, path string) {
	t.Helper()
	if err := os.Truncate(path, 7); err != nil {
		t.Fatal(err)
	}
}

func from(other *Store) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		text := may[[]byte](t)(os.ReadFile(filepath.Join(other.Dir, filepath.Base(path))))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Secrets that others can read are refused: they may have been read.
func TestSecretsThatOthersCanRead(t *testing.T) {
	s := store(t)
	path := may[string](t)(s.Add(bus.RoleClient, bus.IDs{Name: "dev"}, time.Now(), Valid))
	for file, open := range map[string]func() error{
		path:                              func() error { _, err := ReadFile(path); return err },
		filepath.Join(s.Dir, signingSeed): func() error { _, err := Open(s.Dir); return err },
		s.Dir:                             func() error { _, err := Open(s.Dir); return err },
	} {
		was := may[os.FileInfo](t)(os.Stat(file)).Mode().Perm()
		if err := os.Chmod(file, was|0o004); err != nil {
			t.Fatal(err)
		}
		if err := open(); !errors.Is(err, ErrOpen) || !strings.Contains(err.Error(), "chmod") {
			t.Errorf("%s with mode %v: %v", file, was|0o004, err)
		}
		if err := os.Chmod(file, was); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Ensure(bus.RoleClient, bus.IDs{Name: "dev"}, time.Now()); err != nil {
		t.Error(err)
	}
}

// What is wrong with a file of creds is said with its path and what to do, and shows nothing of what is in
// it.
func TestReadFileSaysWhatIsWrong(t *testing.T) {
	s := store(t)
	path := may[string](t)(s.Add(bus.RoleClient, bus.IDs{Name: "dev"}, time.Now(), Valid))
	good := string(may[[]byte](t)(os.ReadFile(path)))
	other := string(may[[]byte](t)(os.ReadFile(
		may[string](t)(s.Add(bus.RoleClient, bus.IDs{Name: "eve"}, time.Now(), Valid)))))
	token, seed, _ := strings.Cut(good, "-----BEGIN USER NKEY SEED-----")
	_, otherSeed, _ := strings.Cut(other, "-----BEGIN USER NKEY SEED-----")
	secret := strings.Split(seed, "\n")[1]
	bad := filepath.Join(t.TempDir(), "bad.creds")
	for name, c := range map[string]struct{ text, says string }{
		"empty":         {"", "no user JWT"},
		"a seed alone":  {secret, "no user JWT"},
		"no seed":       {token, "no user key"},
		"another's key": {token + "-----BEGIN USER NKEY SEED-----" + otherSeed, "not that of its JWT"},
		"half":          {good[:len(good)/3], ""},
		"a bit off":     {strings.Replace(good, secret[:10], "SUAAAAAAAA", 1), ""},
		"garbage":       {strings.Repeat("\x00\xff", 500), ""},
	} {
		if err := os.WriteFile(bad, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadFile(bad)
		if err == nil || !strings.Contains(err.Error(), bad) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), "souk auth") || strings.Contains(err.Error(), secret[8:]) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrNoCreds) {
		t.Errorf("none: %v", err)
	}
	i := may[*Identity](t)(ReadFile(path))
	for _, shown := range []string{fmt.Sprint(i), fmt.Sprintf("%+v", i), fmt.Sprintf("%#v", i)} {
		if strings.Contains(shown, secret) || strings.Contains(shown, i.JWT()) {
			t.Errorf("printed, it shows %s", shown)
		}
	}
	if err := i.Expired(i.Expires); !errors.Is(err, ErrExpired) {
		t.Errorf("at its end: %v", err)
	}
	for _, c := range []struct {
		role bus.Role
		name string
		want error
	}{{bus.RoleClient, "", nil}, {bus.RoleClient, "dev", nil}, {bus.RoleClient, "eve", ErrRole},
		{bus.RoleHub, "dev", ErrRole}} {
		if _, err := File(path).As(c.role, c.name)(); !errors.Is(err, c.want) {
			t.Errorf("as %s %s: %v, want %v", c.role, c.name, err, c.want)
		}
	}
}

// No file of creds, however wrong, does worse than an error, or makes an error that shows a seed.
func FuzzParse(f *testing.F) {
	s := store(f)
	path := may[string](f)(s.Add(bus.RoleClient, bus.IDs{Name: "dev"}, time.Now(), Valid))
	good := may[[]byte](f)(os.ReadFile(path))
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte("-----BEGIN NATS USER JWT-----\neyJ9\n------END NATS USER JWT------\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		i, err := parse(text)
		if (err == nil) == (i == nil) {
			t.Fatalf("got %v and %v", i, err)
		}
		if err != nil && len(err.Error()) > 100 {
			t.Errorf("it quotes what it read: %v", err)
		}
	})
}
