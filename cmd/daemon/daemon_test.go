package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/embedded"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fair.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func fairRole(serve func(context.Context, *Process, *fair) error) Role[*fair] {
	return Role[*fair]{Name: "fair", Short: "A fair", Example: fairFile, New: newFair, Serve: serve}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// A daemon's life as its operator sees it: alive at once, ready when it serves, not ready while it drains,
// gone with 0.
func TestALife(t *testing.T) {
	address := bustest.FreePort(t)
	path := write(t, fairFile+"health: {listen: \""+address+"\"}\nlog: {format: json}\n")
	open, drained := make(chan struct{}), make(chan struct{})
	role := fairRole(func(ctx context.Context, p *Process, _ *fair) error {
		p.Awaits(func() string { return "the rain to end" })
		p.Serving(open, func() any { return map[string]int{"visitors": 3} })
		<-ctx.Done()
		<-drained
		return nil
	})
	ctx, sigterm := context.WithCancel(t.Context())
	defer sigterm()
	var log bustest.Buffer
	code := make(chan int, 1)
	go func() { code <- Run(ctx, Command(role), []string{"--config", path}, io.Discard, &log) }()
	url := "http://" + address
	bustest.Eventually(t, "it is alive",
		func() bool { status, _ := get(t, url+"/livez"); return status == http.StatusOK })

	probe := func() (int, string) {
		var errs bytes.Buffer
		return Run(t.Context(), Command(role), []string{"--config", path, "--probe"}, io.Discard, &errs),
			errs.String()
	}
	if status, text := get(t, url+"/readyz"); status != http.StatusServiceUnavailable ||
		!strings.Contains(text, "not serving yet") {
		t.Errorf("before it serves: %d %s", status, text)
	}
	if code, says := probe(); code != ExitWrong || !strings.Contains(says, "not serving yet") {
		t.Errorf("probed before it serves: %d %s", code, says)
	}
	bustest.Eventually(t, "it says what it waits for", func() bool {
		_, text := get(t, url+"/readyz")
		return strings.Contains(text, "not serving yet: the rain to end")
	})
	close(open)
	bustest.Eventually(t, "it is ready",
		func() bool { status, _ := get(t, url+"/readyz"); return status == http.StatusOK })
	if code, says := probe(); code != ExitOK {
		t.Errorf("probed when ready: %d %s", code, says)
	}
	if _, text := get(t, url+"/stats"); !strings.Contains(text, `"visitors": 3`) {
		t.Errorf("its counts are %s", text)
	}
	sigterm()
	bustest.Eventually(t, "it says that it stops",
		func() bool { _, text := get(t, url+"/readyz"); return strings.Contains(text, "stopping") })
	if status, _ := get(t, url+"/livez"); status != http.StatusOK {
		t.Error("while it drains it is alive")
	}
	close(drained)
	if c := <-code; c != ExitOK {
		t.Errorf("exit code %d: %s", c, &log)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(log.String()), "\n") {
		var entry struct{ Level, Msg, Daemon string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Daemon != "fair" {
			t.Errorf("no line of a JSON log: %s", line)
		}
	}
}

// An error that names its package, which has the daemon's name, names it once.
func TestAnErrorNamesTheDaemonOnce(t *testing.T) {
	path := write(t, fairFile)
	for said, want := range map[string]string{
		"no room":                    "\nfair: no room\n",
		"fair: subscribe: no room":   "\nfair: subscribe: no room\n",
		"fair east: no room":         "\nfair east: no room\n",
		"fairly: no room":            "\nfair: fairly: no room\n",
		"classifier: fair: no room":  "\nfair: classifier: fair: no room\n",
		"fair: a\nfair: b":           "\nfair: a\nfair: b\n",
		"fair: fair: is part of it?": "\nfair: fair: is part of it?\n",
	} {
		role := fairRole(func(context.Context, *Process, *fair) error { return errors.New(said) })
		var errs bustest.Buffer
		code := Run(t.Context(), Command(role), []string{"--config", path}, io.Discard, &errs)
		if code != ExitWrong || !strings.HasSuffix(errs.String(), want) {
			t.Errorf("of %q it says with exit code %d\n%s", said, code, &errs)
		}
	}
}

// A daemon that does not drain is ended at the time stated, and says so.
func TestItEndsInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	ctx, sigterm := context.WithCancel(t.Context())
	stuck := make(chan struct{})
	defer close(stuck)
	role := fairRole(func(context.Context, *Process, *fair) error {
		sigterm()
		<-stuck
		return nil
	})
	began := time.Now()
	var log bustest.Buffer
	code := Run(ctx, Command(role), []string{"--config", write(t, fairFile+"stop: {within: 2s}\n")},
		io.Discard, &log)
	if took := time.Since(began); code != ExitWrong || took < 2*time.Second || took > time.Minute ||
		!strings.Contains(log.String(), "not stopped within 2s") {
		t.Errorf("exit code %d after %v: %s", code, took, &log)
	}
}

// A market that comes up later is waited for, and the operator is told what is waited for.
func TestServersThatComeLater(t *testing.T) {
	address, health := bustest.FreePort(t), bustest.FreePort(t)
	etcd, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, fairFile+"market: {nats: \"nats://"+address+"\", etcd: [\""+etcd.Endpoint()+
		"\"], connect_within: 1m}\nhealth: {listen: \""+health+"\"}\n")
	open := make(chan struct{})
	close(open)
	role := fairRole(func(ctx context.Context, p *Process, c *fair) error {
		l, err := p.Connect(ctx, c.Market, bus.RoleDoor, bus.IDs{Name: "fair"})
		if err != nil {
			return err
		}
		p.Serving(open, nil)
		<-ctx.Done()
		return l.Close()
	})
	ctx, sigterm := context.WithCancel(t.Context())
	defer sigterm()
	var log bustest.Buffer
	code := make(chan int, 1)
	go func() { code <- Run(ctx, Command(role), []string{"--config", path}, io.Discard, &log) }()
	bustest.Eventually(t, "it says what it waits for", func() bool {
		_, text := get(t, "http://"+health+"/readyz")
		return strings.Contains(text, "waiting for NATS at nats://"+address) &&
			strings.Contains(log.String(), "waiting for NATS")
	})
	nats, err := embedded.StartNATS(embedded.NATSConfig{Listen: address})
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "it is ready",
		func() bool { status, _ := get(t, "http://"+health+"/readyz"); return status == http.StatusOK })
	nats.Close()
	bustest.Eventually(t, "it notices that NATS has gone", func() bool {
		_, text := get(t, "http://"+health+"/readyz")
		return strings.Contains(text, "NATS is not connected") &&
			strings.Contains(log.String(), "NATS is out of reach")
	})
	if nats, err = embedded.StartNATS(embedded.NATSConfig{Listen: address}); err != nil {
		t.Fatal(err)
	}
	defer nats.Close()
	bustest.Eventually(t, "it is ready again", func() bool {
		status, _ := get(t, "http://"+health+"/readyz")
		return status == http.StatusOK && strings.Contains(log.String(), "NATS is back")
	})
	if err := etcd.Close(); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "it notices that etcd has gone", func() bool {
		_, text := get(t, "http://"+health+"/readyz")
		return strings.Contains(text, "etcd is not connected") &&
			strings.Contains(log.String(), "etcd is out of reach")
	})
	sigterm()
	if c := <-code; c != ExitOK {
		t.Errorf("exit code %d: %s", c, &log)
	}
}

// One that is refused is named as that at once, though it was named as away, and when it is back.
func TestARefusalIsNamedAndItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := &Process{Log: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		after := func(d time.Duration) bool { return time.Since(began) > d }
		go p.watch(ctx, "NATS", "here", func() bool { return after(30*time.Second) && !after(time.Hour) },
			func() error {
				if after(10 * time.Second) {
					return errors.New("revoked")
				}
				return nil
			})
		time.Sleep(time.Hour + 10*time.Second)
		cancel()
		synctest.Wait()
		got := log.String()
		for said, times := range map[string]int{"out of reach": 1, "refuses": 2, "NATS is back": 1, "\n": 4} {
			if n := strings.Count(got, said); n != times {
				t.Errorf("%q stands there %d times, not %d:\n%s", said, n, times, got)
			}
		}
	})
}

// A connection that is away for ten minutes is named when it goes, once a minute, and when it is back.
func TestAnOutageIsNamedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bustest.Buffer
		p := &Process{Log: slog.New(slog.NewTextHandler(&log, nil)), health: newHealth("fair", "")}
		began := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		go p.watch(ctx, "NATS", "here", func() bool { return time.Since(began) > 10*time.Minute },
			func() error { return nil })
		time.Sleep(11 * time.Minute)
		stop()
		synctest.Wait()
		if got := log.String(); strings.Count(got, "out of reach") != 10 || strings.Count(got,
			"NATS is back") != 1 || strings.Count(got, "\n") != 11 {
			t.Errorf("it said\n%s", got)
		}
		before := len(log.String())
		if p.patiently(t.Context(), 10*time.Minute, "NATS", "here", "x",
			func() error { return errors.New("refused") }) == nil {
			t.Error("it worked")
		}
		if got := strings.Count(log.String()[before:], "waiting for NATS"); got != 10 {
			t.Errorf("%d lines in ten minutes, want 10:\n%s", got, &log)
		}
	})
}

// A market that never comes up is an error that says what to do. So is a signal while waiting no error.
func TestServersThatNeverCome(t *testing.T) {
	serve := func(ctx context.Context, p *Process, c *fair) error {
		_, err := p.Connect(ctx, c.Market, bus.RoleDoor, bus.IDs{Name: "fair"})
		return err
	}
	var log bustest.Buffer
	path := write(t, fairFile+"market: {nats: \"nats://127.0.0.1:1\", connect_within: 1s}\n")
	if code := Run(t.Context(), Command(fairRole(serve)), []string{"--config", path}, io.Discard,
		&log); code != ExitWrong ||
		!strings.Contains(log.String(), "NATS at nats://127.0.0.1:1 did not answer within 1s") ||
		!strings.Contains(log.String(), "market.nats or SOUK_MARKET_NATS") {
		t.Errorf("exit code %d: %s", code, &log)
	}
	ctx, sigterm := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer sigterm()
	path = write(t, fairFile+"market: {nats: \"nats://127.0.0.1:1\", connect_within: 1h}\n")
	if code := Run(ctx, Command(fairRole(serve)), []string{"--config", path}, io.Discard,
		&log); code != ExitOK {
		t.Errorf("told to stop while waiting: exit code %d: %s", code, &log)
	}
}

// Signals that come together are one; a later one is another.
func TestASecondSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 8)
		var drained, ended bool
		go obey(signals, func() { drained = true }, func(os.Signal) { ended = true })
		synctest.Wait()
		if drained || ended {
			t.Fatal("it obeyed a signal that nobody sent")
		}
		signals <- syscall.SIGTERM
		signals <- syscall.SIGINT
		synctest.Wait()
		if !drained || ended {
			t.Errorf("after two at once: drained %v, ended %v; want it to drain", drained, ended)
		}
		<-time.After(sameSignal + time.Millisecond)
		signals <- syscall.SIGTERM
		synctest.Wait()
		if !ended {
			t.Error("a second signal, later, did not end it")
		}
	})
}

func TestHelpAndVersion(t *testing.T) {
	defer func(was string) { linked = was }(linked)
	linked = "v1.2"
	role := fairRole(nil)
	var out bytes.Buffer
	if code := Run(t.Context(), Command(role), []string{"--version"}, &out, &out); code != ExitOK ||
		!strings.HasPrefix(out.String(), "fair v1.2 (go") {
		t.Errorf("%d %s", code, &out)
	}
	out.Reset()
	Run(t.Context(), Command(role), []string{"--help"}, &out, &out)
	for _, want := range []string{"name: autumn", "SOUK_FAIR_OPEN=8h0m0s",
		"SOUK_MARKET_NATS=nats://127.0.0.1:4222", "SOUK_FAIR_STALLS=", "a second signal ends it at once"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("--help does not say %q:\n%s", want, &out)
		}
	}
}

// alone is a daemon that no market is named to.
type alone struct{ Common }

func (*alone) Complete() error      { return nil }
func (*alone) Drain() time.Duration { return 0 }

// Help speaks of the market's keys to daemons that come to one, and nobody is left without a file and without
// a word about where there is one.
func TestHelpIsOfTheDaemon(t *testing.T) {
	fairs := func() *cobra.Command { return Command(fairRole(nil)) }
	apart := func() *cobra.Command {
		return Command(Role[*alone]{Name: "fair", Example: fairFile,
			New: func() *alone { return &alone{Default()} }})
	}
	for _, c := range []struct {
		role func() *cobra.Command
		args []string
		says string
		code int
	}{
		{fairs, []string{"--help"}, "market.pem", -1},
		{fairs, []string{"--help"}, "creds: souk-data/auth/creds/NAME.creds", ExitOK},
		{apart, []string{"--help"}, "creds: souk-data/auth/creds/NAME.creds", -1},
		{apart, []string{"--help"}, "Sections that every daemon has", ExitOK},
		{fairs, []string{}, "no configuration: name its file, as fair --config /etc/souk/fair.yaml", ExitUsage},
	} {
		var out bytes.Buffer
		code := Run(t.Context(), c.role(), c.args, &out, &out)
		said := strings.Contains(out.String(), c.says)
		if said != (c.code >= 0) || said && code != c.code {
			t.Errorf("%v: %d, says %q: %v", c.args, code, c.says, said)
		}
		if strings.Contains(out.String(), "\n\n\n") {
			t.Errorf("%v: two empty lines on end:\n%s", c.args, &out)
		}
	}
}

// Two daemons on one health address: the second says which field to change.
func TestHealthAddressIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var errs bustest.Buffer
	path := write(t, fairFile+"health: {listen: \""+l.Addr().String()+"\"}\n")
	if code := Run(t.Context(), Command(fairRole(nil)), []string{"--config", path}, io.Discard,
		&errs); code != ExitWrong || !strings.Contains(errs.String(), "health.listen: ") {
		t.Errorf("exit code %d: %s", code, &errs)
	}
}

func TestName(t *testing.T) {
	for in, want := range map[string]string{"gpu-3.example.org": "gpu-3-example-org", "ok_1": "ok_1",
		"é": "--", strings.Repeat("x", 100): strings.Repeat("x", 64)} {
		if got := Name(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
