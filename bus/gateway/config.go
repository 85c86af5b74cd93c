package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"time"

	"souk/bus"
)

// Config says what a gateway takes and how long it waits.
type Config struct {
	ID string `yaml:"id"` // its name in the market: answers come to it

	// origins of web pages that may ask, as https://chat.example.org; "*": any; none by default, so that
	// no page spends money unasked
	CORS  []string `yaml:"cors"`
	Pprof string   `yaml:"pprof"` // address on loopback with profiles, for go tool pprof; "": none

	// files in PEM, read again as they are renewed; none: it speaks without TLS, on loopback or to Proxies
	TLS struct {
		Cert string `yaml:"cert"`
		Key  string `yaml:"key"`
	} `yaml:"tls"`
	// addresses and networks whose X-Forwarded-For counts, and to which it speaks without TLS beyond loopback
	Proxies     []string `yaml:"proxies"`
	ProxyHeader bool     `yaml:"proxy_header"` // their connections begin with the PROXY protocol's, 1 or 2

	HeaderWithin time.Duration `yaml:"header_within"` // for all of a request's header
	MaxHeader    int           `yaml:"max_header"`    // bytes of it
	BodyWithin   time.Duration `yaml:"body_within"`   // for all of its body
	// bytes of it, pictures and sound included, at most 32 MB; 0: what the longest context has room for
	MaxBody int `yaml:"max_body"`

	// for the market's word on a stream; then it begins, and a refusal is an event
	VerdictWithin time.Duration `yaml:"verdict_within"`
	CommentEvery  time.Duration `yaml:"comment_every"` // while a stream says nothing
	MaxUnread     int           `yaml:"max_unread"`    // bytes of a stream that its client has not taken
	WriteWithin   time.Duration `yaml:"write_within"`  // for a client to take anything at all

	MaxConns   int `yaml:"max_conns"`
	MaxOpen    int `yaml:"max_open"`         // answers at once
	MaxOpenKey int `yaml:"max_open_per_key"` // of them, of one key that says nothing else
	WrongKeys  int `yaml:"wrong_keys"`       // a second from one address, before it is put off

	ResumeWithin time.Duration `yaml:"resume_within"` // for a client that has left to come back to its stream
	KeepFor      time.Duration `yaml:"keep_for"`      // an answer that has ended, for whoever asks again
	MaxKept      int           `yaml:"max_kept"`      // bytes of those that have ended

	KeepItems   time.Duration `yaml:"keep_items"`        // parts of answers to /v1/responses, by their ids
	MaxItems    int           `yaml:"max_items"`         // bytes of them
	MaxItemsKey int           `yaml:"max_items_per_key"` // and of those of one key

	Requests bus.RequestLog `yaml:"requests"` // which get a line in the log

	HashTags bool `yaml:"hash_tags"` // of user and metadata journals keep hashes, see bus.Tags

	// bytes that all requests and answers may take, with what is kept; a new request beyond that is refused
	MaxMemory int `yaml:"max_memory"`

	Drain time.Duration `yaml:"drain"` // for open answers when the gateway ends
}

// Default returns the limits of a gateway on a small machine.
func Default() Config {
	return Config{
		HeaderWithin:  5 * time.Second,
		MaxHeader:     32 << 10,
		BodyWithin:    30 * time.Second,
		VerdictWithin: 15 * time.Second, // proxies give a request a minute, impatient ones thirty seconds
		CommentEvery:  10 * time.Second,
		MaxUnread:     256 << 10, // a thousand tokens, an event each
		WriteWithin:   30 * time.Second,
		MaxConns:      8192,
		MaxOpen:       4096,
		MaxOpenKey:    2048, // a batch of one client; a key's own limit goes before it
		WrongKeys:     20,
		ResumeWithin:  15 * time.Second,
		KeepFor:       30 * time.Second,
		MaxKept:       64 << 20,
		KeepItems:     time.Hour,
		MaxItems:      64 << 20,
		MaxItemsKey:   8 << 20,
		Requests:      bus.DefaultRequestLog(),
		MaxMemory:     512 << 20,
		Drain:         20 * time.Second,
	}
}

// BeyondLoopback reports whether a gateway may listen where other machines reach it: no key is to cross the
// network in clear but between it and its proxies.
func (c Config) BeyondLoopback() bool { return c.TLS.Cert != "" || len(c.Proxies) > 0 }

// Validate judges c.
func (c Config) Validate() error {
	_, err := readNetworks(c.Proxies)
	errs := []error{bus.CheckID("id", c.ID), checkOrigins(c.CORS), err, c.Requests.Validate()}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		errs = append(errs, errors.New("tls: give the files of both, cert and key"))
	}
	if c.ProxyHeader && len(c.Proxies) == 0 {
		errs = append(errs, errors.New("proxy_header: say by proxies whose header counts"))
	}
	if host, port, err := net.SplitHostPort(c.Pprof); c.Pprof != "" &&
		(err != nil || port == "" || !bus.IsLoopback(host)) {
		errs = append(errs, fmt.Errorf("pprof: %.100q is no address on loopback: write 127.0.0.1:6060", c.Pprof))
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"header_within", c.HeaderWithin}, {"body_within", c.BodyWithin}, {"verdict_within", c.VerdictWithin},
		{"comment_every", c.CommentEvery}, {"write_within", c.WriteWithin}, {"resume_within", c.ResumeWithin},
		{"keep_for", c.KeepFor}, {"keep_items", c.KeepItems}, {"drain", c.Drain}} {
		errs = append(errs, bus.CheckBounds(f.name, f.d, time.Nanosecond, time.Hour))
	}
	for _, f := range []struct {
		name           string
		n, least, most int
	}{{"max_header", c.MaxHeader, 4 << 10, 1 << 20},
		{"max_body", cmp.Or(c.MaxBody, bus.MaxLarge), 4 << 10, bus.MaxLarge},
		{"max_unread", c.MaxUnread, 4 << 10, 64 << 20},
		{"max_conns", c.MaxConns, 1, 1 << 20}, {"max_open", c.MaxOpen, 1, 1 << 20},
		{"max_open_per_key", c.MaxOpenKey, 1, 1 << 20}, {"wrong_keys", c.WrongKeys, 1, 1 << 20},
		{"max_kept", c.MaxKept, 0, 16 << 30}, {"max_items", c.MaxItems, 0, 16 << 30},
		{"max_items_per_key", c.MaxItemsKey, 0, 16 << 30}, {"max_memory", c.MaxMemory, 8 << 20, 1 << 40}} {
		errs = append(errs, bus.CheckBounds(f.name, f.n, f.least, f.most))
	}
	if c.MaxMemory/2 < c.MaxConns*connCost+c.MaxKept+c.MaxItems {
		errs = append(errs, fmt.Errorf("max_memory: %d is less than twice what max_conns (%d bytes each), "+
			"max_kept and max_items take: raise it, or lower one of them", c.MaxMemory, connCost))
	}
	return errors.Join(errs...)
}
