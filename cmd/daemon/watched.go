package daemon

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"souk/bus/regular"
)

// Health says where a daemon can be asked how it is, and by whom.
type Health struct {
	// host:port of /livez, /readyz, /stats and /metrics; beyond loopback with TLS or TokenFile; empty:
	// nowhere
	Listen string `yaml:"listen"`
	// files in PEM, read again as they are renewed; none: it speaks without TLS
	TLS struct {
		Cert string `yaml:"cert"`
		Key  string `yaml:"key"`
	} `yaml:"tls"`
	// file of the secret that who asks for more than /livez and whether it is ready must send; empty: none
	TokenFile string `yaml:"token_file"`
}

// Validate judges the section.
func (c Health) Validate() error {
	var errs []error
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		errs = append(errs, errors.New("health.tls: give the files of both, cert and key"))
	}
	if c.Listen == "" {
		return errors.Join(errs...)
	}
	switch err := CheckLoopback(c.Listen); {
	case err == nil:
	case !errors.Is(err, ErrRemote):
		errs = append(errs, fmt.Errorf("health.listen: %w", err))
	case c.TLS.Cert == "" && c.TokenFile == "":
		errs = append(errs, fmt.Errorf("health.listen: %w, and metrics are not for everybody: give health.tls, or "+
			"health.token_file, a file with a secret that Prometheus sends (authorization: {credentials_file})",
			err))
	}
	return errors.Join(errs...)
}

// leastToken is the least number of characters of a token.
const leastToken = 16

// token reads the secret; nil where none is wanted.
func (c Health) token() ([]byte, error) {
	if c.TokenFile == "" {
		return nil, nil
	}
	text, err := regular.Read(c.TokenFile, 4<<10)
	if err != nil {
		return nil, fmt.Errorf("token_file: %w", err)
	}
	if text = bytes.TrimSpace(text); len(text) < leastToken {
		return nil, fmt.Errorf("token_file: %s has %d characters: write a random secret of at least %d, as "+
			"openssl rand -hex 32 makes one", c.TokenFile, len(text), leastToken)
	}
	return text, nil
}

// shows reports whether a request comes with the token, if one is wanted. The file is read each time, so that
// another one is taken at once.
func (c Health) shows(r *http.Request) bool {
	token, err := c.token()
	sent, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return err == nil && (c.TokenFile == "" || subtle.ConstantTimeCompare([]byte(sent), token) == 1)
}

// guard asks for the token, if one is wanted.
func (c Health) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.shows(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send the token of health.token_file, as Authorization: Bearer SECRET",
				http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Watched has a process be asked how it is, and measured, as long as it runs. name is the part of the market
// that it is; listen is [net.Listen], or does so elsewhere where an address is taken.
func Watched(name string, c Health, listen func(network, address string) (net.Listener, error),
	log *slog.Logger) (*Process, error) {
	sayTroubles(log)
	h := newHealth(name, Version())
	var err error
	if h.figures, err = newFigures(name, c.Listen != "", log); err != nil {
		return nil, err
	}
	h.observe()
	if err := h.listen(c, listen); err != nil {
		h.figures.close()
		return nil, err
	}
	return &Process{Log: log, health: h}, nil
}

// Address is the URL of /metrics and what is beside it; "" where nothing listens.
func (p *Process) Address() string {
	switch h := p.health; {
	case h.listener == nil:
		return ""
	case h.secure:
		return "https://" + h.address()
	default:
		return "http://" + h.address()
	}
}

// Close ends what watches the process.
func (p *Process) Close() error {
	p.health.close()
	p.health.figures.close()
	return nil
}
