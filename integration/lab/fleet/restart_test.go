package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/etcdreg"
	"souk/bus/follow"
	"souk/bus/natsauth"
	"souk/cmd/local"
	"souk/market"
)

// withGateway adds a gateway, makes a key for each client, and returns where it listens and the keys.
func withGateway(ctx context.Context, t *testing.T, f *Fleet, clients ...string) (at string, keys []string) {
	t.Helper()
	at = port()
	p, err := f.Add("gateway", f.market("gateway", bus.RoleGateway, bus.IDs{Name: "gateway-1"}),
		fmt.Sprintf("listen: %q\n", at), "gateway")
	must(t, err)
	must(t, p.Start())
	files, err := local.OperatorFiles(f.Data)
	must(t, err)
	secure, err := natsauth.TLSOf(files)
	must(t, err)
	r, err := etcdreg.Dial(ctx, etcdreg.Config{Endpoints: []string{f.Etcd}, TLS: secure,
		Probe: bus.KeysPrefix})
	must(t, err)
	defer r.Close()
	for _, c := range clients {
		key := bus.NewSecret(c, sha256.Sum256([]byte(c)))
		entry, err := bus.EncodeEntry(&bus.APIKey{ID: c, Client: c,
			Hashes: []bus.KeyHash{{SHA256: bus.HashKey(key)}}})
		must(t, err)
		must(t, r.Put(ctx, bus.APIKeyKey(c), entry))
		keys = append(keys, key)
	}
	must(t, p.Ready(ctx))
	return at, keys
}

// stock asks as openai-python does by default: it comes twice more after what may pass, when it is told to,
// or where the connection breaks before an answer has begun.
func stock(ctx context.Context, by *http.Client, url, key, body string, refused func(said string)) error {
	for retries := 0; ; retries++ {
		wait, again, err := once(ctx, by, url, key, body)
		if err == nil {
			return nil
		}
		if retries == 2 || !again {
			return fmt.Errorf("after %d retries: %w", retries, err)
		}
		refused(err.Error())
		if wait == 0 {
			wait = time.Second << retries / 2
		}
		follow.Pause(ctx, wait)
	}
}

// cut is the error of an answer that breaks off after its status has come: nobody can ask for the rest.
type cut struct{ error }

// once asks once. An error has what was said; again: openai-python would ask again, after wait where that is
// not 0.
func once(ctx context.Context, by *http.Client, url, key, body string) (wait time.Duration, again bool,
	err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions",
		strings.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	a, err := by.Do(r)
	if err != nil {
		return 0, true, err
	}
	defer a.Body.Close()
	said, err := io.ReadAll(a.Body)
	stream := strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream")
	switch {
	case err != nil && stream:
		return 0, false, cut{err}
	case err != nil:
		return 0, true, err // a whole answer is read before the caller has it
	case a.StatusCode == 200 && bytes.Contains(said, []byte(`"error"`)),
		a.StatusCode == 200 && stream && !bytes.Contains(said, []byte("[DONE]")):
		return 0, false, cut{fmt.Errorf("an answer breaks off: %s", said[max(0, len(said)-300):])}
	case a.StatusCode == 200:
		return 0, false, nil
	}
	again = a.StatusCode == 408 || a.StatusCode == 409 || a.StatusCode == 429 || a.StatusCode >= 500
	if should := a.Header.Get("X-Should-Retry"); should != "" {
		again = should == "true"
	}
	if ms, _ := strconv.Atoi(a.Header.Get("Retry-After-Ms")); ms > 0 && ms <= 60_000 {
		wait = time.Duration(ms) * time.Millisecond
	}
	return wait, again, errors.New(string(said))
}

// The only hub is told to stop, and started again, while clients of OpenAI's own library ask on: they come
// again when they are told to, and none of their requests fails. Nor does any of a client whose money does
// for two of its six requests at once.
func TestAHubIsRestartedUnderStockClients(t *testing.T) {
	whole(t)
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 2, Slots: 8, Vanished: map[string]bool{"web": true, "poor": true},
		Clients: map[string]market.Credits{"web": 10 * market.Credit, "poor": market.Credit / 600}})
	at, keys := withGateway(ctx, t, f, "web", "poor")
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var clients sync.WaitGroup
	var served, n atomic.Int64
	var mu sync.Mutex
	codes := map[bus.Code]int{}
	refused := func(body string) {
		var said struct {
			Error struct{ Souk struct{ Code bus.Code } }
		}
		if err := json.Unmarshal([]byte(body), &said); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		mu.Lock()
		defer mu.Unlock()
		codes[said.Error.Souk.Code]++
	}
	for i := range 12 {
		clients.Go(func() {
			for asking.Err() == nil {
				body := fmt.Sprintf(`{"model":"auto","messages":[{"role":"user","content":"What is a souk? %d"}],`+
					`"max_tokens":%d,"stop":["."],"stream":%v}`, n.Add(1), 20+i/6*2000, i%2 == 0)
				err := stock(ctx, http.DefaultClient, "http://"+at, keys[i/6], body, refused)
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				served.Add(1)
			}
		})
	}
	more := func(want int64) {
		for from := served.Load(); served.Load() < from+want && follow.Pause(ctx, 5*time.Millisecond); {
		}
	}
	for range 2 {
		more(50)
		must(t, f.Part("hub-general").Stop(StopWithin))
		must(t, f.Part("hub-general").Start())
	}
	more(50)
	stop()
	clients.Wait()
	t.Logf("%d answers; what had to be asked again: %v", served.Load(), codes)
	if len(codes) == 0 {
		t.Error("nobody saw that the hub was away")
	}
	end(t, ctx, f, nil)
}
