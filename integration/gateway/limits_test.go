package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"souk/bus"
	"souk/bus/gateway"
	"souk/cmd/local"
)

// A gateway has so many answers open and no more, of all keys: another request is told to come again, and is
// served when one has ended.
func TestAGatewayHasSoManyAnswersOpen(t *testing.T) {
	onStage(t, func(c *gateway.Config) { small(c); c.MaxOpen = 2 }, func(t *testing.T, st *stage) {
		end := make(chan struct{})
		st.will(func(j *job) {
			j.accept()
			<-end
			j.say("x")
			j.end("")
		})
		var all sync.WaitGroup
		for _, key := range []string{st.key, st.other} {
			r := st.request(t.Context(), "/v1/chat/completions", strings.NewReader(large(10, "")))
			r.Header.Set("Authorization", "Bearer "+key)
			all.Go(func() {
				if a, err := st.client.Do(r); err != nil || a.StatusCode != http.StatusOK {
					t.Errorf("%v, %v", a, err)
				} else {
					a.Body.Close()
				}
			})
		}
		synctest.Wait()
		for _, more := range []string{"", `,"stream":true`} {
			r := st.do("/v1/chat/completions", large(10, more))
			if r.status != http.StatusTooManyRequests || r.header.Get("Retry-After-Ms") == "" ||
				r.object(t).Error.Souk.Code != string(bus.CodeTooManyTasks) {
				t.Errorf("one more: %d %v %s", r.status, r.header, r.body)
			}
		}
		close(end)
		all.Wait()
		if r := st.do("/v1/chat/completions", large(10, "")); r.status != http.StatusOK {
			t.Errorf("after them: %d %s", r.status, r.body)
		}
	})
}

// So many bytes of answers that have ended are kept for who comes back, those of the latest.
func TestSoMuchIsKept(t *testing.T) {
	onStage(t, small, func(t *testing.T, st *stage) {
		st.will(func(j *job) {
			j.accept()
			j.say(strings.Repeat("x", 300<<10))
			j.end("")
		})
		const answers = 20
		last := ""
		for i := range answers {
			r := st.do("/v1/chat/completions", large(10, ""), "Idempotency-Key", fmt.Sprint(i))
			if r.status != http.StatusOK {
				t.Fatalf("answer %d: %d %.200s", i, r.status, r.body)
			}
			last = r.body
		}
		synctest.Wait() // the last is kept, and older ones are dropped, after it is written
		if n := st.s.Stats().Kept; n < 2 || n > 2<<20/(300<<10) {
			t.Errorf("%d of %d answers of 300 KB are kept in 2 MB", n, answers)
		}
		r := st.do("/v1/chat/completions", large(10, ""), "Idempotency-Key", fmt.Sprint(answers-1))
		if r.body != last {
			t.Errorf("the latest is another: %d %.200s", r.status, r.body)
		}
	})
}

// A gateway has so many connections and no more: another waits until one is closed.
func TestAGatewayHasSoManyConnections(t *testing.T) {
	onStage(t, func(c *gateway.Config) { small(c); c.MaxConns = 2 }, func(t *testing.T, st *stage) {
		first, second := st.dial(), st.dial()
		defer second.Close()
		synctest.Wait()
		third := st.dial()
		defer third.Close()
		answered := make(chan string, 1)
		go func() {
			io.WriteString(third, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
			line, _ := bufio.NewReader(third).ReadString('\n')
			answered <- line
		}()
		synctest.Wait()
		select {
		case line := <-answered:
			t.Errorf("one more has %q", line)
		default:
		}
		first.Close()
		synctest.Wait()
		select {
		case line := <-answered:
			if !strings.Contains(line, " 200 ") {
				t.Errorf("it has %q", line)
			}
		default:
			t.Error("it still waits")
		}
	})
}

// tardy hands on each change of the registry when it is told to, and tells of each key that is read.
type tardy struct {
	bus.Registry
	now  <-chan struct{}
	read chan<- string
}

func (r tardy) Get(ctx context.Context, key string) ([]bus.KV, error) {
	if strings.HasPrefix(key, bus.KeysPrefix) {
		r.read <- key
	}
	return r.Registry.Get(ctx, key)
}

func (r tardy) Watch(ctx context.Context, key string) (<-chan bus.Event, error) {
	from, err := r.Registry.Watch(ctx, key)
	if err != nil {
		return nil, err
	}
	to := make(chan bus.Event)
	go func() {
		defer close(to)
		synced := false
		for e := range from {
			if synced {
				select {
				case <-r.now:
				case <-ctx.Done():
					return
				}
			}
			synced = synced || e.Synced
			select {
			case to <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	return to, nil
}

// A key is good as soon as it is made, or has a new secret, also at a gateway that has not heard of it yet.
// One that is revoked before the gateway hears of it is not good there, and none that nobody made is waited
// for.
func TestAKeyThatIsYoung(t *testing.T) {
	h := start(t, one)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	now, read := make(chan struct{}), make(chan string, 8)
	second, _, _ := h.withDeps(l, func(*gateway.Config) {}, func(d *gateway.Deps) {
		d.Registry = tardy{d.Registry, now, read}
	})
	asks := func(secret string) <-chan int {
		status := make(chan int, 1)
		go func() { status <- second.do("GET", "/v1/models", "", secret).status }()
		return status
	}
	hears := func(from <-chan int, want int) {
		t.Helper()
		for heard := (chan<- struct{})(nil); ; {
			select {
			case <-read: // from now on what is heard counts
				heard = now
			case heard <- struct{}{}:
			case status := <-from:
				if status != want {
					t.Errorf("status %d, want %d", status, want)
				}
				return
			}
		}
	}
	secret := h.newKey(bus.APIKey{ID: "young", Client: local.FirstClient})
	hears(asks(secret), 200)
	if secret, err = local.RotateKey(t.Context(), h.Registry, "young", 0); err != nil {
		t.Fatal(err)
	}
	hears(asks(secret), 200)

	gone := h.newKey(bus.APIKey{ID: "gone", Client: local.FirstClient})
	if err := local.RevokeKey(t.Context(), h.Registry, h.Link.Budget, "gone"); err != nil {
		t.Fatal(err)
	}
	if status := <-asks(gone); status != 401 {
		t.Errorf("a key that was revoked: status %d", status)
	}
}

// A market's own gateway has the settings of one that runs by itself: here it shows where its time goes.
func TestAMarketShowsTheProfilesOfItsGateway(t *testing.T) {
	h := start(t, strings.Replace(one, "gateway: {", `gateway: {pprof: "127.0.0.1:0", `, 1))
	_, at, _ := strings.Cut(h.log.String(), `msg="profiles open" at=`)
	at, _, _ = strings.Cut(at, "\n")
	r, err := http.Get(at + "goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(body), "goroutine profile") {
		t.Errorf("%s: %d %.100s %v", at, r.StatusCode, body, err)
	}
}
