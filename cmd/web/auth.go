package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"souk/bus"
	"souk/bus/bounded"
	"souk/bus/natsauth"
	"souk/cmd/local"
)

// Role says what somebody may see.
type Role string

// The roles. A viewer sees the market; an operator also clients, their keys and money, and what the record
// says of a round.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
)

// Roles has all, the one that may most first.
var Roles = []Role{Operator, Viewer}

// TokenFile returns the path of a role's token below a data directory.
func TokenFile(data string, role Role) string { return filepath.Join(data, "console", string(role)) }

// Token returns the token of a role, and makes it where there is none, or anew: then those who came with the
// last one are nobody at once. A file that others can read is refused, since they may have taken it.
func Token(data string, role Role, anew bool) (string, error) {
	path := TokenFile(data, role)
	info, err := os.Stat(path)
	switch {
	case anew || errors.Is(err, fs.ErrNotExist):
		token := rand.Text()
		return token, local.WriteKey(path, token)
	case err != nil:
		return "", err
	case info.Mode().Perm()&0o007 != 0:
		return "", fmt.Errorf("token %s: %w (mode %v): make another by `souk console token %s --new`", path,
			natsauth.ErrOpen, info.Mode().Perm(), role)
	}
	token, err := local.ReadKey(path)
	if err == nil && len(token) < leastToken {
		err = fmt.Errorf("token %s has %d characters: make another by `souk console token %s --new`", path,
			len(token), role)
	}
	return token, err
}

const (
	leastToken     = 16 // characters
	mostSessions   = 256
	sessionFor     = 12 * time.Hour
	wrongASecond   = 5    // tokens from one address, before it is put off
	mostAddresses  = 4096 // that are remembered for wrong tokens
	sessionsCookie = "souk_console_"
)

type digest = [sha256.Size]byte

// session is somebody who came with a token.
type session struct {
	role  Role
	token digest // with which it began
	ends  time.Time
}

// door lets in who has a token.
type door struct {
	data   string
	secure bool   // cookies go over TLS alone
	cookie string // its name: browsers do not tell ports apart

	mu       sync.Mutex
	sessions *bounded.Cache[Role, digest, session] // by the hash of the cookie
	wrong    *bounded.Cache[string, string, bus.Bucket]
}

func newDoor(data, port string, secure bool) *door {
	return &door{data: data, secure: secure, cookie: sessionsCookie + port,
		sessions: bounded.New[Role, digest, session](mostSessions, 0),
		wrong:    bounded.New[string, string, bus.Bucket](mostAddresses, 0)}
}

// role returns who a request is of; "": of nobody. A session ends with its time, and with its token.
func (d *door) role(r *http.Request) Role {
	c, err := r.Cookie(d.cookie)
	if err != nil {
		return ""
	}
	key := sha256.Sum256([]byte(c.Value))
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sessions.Get(key)
	if s == nil {
		return ""
	}
	token, err := Token(d.data, s.role, false)
	if err != nil || sha256.Sum256([]byte(token)) != s.token || time.Now().After(s.ends) {
		d.sessions.Drop(key)
		return ""
	}
	return s.role
}

// enter begins a session for who shows a token, and says whether it is one. wait is for how long its address
// is put off, and err why a token could not be read.
func (d *door) enter(w http.ResponseWriter, r *http.Request, shown string) (ok bool, wait time.Duration,
	err error) {
	given := sha256.Sum256([]byte(shown))
	var is Role
	for _, role := range Roles {
		token, wrong := Token(d.data, role, false)
		if wrong != nil {
			err = wrong
			continue
		}
		if has := sha256.Sum256([]byte(token)); subtle.ConstantTimeCompare(given[:], has[:]) == 1 {
			is = role
		}
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if is == "" {
		address, _, _ := net.SplitHostPort(r.RemoteAddr)
		b, _ := d.wrong.Add(address, address)
		if wait, ok := b.Take(now, bus.Rate{Each: wrongASecond, Burst: wrongASecond}, 1, 0); !ok {
			return false, max(wait, time.Second), nil
		}
		return false, 0, err
	}
	value := rand.Text()
	key := sha256.Sum256([]byte(value))
	s, _ := d.sessions.Add(is, key)
	*s = session{role: is, token: given, ends: now.Add(sessionFor)}
	http.SetCookie(w, &http.Cookie{Name: d.cookie, Value: value, Path: "/", HttpOnly: true, Secure: d.secure,
		SameSite: http.SameSiteStrictMode})
	return true, 0, nil
}

// leave ends a session.
func (d *door) leave(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(d.cookie); err == nil {
		d.mu.Lock()
		d.sessions.Drop(sha256.Sum256([]byte(c.Value)))
		d.mu.Unlock()
	}
	http.SetCookie(w, &http.Cookie{Name: d.cookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: d.secure,
		SameSite: http.SameSiteStrictMode})
}
