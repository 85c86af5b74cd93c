package natsauth

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus"
)

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want is an error that says so.
func want(t *testing.T, what string, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: got %v, want %q", what, err, says)
	}
}

func config(t testing.TB, files Files) *tls.Config {
	t.Helper()
	c, err := TLSOf(files)
	ok(t, err)
	return c
}

// shake has two ends shake hands, and returns what the server knows of the client, and what each end says.
func shake(t *testing.T, server, client *tls.Config, host string) (tls.ConnectionState, error, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	defer l.Close()
	server = server.Clone()
	server.ClientAuth = tls.RequireAndVerifyClientCert
	client = client.Clone()
	client.ServerName = host
	type end struct {
		state tls.ConnectionState
		err   error
	}
	ended := make(chan end, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			ended <- end{err: err}
			return
		}
		s := tls.Server(c, server)
		defer s.Close()
		err = s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		ended <- end{s.ConnectionState(), err}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	ok(t, err)
	s := tls.Client(c, client)
	// in TLS 1.3 the server's word on our certificate comes with the first read
	if err = s.Handshake(); err == nil {
		_, err = s.Read(make([]byte, 1))
	}
	s.Close()
	e := <-ended
	return e.state, e.err, err
}

func TestCertificates(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	server, err := ServerCert(dir, []string{"infra", "192.0.2.7"}, now)
	ok(t, err)
	client, err := ClientCert(dir, "hub-math", now)
	ok(t, err)
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "infra", "192.0.2.7"} {
		s, said, heard := shake(t, config(t, server), config(t, client), host)
		if said != nil || heard != nil {
			t.Fatalf("%s: %v, %v", host, said, heard)
		}
		if s.Version != tls.VersionTLS13 || s.PeerCertificates[0].Subject.CommonName != "hub-math" {
			t.Errorf("%s: version %x, client %s", host, s.Version, s.PeerCertificates[0].Subject)
		}
	}
	_, _, err = shake(t, config(t, server), config(t, client), "elsewhere")
	want(t, "a name that is not in the certificate", err, "not elsewhere")

	for _, f := range []Files{pair(dir, caFile), server, client} {
		for _, path := range []string{f.Key, f.Cert} {
			info, err := os.Stat(path)
			ok(t, err)
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
		}
	}
}

// A client's certificate serves no server, and a server's no client.
func TestCertificatesAreForOneEnd(t *testing.T) {
	dir := t.TempDir()
	server, err := ServerCert(dir, nil, time.Now())
	ok(t, err)
	client, err := ClientCert(dir, "localhost", time.Now())
	ok(t, err)
	if _, said, _ := shake(t, config(t, server), config(t, server), "localhost"); said == nil {
		t.Error("the servers' certificate is taken for a client's")
	}
	if _, _, heard := shake(t, config(t, client), config(t, client), "localhost"); heard == nil {
		t.Error("a client's certificate is taken for a server's")
	}
}

// The servers' certificate is made anew when its hosts, its CA or its time ask for that, and only then.
func TestServerCertIsRenewed(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	read := func() string {
		b, err := os.ReadFile(ServerFiles(dir).Cert)
		ok(t, err)
		return string(b)
	}
	last := ""
	for _, step := range []struct {
		name  string
		after time.Duration
		hosts []string
		anew  bool
	}{
		{"the first", 0, []string{"a", "b"}, true},
		{"the same", time.Hour, []string{"a", "b"}, false},
		{"fewer hosts", time.Hour, []string{"a"}, false},
		{"another host", time.Hour, []string{"c"}, true},
		{"another address", time.Hour, []string{"c", "192.0.2.1"}, true},
		{"soon over", CertLife - CertRest + 2*time.Hour, []string{"c"}, true},
		{"a clock far too late", -time.Hour, []string{"c"}, true},
	} {
		_, err := ServerCert(dir, step.hosts, now.Add(step.after))
		ok(t, err)
		if got := read(); (got != last) != step.anew {
			t.Errorf("%s: anew is %v, want %v", step.name, got != last, step.anew)
		}
		last = read()
	}
	ok(t, os.Remove(pair(dir, caFile).Cert))
	ok(t, os.Remove(pair(dir, caFile).Key))
	if _, err := ServerCert(dir, []string{"c"}, now); err != nil || read() == last {
		t.Errorf("under another CA: %v", err)
	}
	for _, host := range []string{"", "a b", "a:1", "http://a", "a\x00", strings.Repeat("a", 254)} {
		_, err := ServerCert(dir, []string{host}, now)
		want(t, "host "+host, err, "is no host")
	}
}

// A process that runs shows what was renewed under it, and does not start on what cannot be shown.
func TestCertificatesAreReadAtEachConnect(t *testing.T) {
	dir := t.TempDir()
	ok(t, ensureCA(dir, time.Now().Add(-2*CertLife)))
	server, err := ServerCert(dir, nil, time.Now())
	ok(t, err)
	files, err := ClientCert(dir, "door-1", time.Now().Add(-CertLife+time.Minute))
	ok(t, err)
	s, c := config(t, server), config(t, files)
	first, said, heard := shake(t, s, c, "localhost")
	if said != nil || heard != nil {
		t.Fatal(said, heard)
	}
	_, err = ClientCert(dir, "door-1", time.Now())
	ok(t, err)
	second, said, heard := shake(t, s, c, "localhost")
	if said != nil || heard != nil {
		t.Fatal(said, heard)
	}
	if !second.PeerCertificates[0].NotAfter.After(first.PeerCertificates[0].NotAfter) {
		t.Error("the certificate was renewed, and the one before is shown")
	}
	_, err = ClientCert(dir, "door-1", time.Now().Add(-CertLife-time.Hour))
	ok(t, err)
	_, _, heard = shake(t, s, c, "localhost")
	want(t, "a certificate that expires under a running process", heard, "souk auth renew")
}

func TestWhatIsWrongWithAFile(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	ok(t, ensureCA(dir, now.Add(-2*CertLife)))
	good, err := ClientCert(dir, "a", now)
	ok(t, err)
	other, err := ClientCert(dir, "b", now)
	ok(t, err)
	late, err := ClientCert(dir, "late", now.Add(-CertLife-time.Minute))
	ok(t, err)
	early, err := ClientCert(dir, "early", now.Add(2*backdated))
	ok(t, err)
	open, err := ClientCert(dir, "open", now)
	ok(t, err)
	ok(t, os.Chmod(open.Key, 0o644))
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		ok(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	empty := write("empty", "")
	junk := write("junk", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	huge := write("huge", strings.Repeat(" ", maxPEM+1))
	with := func(f Files, change func(*Files)) Files { change(&f); return f }
	for _, c := range []struct {
		name  string
		files Files
		says  string
	}{
		{"expired", late, "has expired"},
		{"before its time", early, "set its clock"},
		{"a key for all", open, "chmod 600"},
		{"no key", with(good, func(f *Files) { f.Key = "" }), "it goes with key"},
		{"no certificate", with(good, func(f *Files) { f.Cert = "" }), "it goes with key"},
		{"a key that is not there", with(good, func(f *Files) { f.Key = dir + "/none" }), "no such file"},
		{"another's key", with(good, func(f *Files) { f.Key = other.Key }), "private key does not match"},
		{"an empty key", with(good, func(f *Files) { f.Key = empty }), "failed to find"},
		{"a CA of nothing", Files{CA: empty}, "no certificate in PEM"},
		{"a CA of junk", Files{CA: junk}, "no certificate in PEM"},
		{"a CA that is not there", Files{CA: dir + "/none"}, "no such file"},
		{"a CA that is a folder", Files{CA: dir}, "not a file"},
		{"a file without end", Files{CA: "/dev/zero"}, "not a file"},
		{"a huge file", Files{CA: huge}, "at most"},
		{"a certificate of junk", with(good, func(f *Files) { f.Cert = junk }), "malformed"},
	} {
		_, err := TLSOf(c.files)
		want(t, c.name, err, c.says)
	}
	for _, none := range []Files{{}, {CA: good.CA}} {
		if c := config(t, none); c.MinVersion != tls.VersionTLS13 || c.GetClientCertificate != nil {
			t.Errorf("%+v: %+v", none, c)
		}
	}
	for _, name := range []string{"", "a.b", "../a", strings.Repeat("a", 65)} {
		_, err := ClientCert(dir, name, now)
		want(t, "name "+name, err, "is not an id")
	}
}

// A certificate of another market's CA is worth nothing here.
func TestAnotherCA(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	server, err := ServerCert(ours, nil, time.Now())
	ok(t, err)
	mine, err := ClientCert(ours, "a", time.Now())
	ok(t, err)
	stranger, err := ClientCert(theirs, "a", time.Now())
	ok(t, err)
	believing := Files{CA: mine.CA, Cert: stranger.Cert, Key: stranger.Key}
	_, said, heard := shake(t, config(t, server), config(t, believing), "localhost")
	if said == nil || heard == nil {
		t.Errorf("a client of another CA: %v, %v", said, heard)
	}
	_, _, heard = shake(t, config(t, server), config(t, stranger), "localhost")
	want(t, "a server of another CA", heard, "unknown authority")
}

func TestTheCAIsMadeOnce(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	files := pair(dir, caFile)
	ok(t, ensureCA(dir, now))
	first, err := os.ReadFile(files.Cert)
	ok(t, err)
	b, _ := pem.Decode(first)
	c, err := x509.ParseCertificate(b.Bytes)
	ok(t, err)
	if !c.IsCA || !c.MaxPathLenZero || c.KeyUsage != x509.KeyUsageCertSign {
		t.Errorf("the CA may do %v, path %d", c.KeyUsage, c.MaxPathLen)
	}
	ok(t, ensureCA(dir, now.Add(time.Hour)))
	if again, err := os.ReadFile(files.Cert); err != nil || string(again) != string(first) {
		t.Errorf("the CA was made again: %v", err)
	}
	want(t, "a CA whose time is over", ensureCA(dir, now.Add(caLife+time.Hour)), "has expired")

	// the certificate of a client is no CA
	_, err = ClientCert(dir, "a", now)
	ok(t, err)
	a := ClientFiles(dir, "a")
	other := t.TempDir()
	for from, to := range map[string]string{a.Cert: "ca.pem", a.Key: "ca.key"} {
		text, err := os.ReadFile(from)
		ok(t, err)
		ok(t, os.WriteFile(filepath.Join(other, to), text, 0o600))
	}
	want(t, "a client's certificate as CA", ensureCA(other, now), "is not a CA")

	ok(t, os.Rename(files.Key, files.Key+".safe"))
	want(t, "a CA without its key", ensureCA(dir, now), "restore it")
	ok(t, os.Rename(files.Key+".safe", files.Key))
	ok(t, os.Remove(files.Cert))
	want(t, "a key without its CA", ensureCA(dir, now), "no such file")
}

// Whoever is in etcd has a certificate beside its creds, made and renewed with them, and nobody else has.
func TestUsersHaveCertificates(t *testing.T) {
	now := time.Now()
	s, err := Init(filepath.Join(t.TempDir(), "auth"))
	ok(t, err)
	for role, wants := range map[bus.Role]bool{bus.RoleGateway: true, bus.RoleOperator: true,
		bus.RoleTreasury: true, bus.RoleDoor: true, bus.RoleClient: false, bus.RoleViewer: false} {
		ids := bus.IDs{Name: string(role)}
		if _, err := s.Add(role, ids, now, Valid); err != nil {
			t.Fatal(err)
		}
		files := ClientFiles(s.Dir, ids.Name)
		if absent(files.Cert) == wants {
			t.Errorf("%s: a certificate is there: %v, want %v", role, !wants, wants)
			continue
		}
		if !wants {
			if got := Beside(s.CredsPath(ids.Name)); got != (Files{CA: files.CA}) {
				t.Errorf("%s: beside the creds are %+v", role, got)
			}
			continue
		}
		if got := Beside(s.CredsPath(ids.Name)); got != files {
			t.Errorf("%s: beside the creds are %+v, want %+v", role, got, files)
		}
		pair, err := readPair(files)
		ok(t, err)
		before := pair.Leaf
		if before.Subject.CommonName != ids.Name {
			t.Errorf("%s: it is of %s", role, before.Subject)
		}
		anew := func(what string, want bool) {
			t.Helper()
			c, err := readPair(files)
			ok(t, err)
			if c.Leaf.Equal(before) == want {
				t.Errorf("%s: %s: a new certificate: %v, want %v", role, what, !want, want)
			}
			before = c.Leaf
		}
		_, err = s.Ensure(role, ids, now)
		ok(t, err)
		anew("good for long", false)
		_, _, err = s.Renew(ids.Name, nil, now, Valid)
		ok(t, err)
		anew("renewed", true)
		_, err = s.Ensure(role, ids, now.Add(CertLife-CertRest+time.Hour))
		ok(t, err)
		anew("soon over", true)
		ok(t, os.Remove(files.Key))
		_, err = s.Ensure(role, ids, now)
		ok(t, err)
		anew("without its key", true)
	}
	for _, elsewhere := range []string{"", "a.creds", "/run/credentials/a.creds", s.CredsPath("a") + ".old",
		"/creds/a.creds"} {
		if got := Beside(elsewhere); got != (Files{}) {
			t.Errorf("beside %s are %+v", elsewhere, got)
		}
	}
	_, err = s.Add(bus.RoleGateway, bus.IDs{Name: Root}, now, Valid)
	want(t, "the name that may do anything", err, "choose another")
}

// ensureCA makes the market's CA where there is none.
func ensureCA(dir string, now time.Time) error {
	return locked(dir, func() error {
		_, _, err := ca(dir, now)
		return err
	})
}
