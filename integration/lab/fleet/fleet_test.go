package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/market"
)

// patience bounds every wait: a machine may be ten times slower than usual.
const patience = 90 * time.Second

var built struct {
	sync.Once
	dir string
	err error
}

// commands builds the commands once for all tests.
func commands(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds every command and runs them as processes")
	}
	built.Do(func() { built.dir, built.err = build(context.Background()) })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(role))
	}
	os.Exit(m.Run())
}

// begin starts a fleet in a directory of the test's own. Whatever the test leaves running is killed at its
// end, when, if it failed, the ends of all logs are shown.
func begin(t *testing.T, p Plan) (*Fleet, context.Context) {
	t.Helper()
	return beginWith(t, p, nil)
}

func beginWith(t *testing.T, p Plan, prepare func(*Fleet)) (*Fleet, context.Context) {
	t.Helper()
	p.Prepare = prepare
	p.Bin, p.Dir = commands(t), t.TempDir()
	if p.Domains == nil {
		p.Domains = []string{"general"}
	}
	if p.Clients == nil {
		p.Clients = map[string]market.Credits{"dev": 10 * market.Credit, "other": market.Credit}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	t.Cleanup(cancel)
	f, err := Start(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Kill()
		keep(t, f.Dir)
		if t.Failed() {
			for _, part := range f.Parts() {
				t.Logf("%s said last:\n%s", part.Name, part.Tail(25))
			}
		}
	})
	return f, ctx
}

// end ends every scene: each hold has ended, all parts stop well, the journals are checked at all levels, and
// what the clients were told agrees with the journals. It returns how many clients were told that nobody
// knows.
func end(t *testing.T, ctx context.Context, f *Fleet, words []Word) (unknown int) {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	ok(f.Quiet(ctx))
	ok(f.Stop())
	ok(f.Check(ctx))
	a, err := f.Journals()
	if err != nil {
		t.Fatal(err)
	}
	unknown, err = f.Judge(a, words)
	ok(err)
	t.Logf("%d tasks: %s; %d holds, void %v, %s paid", len(words), Tally(words), a.Holds, a.Voids, a.Paid)
	return unknown
}

// must fails the test at once.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// served fails the test for every word that is not the whole answer.
func served(t *testing.T, words []Word) {
	t.Helper()
	for _, w := range words {
		if w.Code != "" {
			t.Errorf("%s", w)
		}
	}
}

// streams starts one reader for each of n tasks of so many tokens, and returns once each has an agent and at
// least three chunks. done gives the words.
func streams(t *testing.T, ctx context.Context, f *Fleet, n, tokens int) (done func() []Word,
	at func(agent string) int) {
	t.Helper()
	c, err := f.Client("dev")
	must(t, err)
	var wg, begun sync.WaitGroup
	var mu sync.Mutex
	var words []Word
	begun.Add(n)
	for range n {
		wg.Go(func() {
			once := sync.OnceFunc(begun.Done)
			seen := 0
			w := Ask(ctx, c, "dev", Task("dev", tokens), func(bus.Chunk) {
				if seen++; seen == 3 {
					once()
				}
			})
			once()
			mu.Lock()
			defer mu.Unlock()
			words = append(words, w)
		})
	}
	begun.Wait()
	at = func(agent string) (n int) {
		for _, w := range words {
			if r := w.Result.Receipt; r != nil && len(r.Earlier) > 0 || w.Result.Agent == agent {
				n++
			}
		}
		return n
	}
	return func() []Word { wg.Wait(); return words }, at
}

// moved counts answers that a second agent ended.
func moved(words []Word) (n int) {
	for _, w := range words {
		if w.Result.Receipt != nil && len(w.Result.Receipt.Earlier) > 0 {
			n++
		}
	}
	return n
}

// A node that dies in the middle of its answers is nobody's problem: each goes on at another node, exactly as
// it would have gone, and is paid once.
func TestAnAgentdDiesMidStream(t *testing.T) {
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 2, Slots: 8})
	done, _ := streams(t, ctx, f, 8, 300)
	must(t, f.Part("agentd-1").Kill())
	killed := time.Now()
	words := done()
	served(t, words)
	if moved(words) == 0 {
		t.Error("no answer was at the node that died")
	}
	for _, w := range words {
		if w.Result.Receipt != nil && len(w.Result.Receipt.Earlier) > 0 {
			t.Logf("silent for %v", w.Stall.Round(time.Millisecond))
		}
	}
	t.Logf("all over %v after the death", time.Since(killed).Round(time.Millisecond))
	exact(t, ctx, f, words)
	end(t, ctx, f, words)
}

// A node that was killed and is started again is sold at once: by its directory's lock it knows that its last
// life is dead, and does not wait for that one's lease.
func TestAnAgentdIsStartedAgain(t *testing.T) {
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 1, Slots: 8})
	c, err := f.Client("dev")
	must(t, err)
	words := []Word{Ask(ctx, c, "dev", Task("dev", 20), func(bus.Chunk) {})}
	must(t, f.Quiet(ctx))
	node := f.Part("agentd-1")
	must(t, node.Kill())
	begun := time.Now()
	must(t, node.Start())
	must(t, node.Ready(ctx))
	registered := time.Since(begun)
	bustest.Eventually(t, "it serves", func() bool { // its hub hears of the new life when it is registered
		w := Ask(ctx, c, "dev", Task("dev", 20), func(bus.Chunk) {})
		words = append(words, w)
		return w.Code == ""
	})
	t.Logf("registered %v and serving %v after its start", registered.Round(time.Millisecond),
		words[len(words)-1].First.Sub(begun).Round(time.Millisecond))
	passing(t, words)
	if !strings.Contains(node.Said(), "earlier life of this node is ended") {
		t.Errorf("it waited for its own lease:\n%s", node.Tail(10))
	}
	end(t, ctx, f, words)
}

// A hub is away when a node has served its tasks, and the node is killed before the hub is back: nobody has
// heard that anything was served. Both are started again, and every answer is paid, once.
func TestAnAgentdDiesWhileItsHubIsAway(t *testing.T) {
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 1, Slots: 8, Grace: patience})
	done, _ := streams(t, ctx, f, 6, 200)
	hub, node := f.Part("hub-general"), f.Part("agentd-1")
	must(t, hub.Kill())
	words := done()
	served(t, words)
	if a, err := f.Journals(); err != nil || a.Open == 0 {
		t.Fatalf("%+v, %v: want holds of which the hub knows no end", a, err)
	}
	must(t, node.Kill())
	must(t, node.Start())
	must(t, node.Ready(ctx))
	must(t, hub.Start())
	end(t, ctx, f, words) // six that were served are six that were paid
}

// So is an engine that dies.
func TestAnEngineDiesMidStream(t *testing.T) {
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 2, Slots: 8})
	done, _ := streams(t, ctx, f, 8, 300)
	must(t, f.Part("engine-1").Kill())
	words := done()
	served(t, words)
	if moved(words) == 0 {
		t.Error("no answer was at the engine that died")
	}
	exact(t, ctx, f, words)
	must(t, f.Part("engine-1").Start()) // and comes back, with nothing in its cache
	must(t, f.Sold(ctx, 2))
	end(t, ctx, f, words)
}

// exact compares answers that went on elsewhere with those of an engine that nobody disturbs.
func exact(t *testing.T, ctx context.Context, f *Fleet, words []Word) {
	t.Helper()
	var wg sync.WaitGroup
	for _, w := range words {
		if w.Result.Receipt == nil || len(w.Result.Receipt.Earlier) == 0 || w.Code != "" {
			continue
		}
		wg.Go(func() {
			whole, err := f.Direct(ctx, f.Agents, w.Body)
			if err != nil || w.Text != whole {
				t.Errorf("%s got\n%q\nand an engine that nobody disturbs says\n%q (%v)", w, w.Text, whole,
					err)
			}
		})
	}
	wg.Wait()
}

// keep copies what a directory holds, for a look at it after a failure.
func keep(t *testing.T, dir string) {
	t.Helper()
	if to := os.Getenv("SOUK_FLEET_KEEP"); to != "" {
		if err := os.CopyFS(filepath.Join(to, fmt.Sprint(time.Now().UnixNano())), os.DirFS(dir)); err != nil {
			t.Log(err)
		}
	}
}
