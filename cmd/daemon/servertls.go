package daemon

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"souk/bus/natsauth"
)

// ServerTLS is the TLS of who listens for clients with a certificate and its key, which may be renewed: they
// are read again at each connection, and the last that could be read stand for what cannot. nil: no files
// are named.
func ServerTLS(cert, key string) (*tls.Config, error) {
	if cert == "" {
		return nil, nil
	}
	c, err := natsauth.TLSOf(natsauth.Files{Cert: cert, Key: key})
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	c.MinVersion, c.GetClientCertificate = tls.VersionTLS12, nil
	read, last := c.GetCertificate, atomic.Pointer[tls.Certificate]{}
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := read(hello)
		if err != nil {
			if good := last.Load(); good != nil {
				return good, nil
			}
			return nil, err
		}
		last.Store(pair)
		return pair, nil
	}
	_, err = c.GetCertificate(nil)
	return c, err
}
