package daemon

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/natsauth"
)

// --check-config reads the files of keys that a configuration names. Whatever the start would refuse in them
// it refuses in the same words; what is not there, or not for this user to see, it only says, since systemd
// and containers give it to the process alone.
func TestCheckConfigReadsTheFilesOfKeys(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	keys, err := natsauth.Init(natsauth.Dir(dir))
	ok(err)
	add := func(role bus.Role, ids bus.IDs, valid time.Duration) string {
		t.Helper()
		path, err := keys.Add(role, ids, now.Add(-time.Minute), valid)
		ok(err)
		return path
	}
	good := add(bus.RoleHub, bus.IDs{Name: "math", Domain: "math"}, natsauth.Valid)
	client := add(bus.RoleClient, bus.IDs{Name: "ann"}, natsauth.Valid)
	late := add(bus.RoleHub, bus.IDs{Name: "late", Domain: "late"}, time.Second)
	open := add(bus.RoleHub, bus.IDs{Name: "open", Domain: "open"}, natsauth.Valid)
	ok(os.Chmod(open, 0o644))
	text := filepath.Join(dir, "text")
	ok(os.WriteFile(text, []byte("S3CRET in a file that is none of ours\n"), 0o600))
	none := filepath.Join(dir, "none")
	files := natsauth.ClientFiles(keys.Dir, "math")
	old := t.TempDir()
	_, made := natsauth.ServerCert(old, nil, now.Add(-2*natsauth.CertLife))
	ok(made)
	lateCert, err := natsauth.ClientCert(old, "late", now.Add(-natsauth.CertLife-time.Hour))
	ok(err)
	for _, c := range []struct {
		name, market string
		code         int
		says         string // on stderr; "" nothing
	}{
		{"all is well", "creds: " + good, ExitOK, ""},
		{"none are named", "creds: ''", ExitOK, ""},
		{"no creds there", "creds: " + none, ExitOK, "market.creds: creds " + none + ": there are no creds"},
		{"another role's", "creds: " + client, ExitUsage, "these are of client ann"},
		{"expired", "creds: " + late, ExitUsage, "the creds have expired"},
		{"for everybody", "creds: " + open, ExitUsage, "chmod 600"},
		{"no creds at all", "creds: " + text, ExitUsage, "it has no user JWT"},
		{"no CA there", "ca: " + none, ExitOK, "market.ca: open " + none},
		{"a CA that is none", "ca: " + text, ExitUsage, "holds no certificate"},
		{"no key there", "ca: " + files.CA + ", cert: " + files.Cert + ", key: " + none, ExitOK,
			"market.cert: open " + none},
		{"a key of another", "ca: " + files.CA + ", cert: " + files.Cert + ", key: " + lateCert.Key,
			ExitUsage, "private key does not match"},
		{"a certificate that has expired", "ca: " + files.CA + ", cert: " + lateCert.Cert + ", key: " +
			lateCert.Key, ExitUsage, "late.pem has expired"},
		{"creds and CA", "creds: " + client + ", ca: " + text, ExitUsage, "market.ca: " + text},
	} {
		role := fairRole(nil)
		role.As = bus.RoleHub
		var out, errs bustest.Buffer
		code := Run(t.Context(), Command(role), []string{"--config",
			write(t, fairFile+"market: {"+c.market+"}\n"), "--check-config"}, &out, &errs)
		said := errs.String()
		if code != c.code || !strings.Contains(said, c.says) || (c.says == "") != (said == "") {
			t.Errorf("%s: exit code %d, want %d and %q: %s", c.name, code, c.code, c.says, &errs)
		}
		if !strings.Contains(out.String(), "market:") {
			t.Errorf("%s: the configuration is not shown", c.name)
		}
		if strings.Contains(errs.String(), "S3CRET") {
			t.Errorf("%s: what is in a file is shown", c.name)
		}
	}
}

// Nor are creds of the same role good that are of another, or beside the certificate of another.
func TestCheckConfigJudgesWhoseTheFilesAre(t *testing.T) {
	dir := t.TempDir()
	keys, err := natsauth.Init(natsauth.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"math", "code"} {
		ids := bus.IDs{Name: name, Domain: name}
		if _, err := keys.Add(bus.RoleHub, ids, time.Now(), natsauth.Valid); err != nil {
			t.Fatal(err)
		}
	}
	math, code := natsauth.ClientFiles(keys.Dir, "math"), natsauth.ClientFiles(keys.Dir, "code")
	pair := func(f natsauth.Files) string {
		return ", ca: " + f.CA + ", cert: " + f.Cert + ", key: " + f.Key
	}
	for _, c := range []struct {
		market string
		code   int
		says   string
	}{
		{"creds: " + keys.CredsPath("math") + pair(math), ExitOK, ""},
		{"creds: " + keys.CredsPath("code") + pair(code), ExitUsage,
			"these are of hub code: take those of math"},
		{"creds: " + keys.CredsPath("math") + pair(code), ExitUsage, "one process has one name"},
	} {
		role := fairRole(nil)
		role.As = bus.RoleHub
		role.New = func() *fair {
			f := newFair()
			f.ids = bus.IDs{Name: "math", Domain: "math"}
			return f
		}
		var errs bustest.Buffer
		code := Run(t.Context(), Command(role), []string{"--config",
			write(t, fairFile+"market: {"+c.market+"}\n"), "--check-config"}, io.Discard, &errs)
		if code != c.code || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%s: exit code %d, want %d and %q: %s", c.market, code, c.code, c.says, &errs)
		}
	}
}

// A configuration with a secret in it that others can read is named, by --check-config and at the start; one
// whose secret came by the environment is not, nor one that is closed.
func TestAnOpenConfigurationWithASecretIsNamed(t *testing.T) {
	const secret = "k-5ecret"
	for _, c := range []struct {
		name, text, env string
		mode            os.FileMode
		warns           bool
	}{
		{"open", "\n  api_key: " + secret, "", 0o644, true},
		{"open, on a line of its own", "\n  api_key: >-\n    " + secret, "", 0o644, true},
		{"closed", "\n  api_key: " + secret, "", 0o640, false},
		{"none", "", "", 0o644, false},
		{"a word of it that stands elsewhere", "\n  days: [\"" + secret + "\"] # no api_key", secret, 0o644,
			false},
		{"by the environment", "", secret, 0o644, false},
	} {
		path := write(t, strings.TrimRight(fairFile, "\n")+c.text+"\n")
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		if c.env != "" {
			t.Setenv("SOUK_FAIR_API_KEY", c.env)
		}
		for _, flags := range [][]string{{"--check-config"}, nil} {
			var errs bustest.Buffer
			role := fairRole(func(context.Context, *Process, *fair) error { return nil })
			code := Run(t.Context(), Command(role), append([]string{"--config", path}, flags...), io.Discard,
				&errs)
			said := errs.String()
			if code != ExitOK || strings.Contains(said, "fair.api_key is in "+path) != c.warns ||
				strings.Contains(said, secret) {
				t.Errorf("%s, %v: exit code %d: %s", c.name, flags, code, said)
			}
		}
	}
}
