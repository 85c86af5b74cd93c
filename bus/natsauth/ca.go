package natsauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"souk/bus"
	"souk/bus/regular"
)

// A market's certificates, below its folder of keys. Names of certificates are ids, which have no dot, so
// that no file is taken for another's.
//
//	ca.pem, ca.key              who signs; with the key anybody can be made
//	server.pem, server.key      what NATS and etcd show
//	peer.pem, peer.key          what they show to others of their cluster, on other machines
//	certs/NAME.pem, NAME.key    what NAME shows to etcd
const (
	caFile     = "ca"
	serverFile = "server"
	peerFile   = "peer"
	certsDir   = "certs"
)

const (
	// CertLife is a certificate's validity; with less than CertRest left it is made anew, where the CA is.
	CertLife = 90 * 24 * time.Hour
	CertRest = CertLife / 3

	caLife = 10 * 365 * 24 * time.Hour
	// clocks of other machines may be late by so much
	backdated = time.Hour
)

// caName begins the names of CAs that this program made.
const caName = "souk CA "

// Root is the name of the certificate that may do anything in etcd, and of no role.
const Root = "root"

// servers is the name in the servers' certificate: no id, so that no other certificate has it.
const servers = "souk servers"

// Files names the PEM files of one end of a TLS connection. CA alone: it verifies the other side and shows no
// certificate; no CA: it trusts the system's.
type Files struct{ CA, Cert, Key string }

func pair(dir, name string) Files {
	return Files{CA: filepath.Join(dir, caFile+".pem"), Cert: filepath.Join(dir, name+".pem"),
		Key: filepath.Join(dir, name+".key")}
}

// Validate wants a certificate and its key, or neither.
func (f Files) Validate() error {
	if (f.Cert == "") != (f.Key == "") {
		return errors.New("cert: it goes with key: name both files, or neither")
	}
	return nil
}

// Named is the name that a market's certificate is for; "" where there is none, or another CA made it, whose
// names may be others than a market's.
func (f Files) Named() string {
	pair, err := readPair(f)
	if err != nil || !strings.HasPrefix(pair.Leaf.Issuer.CommonName, caName) {
		return ""
	}
	return pair.Leaf.Subject.CommonName
}

// Expires is when the certificate ends; zero where there is none that can be read.
func (f Files) Expires() time.Time {
	pair, err := readPair(f)
	if err != nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}

// ServerFiles names the files of the servers' certificate, made or not.
func ServerFiles(dir string) Files { return pair(dir, serverFile) }

// PeerFiles names the files of the certificate that servers of a cluster show one another, made or not.
func PeerFiles(dir string) Files { return pair(dir, peerFile) }

// ClientFiles names the files of a client's certificate, made or not.
func ClientFiles(dir, name string) Files { return pair(dir, filepath.Join(certsDir, name)) }

// Beside are the files that lie beside a file of creds where both were made: a client's are the CA alone;
// none where the creds were carried elsewhere.
func Beside(creds string) Files {
	dir, name := filepath.Split(creds)
	dir = filepath.Clean(dir)
	id, ok := strings.CutSuffix(name, ".creds")
	if !ok || filepath.Base(dir) != credsDir {
		return Files{}
	}
	f := ClientFiles(filepath.Dir(dir), id)
	switch {
	case absent(f.CA):
		return Files{}
	case absent(f.Cert):
		return Files{CA: f.CA}
	}
	return f
}

// locked keeps all processes but one from changing what is in a folder of keys.
func locked(dir string, change func() error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, lockFile)
	if err := regular.Check(path); err != nil {
		return err
	}
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := ownFile(lock); err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return change()
}

// ca needs the lock, where others may know the folder.
func ca(dir string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	files := pair(dir, caFile)
	made, err := readPair(files)
	switch {
	case err == nil:
		signer, ok := made.PrivateKey.(*ecdsa.PrivateKey)
		if !ok || !made.Leaf.IsCA {
			return nil, nil, fmt.Errorf("%s is not a CA that this program made: move it away", files.Cert)
		}
		return made.Leaf, signer, current(made.Leaf, files.Cert, now)
	case absent(files.Cert) && absent(files.Key):
	case absent(files.Key):
		return nil, nil, fmt.Errorf("%s is there and %s is not: certificates are made where both are: "+
			"restore it", files.Cert, files.Key)
	default:
		return nil, nil, err
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t := template(caName+rand.Text()[:8], now, caLife) // no two CAs have one name
	t.IsCA, t.MaxPathLenZero, t.KeyUsage = true, true, x509.KeyUsageCertSign
	cert, err := write(files, t, t, signer, signer)
	return cert, signer, err
}

func absent(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// ServerCert makes what NATS and etcd show: it is good for loopback and for these hosts, names or addresses;
// with hosts also what they show as peers. One that is good for all of them, and for CertRest, is left as it
// is. Where the CA's key is kept elsewhere, it is judged alone: an error says that another has to be brought.
func ServerCert(dir string, hosts []string, now time.Time) (Files, error) {
	return ServerFiles(dir), locked(dir, func() error {
		err := serverCert(ServerFiles(dir), dir, hosts, now, x509.ExtKeyUsageServerAuth)
		if err == nil && len(hosts) > 0 { // peers come to one another as clients, too
			err = serverCert(PeerFiles(dir), dir, hosts, now, x509.ExtKeyUsageServerAuth,
				x509.ExtKeyUsageClientAuth)
		}
		return err
	})
}

func serverCert(files Files, dir string, hosts []string, now time.Time, uses ...x509.ExtKeyUsage) error {
	t := template(servers, now, CertLife)
	t.ExtKeyUsage = uses
	for _, h := range append([]string{"localhost", "127.0.0.1", "::1"}, hosts...) {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else if hostname(h) {
			t.DNSNames = append(t.DNSNames, h)
		} else {
			return fmt.Errorf("%q is no host: write names or addresses, without a port", h)
		}
	}
	if c := pair(dir, caFile); absent(c.Key) && !absent(c.Cert) && !absent(files.Cert) {
		brought, err := readPair(files)
		if err == nil {
			err = current(brought.Leaf, files.Cert, now)
		}
		if err == nil && !serves(brought.Leaf, t) {
			has := brought.Leaf
			err = fmt.Errorf("%s is for %v and %v", files.Cert, has.DNSNames, has.IPAddresses)
		}
		if err != nil {
			return fmt.Errorf("%w: make another for %v and %v where the CA's key is (souk auth init --hosts), "+
				"and bring it with its key", err, t.DNSNames, t.IPAddresses)
		}
		return nil
	}
	root, signer, err := ca(dir, now)
	if err != nil {
		return err
	}
	if old, err := readPair(files); err == nil && lasts(old.Leaf, root, now) && serves(old.Leaf, t) {
		return nil
	}
	return issue(files, t, root, signer)
}

// lasts reports whether a CA has made a certificate, and it is good now and for CertRest.
func lasts(c, root *x509.Certificate, now time.Time) bool {
	return now.Add(CertRest).Before(c.NotAfter) && !now.Before(c.NotBefore) &&
		c.CheckSignatureFrom(root) == nil
}

// serves reports whether a certificate is good for all hosts of another.
func serves(c, wanted *x509.Certificate) bool {
	not := func(h string) bool { return c.VerifyHostname(h) != nil }
	return !slices.ContainsFunc(wanted.DNSNames, not) &&
		!slices.ContainsFunc(wanted.IPAddresses, func(ip net.IP) bool { return not(ip.String()) })
}

// hostname reports whether a server may have such a name.
func hostname(h string) bool {
	wrong := func(c rune) bool { return c != '.' && !bus.ValidID(string(c)) }
	return h != "" && len(h) <= 253 && !strings.ContainsFunc(h, wrong)
}

// ClientCert makes the certificate by which a name is known in etcd: its common name. Whatever the name had
// is made anew: who reads it at each connect needs no new start.
func ClientCert(dir, name string, now time.Time) (Files, error) {
	return ClientFiles(dir, name), locked(dir, func() error { return clientCert(dir, name, now) })
}

func clientCert(dir, name string, now time.Time) error {
	files := ClientFiles(dir, name)
	if err := bus.CheckID("name", name); err != nil {
		return err
	}
	root, signer, err := ca(dir, now)
	if err != nil {
		return err
	}
	if err := makeDir(filepath.Dir(files.Cert)); err != nil {
		return err
	}
	t := template(name, now, CertLife)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return issue(files, t, root, signer)
}

func template(name string, now time.Time, life time.Duration) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-backdated), NotAfter: now.Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	} // CreateCertificate finds a serial number
}

func issue(files Files, t, root *x509.Certificate, signer *ecdsa.PrivateKey) error {
	if t.NotAfter.After(root.NotAfter) {
		t.NotAfter = root.NotAfter
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err == nil {
		_, err = write(files, t, root, key, signer)
	}
	return err
}

// write makes a certificate and writes it and its key, each whole or not at all. Who reads between the two
// finds that they do not fit, and connects again.
func write(files Files, t, root *x509.Certificate, key, signer *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, t, root, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		path  string
		block pem.Block
	}{{files.Key, pem.Block{Type: "PRIVATE KEY", Bytes: secret}},
		{files.Cert, pem.Block{Type: "CERTIFICATE", Bytes: der}}} {
		if err := writeFile(f.path, pem.EncodeToMemory(&f.block)); err != nil {
			return nil, err
		}
	}
	return x509.ParseCertificate(der)
}

// maxPEM bounds a file of certificates or of a key: a system's whole bundle has a quarter of it.
const maxPEM = 1 << 20

// readPair reads a certificate and its key.
func readPair(files Files) (*tls.Certificate, error) {
	cert, err := regular.Read(files.Cert, maxPEM)
	if err != nil {
		return nil, err
	}
	key, err := readSecret(files.Key, maxPEM)
	if err != nil {
		return nil, err
	}
	c, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %w", files.Cert, files.Key, err)
	}
	return &c, nil
}

// current refuses a certificate out of its time.
func current(c *x509.Certificate, path string, now time.Time) error {
	switch day := time.RFC3339; {
	case now.After(c.NotAfter):
		return fmt.Errorf("%s has expired, %s: renew it (souk auth renew)", path,
			c.NotAfter.UTC().Format(day))
	case now.Before(c.NotBefore):
		return fmt.Errorf("%s is good from %s on, and this machine says that it is %s: set its clock", path,
			c.NotBefore.UTC().Format(day), now.UTC().Format(day))
	}
	return nil
}

// PeerTLS makes the TLS configuration of a server for the others of its cluster: both ends show a certificate
// of PeerFiles, and no other is taken.
func PeerTLS(files Files) (*tls.Config, error) {
	c, err := TLSOf(files)
	if err != nil {
		return nil, err
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if name := s.PeerCertificates[0].Subject.CommonName; name != servers {
			return fmt.Errorf("%.80q is no server of the cluster", name)
		}
		return nil
	}
	return c, nil
}

// PeerNames are the names in certificates of servers of one cluster.
func PeerNames() []string { return []string{servers} }

// Certifies reports whether the key is here that makes certificates.
func (s *Store) Certifies() bool { return !absent(pair(s.Dir, caFile).Key) }

// TLSOf makes the TLS configuration of one end of a connection: TLS 1.3, nothing older. It reads the files
// now, so that errors in them are reported at the start; certificate and key are read again at each connect,
// so that they can be renewed under a running process. A server decides whether it asks for one.
func TLSOf(files Files) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS13}
	if files.CA != "" {
		text, err := regular.Read(files.CA, maxPEM)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca: %s holds no certificate in PEM", files.CA)
		}
		c.ClientCAs = c.RootCAs
	}
	if err := files.Validate(); err != nil || files.Cert == "" {
		return c, err
	}
	read := func() (*tls.Certificate, error) {
		pair, err := readPair(files)
		if err == nil {
			err = current(pair.Leaf, files.Cert, time.Now())
		}
		if err != nil {
			return nil, fmt.Errorf("cert: %w", err)
		}
		return pair, nil
	}
	if _, err := read(); err != nil {
		return nil, err
	}
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return read() }
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	return c, nil
}
