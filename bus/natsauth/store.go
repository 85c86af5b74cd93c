package natsauth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"souk/bus"
	"souk/bus/regular"
)

// Store is a directory of keys, for its owner's eyes alone:
//
//	operator.jwt account.jwt system.jwt    what servers are told
//	operator.seed                          signs the account's JWT: to revoke
//	signing.seed                           signs users' JWTs: to add and renew
//	system.seed                            speaks for the servers' own account: to push
//	account.seed                           the account's own; nothing needs it but a new signing key
//	names.json                             every name, the role that it belongs to for ever, its keys
//	creds/NAME.creds                       what a process shows a NATS server
//	ca.pem, certs/ ...                     certificates: see ca.go
//	policy, notes/NAME.key                 who signs and cosigns journals: see note.go
//
// operator.seed and account.seed may be kept elsewhere.
type Store struct {
	Dir     string
	account string // public keys
	system  string

	mu sync.Mutex // of this process; the lock file is between processes
}

// Valid is the default validity of creds.
const Valid = 90 * 24 * time.Hour

// Warn is how long before the end of creds or a certificate whoever looks after them is told.
const Warn = 14 * 24 * time.Hour

// ErrNoStore marks a directory without keys.
var ErrNoStore = errors.New("there are no keys")

// ErrDamaged marks a directory of keys that do not belong together, or cannot be read.
var ErrDamaged = errors.New("the keys are damaged")

// Dir returns the directory of a market's keys, in its data directory.
func Dir(data string) string { return filepath.Join(data, "auth") }

const (
	operatorJWT, accountJWT, systemJWT = "operator.jwt", "account.jwt", "system.jwt"
	operatorSeed, accountSeed          = "operator.seed", "account.seed"
	signingSeed, systemSeed            = "signing.seed", "system.seed"
	namesFile, lockFile, credsDir      = "names.json", "lock", "creds"
	servedFile                         = "served"
)

// Init opens the keys of a directory, and makes them where there are none. They are made beside it and moved
// there whole: of several that begin at once all go on with the same.
func Init(dir string) (*Store, error) {
	if _, err := os.Lstat(dir); err == nil {
		return Open(dir)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), ".auth-")
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	defer os.RemoveAll(made)
	if err := errors.Join(ownDir(made), fill(made)); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if err := os.Rename(made, dir); err != nil {
		if _, there := os.Lstat(dir); there != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
	}
	return Open(dir) // ours, or those of who was first
}

// fill makes all keys of a market.
func fill(dir string) error {
	operator, err := nkeys.CreateOperator()
	if err != nil {
		return err
	}
	var account, signing, system nkeys.KeyPair
	for _, k := range []*nkeys.KeyPair{&account, &signing, &system} {
		if *k, err = nkeys.CreateAccount(); err != nil {
			return err
		}
	}
	o := jwt.NewOperatorClaims(public(operator))
	o.Name, o.SystemAccount = "souk", public(system)
	a := jwt.NewAccountClaims(public(account))
	a.Name = "market"
	a.SigningKeys.Add(public(signing))
	s := jwt.NewAccountClaims(public(system))
	s.Name = "system"
	for _, c := range []struct {
		file   string
		claims jwt.Claims
	}{{operatorJWT, o}, {accountJWT, a}, {systemJWT, s}} {
		token, err := c.claims.Encode(operator)
		if err == nil {
			err = writeFile(filepath.Join(dir, c.file), []byte(token+"\n"))
		}
		if err != nil {
			return err
		}
	}
	for _, k := range []struct {
		file string
		key  nkeys.KeyPair
	}{{operatorSeed, operator}, {accountSeed, account}, {signingSeed, signing}, {systemSeed, system}} {
		seed, err := k.key.Seed()
		if err == nil {
			err = writeFile(filepath.Join(dir, k.file), append(seed, '\n'))
		}
		if err != nil {
			return err
		}
	}
	if err := makeDir(filepath.Join(dir, credsDir)); err != nil {
		return err
	}
	if _, _, err := ca(dir, time.Now()); err != nil {
		return err
	}
	return writeNames(dir, names{Names: map[string]*name{}})
}

// public is a key's public half. It fails for none that was just made or read.
func public(k nkeys.KeyPair) string {
	p, err := k.PublicKey()
	if err != nil {
		panic("natsauth: " + err.Error())
	}
	return p
}

// Open opens the keys of a directory: ErrNoStore if there is none.
func Open(dir string) (*Store, error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: `souk up`, `souk infra` and `souk auth init` make them", dir,
			ErrNoStore)
	} else if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("keys: %w: they are open to their market's user alone: be that user", err)
	} else if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	s := &Store{Dir: dir}
	if err := s.open(); err != nil {
		if errors.Is(err, ErrOpen) || errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("keys: %w", err)
		}
		return nil,
			fmt.Errorf("%s: %w: %w: restore the directory from a copy, or move it away and let new keys "+
				"be made, which voids all creds", dir, ErrDamaged, err)
	}
	return s, nil
}

// open sees that what is there belongs together.
func (s *Store) open() error {
	info, err := os.Stat(s.Dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is a %s, and not a directory", s.Dir, regular.Kind(info.Mode()))
	}
	if info.Mode().Perm()&0o007 != 0 {
		return fmt.Errorf("%s: %w (mode %v): chmod 700 it", s.Dir, ErrOpen, info.Mode().Perm())
	}
	o, err := s.operator()
	if err != nil {
		return err
	}
	a, err := s.claims(accountJWT)
	if err != nil {
		return err
	}
	sys, err := s.claims(systemJWT)
	if err != nil {
		return err
	}
	s.account, s.system = a.Subject, sys.Subject
	if a.Issuer != o.Subject || sys.Issuer != o.Subject || o.SystemAccount != sys.Subject {
		return fmt.Errorf("%s, %s and %s are not of one operator", operatorJWT, accountJWT, systemJWT)
	}
	for _, k := range []struct {
		file   string
		wanted func(public string) bool
	}{
		{operatorSeed, func(p string) bool { return p == o.Subject }},
		{accountSeed, func(p string) bool { return p == a.Subject }},
		{systemSeed, func(p string) bool { return p == sys.Subject }},
		{signingSeed, func(p string) bool { return a.SigningKeys.Contains(p) }},
	} {
		key, err := s.key(k.file)
		if errors.Is(err, os.ErrNotExist) {
			continue // kept elsewhere
		}
		if err != nil {
			return err
		}
		if !k.wanted(public(key)) {
			return fmt.Errorf("%s is not the key of its JWT", k.file)
		}
	}
	_, err = readNames(s.Dir)
	return err
}

// key reads one of the seeds.
func (s *Store) key(file string) (nkeys.KeyPair, error) {
	seed, err := readSecret(filepath.Join(s.Dir, file), 1<<10)
	if err != nil {
		return nil, err
	}
	k, err := nkeys.FromSeed(bytes.TrimSpace(seed))
	if err != nil {
		return nil, fmt.Errorf("%s holds no seed", file) // what it holds is not shown
	}
	return k, nil
}

// maxAccount bounds an account's JWT, which has all revocations in it.
const maxAccount = 16 << 20

func (s *Store) token(file string) (string, error) {
	text, err := readSecret(filepath.Join(s.Dir, file), maxAccount)
	return strings.TrimSpace(string(text)), err
}

func (s *Store) operator() (*jwt.OperatorClaims, error) {
	return claimsIn(s, operatorJWT, jwt.DecodeOperatorClaims)
}

func (s *Store) claims(file string) (*jwt.AccountClaims, error) {
	return claimsIn(s, file, jwt.DecodeAccountClaims)
}

func claimsIn[C any](s *Store, file string, decode func(token string) (C, error)) (c C, err error) {
	token, err := s.token(file)
	if err != nil {
		return c, err
	}
	if c, err = decode(token); err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return c, err
}

// names is names.json.
type names struct {
	Names map[string]*name `json:"names"`
}

// name records the role, domain and agents to which a name belongs for ever, and the keys that it has had.
type name struct {
	Role   bus.Role  `json:"role"`
	Domain string    `json:"domain,omitempty"`
	Agents []string  `json:"agents,omitempty"`
	Of     string    `json:"of,omitempty"` // of an agent's id: the agentd that speaks for it
	Keys   []userKey `json:"keys,omitempty"`
	// of a treasury or hub, those in use last
	Notes []noteKeys `json:"notes,omitempty"`
}

// userKey is the public half of one key of a name.
type userKey struct {
	Public  string `json:"public"`
	Issued  int64  `json:"issued"`            // seconds since 1970
	Expires int64  `json:"expires"`           // as in the JWT
	Revoked int64  `json:"revoked,omitempty"` // when it was; 0: it is good
}

const maxNames = 64 << 20

func readNames(dir string) (n names, err error) {
	text, err := readSecret(filepath.Join(dir, namesFile), maxNames)
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(text, &n); err != nil {
		return n, fmt.Errorf("%s: %w", namesFile, err)
	}
	if n.Names == nil {
		return n, fmt.Errorf("%s: it has no names", namesFile)
	}
	for id, e := range n.Names {
		if e == nil || !e.Role.Valid() || !bus.ValidID(id) {
			return n, fmt.Errorf("%s: name %.80q is not whole", namesFile, id)
		}
	}
	return n, nil
}

func writeNames(dir string, n names) error {
	text, err := json.MarshalIndent(n, "", " ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, namesFile), append(text, '\n'))
}

// writeFile writes a file for the eyes of its folder's owner alone, whole or not at all, and durably.
func writeFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // mode 0600, and nobody else's
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already where all went well
	err = ownFile(f)
	if err == nil {
		_, err = f.Write(text)
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// CredsPath returns the file of a name's creds.
func (s *Store) CredsPath(name string) string { return filepath.Join(s.Dir, credsDir, name+".creds") }

// Signs reports whether the key that makes users is here.
func (s *Store) Signs() bool {
	_, err := os.Stat(filepath.Join(s.Dir, signingSeed))
	return err == nil
}

// ServesAt notes where a server that reads this directory listens, for who tells it of revocations.
func (s *Store) ServesAt(url string) error {
	return writeFile(filepath.Join(s.Dir, servedFile), []byte(url+"\n"))
}

// ServedAt returns the last URL that was served.
func (s *Store) ServedAt() (url string, err error) { return s.token(servedFile) }

// Server holds what a NATS server must know: whom to trust, and the accounts.
type Server struct {
	Operator *jwt.OperatorClaims
	System   string            // the servers' own account
	Market   string            // that of everybody else
	Accounts map[string]string // JWTs, by public key
}

// Server returns the keys and accounts for a server in this process.
func (s *Store) Server() (*Server, error) {
	o, err := s.operator()
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	out := &Server{Operator: o, System: s.system, Market: s.account, Accounts: map[string]string{}}
	for file, account := range map[string]string{accountJWT: s.account, systemJWT: s.system} {
		if out.Accounts[account], err = s.token(file); err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
	}
	return out, nil
}

// MaxControlLine is the line length that a server must accept: a user's permissions travel in its first line.
const MaxControlLine = 512 << 10

// ServerConfig returns the configuration of a NATS server that is not run by this program, without its
// addresses and TLS. jwts is the directory in which the server keeps the accounts pushed to it.
func (s *Store) ServerConfig(jwts string) (string, error) {
	server, err := s.Server()
	if err != nil {
		return "", err
	}
	operator, err := s.token(operatorJWT)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "operator: %s\nsystem_account: %s\nmax_control_line: %d\nmax_payload: %d\n"+
		"authorization: { timeout: 10 }\n"+
		"# what a connection does not read, and how soon one that is gone makes room; the sum of a name's\n"+
		"# connections is bounded by servers of souk alone\n"+
		"max_pending: %d\nno_fast_producer_stall: true\nwrite_deadline: \"10s\"\n"+
		"max_connections: 4096\nmax_sub_tokens: 16\nping_interval: \"20s\"\nping_max: 3\n"+
		"resolver: { type: full, dir: %q, allow_delete: false }\nresolver_preload: {\n", operator,
		server.System,
		MaxControlLine, bus.MaxMessage, bus.MaxPending, jwts)
	for _, account := range slices.Sorted(maps.Keys(server.Accounts)) {
		fmt.Fprintf(&b, "  %s: %s\n", account, server.Accounts[account])
	}
	b.WriteString("}\n")
	return b.String(), nil
}
