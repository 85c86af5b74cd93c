package integration

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/embedded"
	"souk/cmd/local"
)

// slow is a market whose agent gives each task a token every ten milliseconds.
var slow = strings.Replace(one, "speedup: 20", "speedup: 1", 1)

// long asks for an answer of 300 tokens: three seconds.
func long(b *bus.Task) {
	b.Body = []byte(strings.Replace(string(b.Body), `"max_tokens":40`, `"max_tokens":300,"ignore_eos":true`,
		1))
}

func TestASecondStartGoesOnWhereTheFirstEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	dir := t.TempDir()
	m := startIn(t, dir, one)
	a, err := m.Ask(t.Context(), chat("Hello"))
	if err != nil || a.Result.Code != "" {
		t.Fatalf("%+v, %v", a.Result, err)
	}
	left := balance(t, m, "dev")
	first := a.Result.Receipt
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}

	again := startIn(t, dir, one)
	if now := balance(t, again, "dev"); now != left {
		t.Errorf("dev had %s and has %s: deposits are made once, and nothing is lost", left, now)
	}
	b, err := again.Ask(t.Context(), chat("Hello again"))
	if err != nil || b.Result.Code != "" {
		t.Fatalf("%+v, %v", b.Result, err)
	}
	second := b.Result.Receipt
	if second.Journal != first.Journal || second.Round <= first.Round || second.Epoch <= first.Epoch {
		t.Errorf("receipt %+v after %+v: rounds and epochs rise within a journal", second, first)
	}
}

// A market that was killed leaves leases behind. Nobody else can hold any in its directory, so the next one
// does not wait for them to expire.
func TestAKilledMarketsLeasesAreNotWaitedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	dir := t.TempDir()
	m := startIn(t, dir, one)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	etcd, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := etcd.Client.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{bus.HubKey("general"), bus.AgentKey("only"), bus.ClaimKey("only")} {
		if _, err := etcd.Client.Put(t.Context(), key, "{}", clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
	}
	if err := etcd.Close(); err != nil {
		t.Fatal(err)
	}
	again := startIn(t, dir, one) // gives up after a minute
	if a, err := again.Ask(t.Context(), chat("Hello")); err != nil || a.Result.Code != "" {
		t.Fatalf("%+v, %v", a.Result, err)
	}
}

func TestASecondMarketIsRefused(t *testing.T) {
	dir := t.TempDir()
	startIn(t, dir, one)
	cfg, _ := local.ParseConfig("one.yaml", []byte(one))
	_, err := local.Start(t.Context(), local.Options{Dir: dir, Config: cfg})
	if !errors.Is(err, local.ErrInUse) {
		t.Errorf("got %v, want %v", err, local.ErrInUse)
	}
}

func TestAMarketWithoutItsRegistryIsRefused(t *testing.T) {
	dir := t.TempDir()
	cfg, _ := local.ParseConfig("one.yaml", []byte(one))
	m, err := local.Start(t.Context(), local.Options{Dir: dir, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	_, err = local.Start(t.Context(), local.Options{Dir: dir, Config: cfg})
	if err == nil || !strings.Contains(err.Error(), "Restore "+filepath.Join(dir, "etcd")) {
		t.Errorf("got %v, want the repair named", err)
	}
}

func TestPortsAreChosenAnewWhenTaken(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	m := start(t, one)
	taken := strings.Replace(one, "127.0.0.1:0", strings.TrimPrefix(m.State.NATS, "nats://"), 1)
	if other := start(t, taken); other.State.NATS == m.State.NATS {
		t.Errorf("both are at %s", other.State.NATS)
	}
}

// Cancelling frees the slot at once, and costs what was served until then.
func TestCancel(t *testing.T) {
	m := start(t, slow)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tokens := 0
	a, err := m.AskWith(ctx, chat("Tell me a long story.", long), func(c bus.Chunk) {
		if tokens += c.Count; tokens > 3 {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	r := a.Result
	if r.Code != bus.CodeCancelled || r.Cost <= 0 || r.Usage.Output >= 300 {
		t.Errorf("got %+v; want it cancelled and paid in part", r)
	}
	bustest.Eventually(t, "both slots free again", func() bool { return m.Free() == 2 })
	books := balance(t, m, "dev")
	if want := 10*1_000_000_000 - r.Paid(); books != want {
		t.Errorf("dev has %s, want %s", books, want)
	}
}

func TestShutdownLetsRunningTasksEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	dir := t.TempDir()
	cfg, _ := local.ParseConfig("slow.yaml", []byte(slow))
	// of which the task needs three seconds
	m, err := local.Start(t.Context(), local.Options{Dir: dir, Config: cfg, Within: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	begun, ended := make(chan struct{}, 1), make(chan bus.Result, 1)
	go func() {
		a, _ := m.AskWith(t.Context(), chat("Tell me a long story.", long), func(bus.Chunk) {
			select {
			case begun <- struct{}{}:
			default:
			}
		})
		ended <- a.Result
	}()
	<-begun
	if err := m.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if r := <-ended; r.Code != "" || r.Usage.Output != 300 {
		t.Errorf("the task that ran got %+v", r)
	}
}
