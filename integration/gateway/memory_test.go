package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/gateway"
	"souk/bus/membus"
)

// stage is a gateway on virtual time, whose market does what it is told.
type stage struct {
	t      *testing.T
	s      *gateway.Server
	client *http.Client
	key    string
	other  string // another key
	them   bus.Bus
	l      piped

	mu  sync.Mutex
	ask func(*job) // one goroutine each

	lowest, highest atomic.Int64 // what was taken of memory
}

// job is a task that has come to the market.
type job struct {
	*stage
	bus.Task
	to    string // who reads it
	seq   uint64
	reply string
	stop  chan struct{} // closed when it is cancelled
}

func onStage(t *testing.T, change func(*gateway.Config), play func(*testing.T, *stage)) {
	onStageOver(t, change, func(b bus.Bus) bus.Bus { return b }, play)
}

// onStageOver has the gateway use another bus than its own.
func onStageOver(t *testing.T, change func(*gateway.Config), over func(bus.Bus) bus.Bus,
	play func(*testing.T, *stage)) {
	synctest.Test(t, func(t *testing.T) {
		world := membus.New(1)
		st := &stage{t: t, them: world.Bus("them"), l: pipe()}
		registry := world.Registry()
		newKey := func(id string) string {
			secret := bus.NewSecret(id, [32]byte{1})
			value, err := bus.EncodeEntry(&bus.APIKey{ID: id, Client: "dev", Open: 10000,
				Hashes: []bus.KeyHash{{SHA256: bus.HashKey(secret)}}})
			if err != nil {
				t.Fatal(err)
			}
			if err := registry.Put(t.Context(), bus.APIKeyKey(id), value); err != nil {
				t.Fatal(err)
			}
			return secret
		}
		st.key, st.other = newKey("k"), newKey("other")
		c := gateway.Default()
		c.ID = "gate"
		change(&c)
		own := world.Bus("gate")
		var err error
		if st.s, err = gateway.New(c, gateway.Deps{Bus: over(own), Registry: registry, Listener: st.l,
			Log: slog.New(slog.DiscardHandler)}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- st.s.Run(ctx) }()
		<-st.s.Ready()
		st.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return st.dial(), nil }}}
		st.market()
		play(t, st)
		st.client.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		own.Close()
		st.them.Close()
	})
}

func (st *stage) dial() net.Conn {
	near, far := net.Pipe()
	st.l.conns <- far
	return near
}

// market takes in tasks and controls.
func (st *stage) market() {
	var mu sync.Mutex
	jobs := map[string]*job{} // by token
	hear := func(subject string, h bus.Handler) {
		if _, err := st.them.Subscribe(subject, "", h); err != nil {
			st.t.Fatal(err)
		}
	}
	hear(bus.TaskSubject("*", "*"), func(m bus.Msg) {
		j := &job{stage: st, to: "gate", reply: m.Reply, stop: make(chan struct{})}
		if err := bus.Decode(m.Data, &j.Task); err != nil {
			st.t.Error(err)
			return
		}
		mu.Lock()
		jobs[j.Token] = j
		mu.Unlock()
		st.mu.Lock()
		ask := st.ask
		st.mu.Unlock()
		go ask(j)
	})
	cancel := func(match func(*job) bool) {
		mu.Lock()
		defer mu.Unlock()
		for token, j := range jobs {
			if match(j) {
				delete(jobs, token)
				close(j.stop)
			}
		}
	}
	hear(bus.StreamSubject("agent", "gate"), func(m bus.Msg) {
		var c bus.StreamControl
		if bus.Decode(m.Data, &c) == nil && c.Cancel {
			cancel(func(j *job) bool { return j.Token == c.Token })
		}
	})
	hear(bus.DoorCancelSubject("*", "*"), func(m bus.Msg) {
		var c bus.Cancel
		if bus.Decode(m.Data, &c) == nil {
			cancel(func(j *job) bool { return j.ID == c.Task })
		}
	})
}

// will says what the market does with each task.
func (st *stage) will(ask func(*job)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.ask = ask
}

func (j *job) publish(subject string, m bus.Message) {
	data, err := bus.Encode(m)
	if err == nil {
		err = j.them.Publish(bus.Msg{Subject: subject, Data: data})
	}
	if err != nil {
		j.t.Error(err)
	}
}

func (j *job) accept() {
	j.publish(j.reply, &bus.Answer{Accepted: &bus.Accepted{Client: "dev", Task: j.ID, Hub: "hub",
		Agent: "agent", Model: "m"}})
	time.Sleep(time.Millisecond) // until that is there
}

func (j *job) refuse(code bus.Code) {
	j.publish(j.reply, &bus.Answer{Result: &bus.Result{Client: "dev", Task: j.ID, Code: code, Message: "no"}})
}

func (j *job) say(text string) { j.chunk(bus.Chunk{Text: text, Tokens: []uint32{1}, Count: 1}) }

// chunk sends a chunk, unless the task is cancelled, and looks at what is taken of memory then.
func (j *job) chunk(c bus.Chunk) (ok bool) {
	select {
	case <-j.stop:
		return false
	default:
	}
	c.Task, c.Seq = j.ID, j.seq
	j.seq++
	j.publish(bus.ReplySubject(j.to, j.Token, "agent"), &c)
	j.look()
	return true
}

func (j *job) end(code bus.Code) {
	j.publish(bus.ReplySubject(j.to, j.Token, "agent"), &bus.Chunk{Task: j.ID, Result: &bus.Result{
		Client: "dev", Task: j.ID, Hub: "hub", Agent: "agent", Code: code, Finish: "stop", Chunks: j.seq}})
}

// endHere ends it as an agent does: at its end, or as it is cancelled.
func (j *job) endHere() {
	select {
	case <-j.stop:
		j.end(bus.CodeCancelled)
	default:
		j.end("")
	}
}

// look notes what is taken of memory.
func (st *stage) look() int64 {
	n := st.s.Stats().Memory
	for low := st.lowest.Load(); n < low && !st.lowest.CompareAndSwap(low, n); {
		low = st.lowest.Load()
	}
	for high := st.highest.Load(); n > high && !st.highest.CompareAndSwap(high, n); {
		high = st.highest.Load()
	}
	return n
}

func (st *stage) request(ctx context.Context, path string, body io.Reader, header ...string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, "POST", "http://gate"+path, body)
	if err != nil {
		st.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+st.key)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func (st *stage) do(path, body string, header ...string) reply {
	st.t.Helper()
	r, err := st.client.Do(st.request(st.t.Context(), path, strings.NewReader(body), header...))
	if err != nil {
		st.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		st.t.Fatal(err)
	}
	return reply{r.StatusCode, r.Header, string(b)}
}

// large is a chat with so many bytes.
func large(n int, more string) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]%s}`, strings.Repeat("x", n), more)
}

// small is a gateway of 16 MB, whose limits are as much smaller.
func small(c *gateway.Config) {
	c.MaxMemory, c.MaxConns, c.MaxKept, c.MaxItems, c.MaxItemsKey = 16<<20, 128, 2<<20, 2<<20, 2<<20
	c.KeepFor, c.KeepItems, c.MaxUnread = time.Minute, time.Minute, 1<<20
}

// D8, exactness: whatever is asked, however it ends, and whoever leaves when, what is counted is never below
// 0, never above the bound, and 0 in the end.
func TestMemoryIsCountedExactly(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	onStage(t, small, func(t *testing.T, st *stage) {
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(seed, 1))
		dice := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return rng.IntN(n)
		}
		st.will(func(j *job) {
			switch dice(8) {
			case 0:
				j.refuse(bus.CodeNoHub)
				return
			case 1: // nothing is said, until it is cancelled, or for long
				select {
				case <-j.stop:
				case <-time.After(time.Minute):
				}
				j.refuse(bus.CodeCancelled)
				return
			}
			j.accept()
			for range dice(12) {
				switch time.Sleep(time.Duration(dice(300)) * time.Millisecond); dice(6) {
				case 0:
					j.chunk(bus.Chunk{Extra: []bus.Extra{{Choice: json.RawMessage(
						`{"delta":{"reasoning":"` + strings.Repeat("r", dice(3000)) + `"}}`)}}, Count: 1})
				case 1: // the next stays away
					j.seq += uint64(dice(3) / 2)
				default:
					j.say(strings.Repeat("\x01y", dice(20000)))
				}
			}
			switch dice(6) {
			case 0:
				j.end(bus.CodeEngineFailed)
			case 1:
				j.chunk(bus.Chunk{Extra: []bus.Extra{{Choice: json.RawMessage(`{"forged":1}`)}}})
				j.say("more")
				j.endHere()
			default:
				j.endHere()
			}
		})
		var all sync.WaitGroup
		statuses := map[int]int{}
		for i := range 300 {
			all.Go(func() {
				time.Sleep(time.Duration(dice(100000)) * time.Millisecond)
				path, body := "/v1/chat/completions", large(dice(60000), "")
				if dice(4) == 0 {
					path = "/v1/responses"
					body = fmt.Sprintf(`{"input":%q}`, strings.Repeat("x", dice(20000)))
				} else if dice(4) == 0 {
					path = "/v1/messages"
				} else if dice(3) == 0 {
					body = strings.TrimSuffix(body, "}") + fmt.Sprintf(`,"n":%d`, 2+dice(7)) + "}"
				}
				if dice(2) == 0 {
					body = strings.TrimSuffix(body, "}") + `,"stream":true}`
				}
				var header []string
				switch dice(4) {
				case 0:
					header = []string{"Idempotency-Key", fmt.Sprint("once ", i/3)}
				case 1:
					header = []string{"X-Souk-Resume", "on"}
				}
				ctx, leave := context.WithTimeout(t.Context(), 2*time.Minute)
				defer leave()
				if dice(3) == 0 {
					time.AfterFunc(time.Duration(dice(3000))*time.Millisecond, leave)
				}
				in := io.Reader(strings.NewReader(body))
				if dice(4) == 0 { // it comes in two parts
					from, to := io.Pipe()
					go func() {
						io.WriteString(to, body[:len(body)/2])
						time.Sleep(time.Duration(dice(3000)) * time.Millisecond)
						io.WriteString(to, body[len(body)/2:])
						to.Close()
					}()
					in = from
				}
				r, err := st.client.Do(st.request(ctx, path, in, header...))
				if err != nil {
					return
				}
				defer r.Body.Close()
				mu.Lock()
				statuses[r.StatusCode]++
				mu.Unlock()
				for buf := make([]byte, 4096); err == nil; _, err = r.Body.Read(buf) {
					st.look()
					time.Sleep(time.Duration(dice(200)) * time.Millisecond)
				}
			})
		}
		all.Wait()
		time.Sleep(5 * time.Minute) // all that is kept is forgotten
		synctest.Wait()
		stats := st.s.Stats()
		if stats.Memory != 0 || stats.Open != 0 || stats.Kept != 0 {
			t.Errorf("in the end: %+v", stats)
		}
		if st.lowest.Load() < 0 || st.highest.Load() > 16<<20 || st.highest.Load() < 1<<20 {
			t.Errorf("between %d and %d bytes were counted", st.lowest.Load(), st.highest.Load())
		}
		t.Log(statuses)
		if statuses[200] < 30 || stats.Streams == 0 || stats.Wholes == 0 || stats.Left == 0 ||
			stats.Cut[bus.CodeAgentFailed] == 0 {
			t.Errorf("%v, %+v", statuses, stats)
		}
	})
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// D8: bodies that come slowly, tasks of which the market says nothing, streams that nobody reads, whole
// answers, kept ones and their items, all as many and as large as they may be, take no more memory than is
// stated. Meanwhile a new request is refused before its body is read, and may come again; and when they have
// gone it is served.
func TestD8MemoryIsBoundedWithAllLimitsReached(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	const most = 16 << 20
	onStage(t, small, func(t *testing.T, st *stage) {
		st.will(func(j *job) {
			if strings.Contains(string(j.Body), "silence") {
				<-j.stop
				j.refuse(bus.CodeCancelled)
				return
			}
			j.accept()
			n := 100
			if strings.Contains(string(j.Body), "short") {
				n = 4
			}
			for range n {
				if !j.chunk(bus.Chunk{Text: strings.Repeat("y", 20<<10), Tokens: make([]uint32, 100),
					Count: 100}) {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			j.endHere()
		})
		before := heap()
		for i := range 40 { // kept ones, and items
			st.do("/v1/responses", `{"input":"short","stream":true}`, "Idempotency-Key", fmt.Sprint("kept ", i))
		}
		if n := st.look(); n < 3<<20 {
			t.Errorf("kept answers and items take %d bytes", n)
		}
		var conns []net.Conn
		open := func(path, body, header string, part int) {
			c := st.dial()
			conns = append(conns, c)
			text := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s"+
				"Content-Length: %d\r\n\r\n%s", path, st.key, header, len(body), body)
			go func() {
				io.WriteString(c, text[:len(text)-part]) // what is not taken waits
				if part == 0 {
					io.ReadFull(c, make([]byte, 20)) // and then no more
				}
			}()
		}
		const chats = "/v1/chat/completions"
		for i := range 20 {
			open(chats, large(400<<10, ""), "", 10)
			open(chats, large(300<<10, `,"n":8,"user":"silence"`), "", 0)
			open(chats, large(20, `,"stream":true`), "", 0)
			open(chats, large(20, ``), "", 0)
			open("/v1/responses", `{"input":"x","stream":true}`, "X-Souk-Resume: on\r\n", 0)
			for range 20 {
				time.Sleep(10 * time.Millisecond)
				if n := st.look(); n > most {
					t.Fatalf("round %d: %d bytes of %d are counted", i, n, most)
				}
			}
		}
		if st.highest.Load() < most/2 {
			t.Errorf("no limit was reached: %d bytes of %d", st.highest.Load(), most)
		}
		if grown := heap() - before; grown > 2*most {
			t.Errorf("the heap has grown by %d bytes, where %d are counted and %d allowed", grown, st.look(), most)
		}
		c := st.dial() // a new request, whose body is never sent
		conns = append(conns, c)
		go fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nExpect: 100-continue\r\n"+
			"Content-Length: 500000\r\n\r\n", chats, st.key)
		head := make([]byte, 1024)
		n, err := c.Read(head)
		if err != nil || !strings.Contains(string(head[:n]), " 429 ") ||
			!strings.Contains(string(head[:n]), "Retry-After-Ms") {
			t.Errorf("a new request: %v %s", err, head[:n])
		}
		stats := st.s.Stats()
		if stats.Refused[bus.CodeNoRoom] == 0 {
			t.Errorf("nothing was refused: %+v", stats)
		}
		t.Logf("%d bytes counted at most; %+v", st.highest.Load(), stats)
		for _, c := range conns {
			c.Close()
		}
		time.Sleep(2 * time.Minute)
		if r := st.do(chats, large(500<<10, `,"user":"short"`)); r.status != 200 {
			t.Errorf("when all have gone: %d %.200s", r.status, r.body)
		}
		time.Sleep(2 * time.Minute)
		if n := st.look(); n != 0 || st.lowest.Load() < 0 || st.highest.Load() > most {
			t.Errorf("%d bytes are counted in the end; between %d and %d", n, st.lowest.Load(),
				st.highest.Load())
		}
	})
}

// D8: headers of many small fields that come slowly, without a key, take no more than an eighth; who brings
// more is hung up on. Meanwhile an ordinary request is served, and in the end nothing is counted.
func TestD8HeadersOnTheirWay(t *testing.T) {
	onStage(t, small, func(t *testing.T, st *stage) {
		st.will(func(j *job) {
			j.accept()
			j.say("x")
			j.endHere()
		})
		var conns []net.Conn
		var hung atomic.Int64
		before := heap()
		for range 100 {
			c := st.dial()
			conns = append(conns, c)
			go func() {
				text := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("a:b\r\n", 6000)
				if _, err := io.WriteString(c, text); err != nil {
					hung.Add(1)
				}
			}()
		}
		synctest.Wait()
		const all = 14 << 20 // but for connections
		if n := st.look(); n < all/16 || n > all/8 {
			t.Errorf("headers on their way take %d bytes", n)
		}
		if grown := heap() - before; grown > all {
			t.Errorf("the heap has grown by %d bytes, where %d are counted", grown, st.look())
		}
		if n := hung.Load(); n < 90 || n == 100 {
			t.Errorf("%d of 100 were hung up on", n)
		}
		if r := st.do("/v1/chat/completions", large(20, "")); r.status != 200 {
			t.Errorf("meanwhile: %d %s", r.status, r.body)
		}
		time.Sleep(time.Minute + time.Second) // their time is over
		synctest.Wait()
		if n := st.look(); n != 0 {
			t.Errorf("%d bytes in the end", n)
		}
		for _, c := range conns {
			c.Close()
		}
	})
}

// A body for which a request never has room is too large: whoever is told to come again would do so for ever.
func TestBodiesThatNeverFit(t *testing.T) {
	onStage(t, small, func(t *testing.T, st *stage) {
		for path, size := range map[string]int{"/v1/messages": 1200 << 10, "/v1/chat/completions": 3 << 20,
			"/v1/embeddings": 6 << 20} {
			body := strings.NewReader(strings.Repeat(" ", size))
			a, err := st.client.Do(st.request(t.Context(), path, body))
			if err != nil {
				t.Fatal(err)
			}
			said, _ := io.ReadAll(a.Body)
			a.Body.Close()
			if a.StatusCode != 413 || !strings.Contains(string(said), "max_memory") {
				t.Errorf("%s of %d bytes: %d %s", path, size, a.StatusCode, said)
			}
		}
	})
}

// D8: bodies that come slowly with one key leave half of what is free to all others.
func TestD8OneKeyLeavesRoomForOthers(t *testing.T) {
	onStage(t, small, func(t *testing.T, st *stage) {
		st.will(func(j *job) {
			j.accept()
			j.say("x")
			j.endHere()
		})
		for range 60 {
			c := st.dial()
			go func() {
				fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
					"Content-Length: 500000\r\n\r\n%s", st.key, strings.Repeat("x", 260_000))
				io.Copy(io.Discard, c)
			}()
		}
		synctest.Wait()
		const front = (14 << 20) / 4 * 3
		if n := st.look(); n < front/4 || n > front/2+64<<10 {
			t.Errorf("the bodies of one key take %d bytes of %d", n, front)
		}
		mine, other := st.key, st.other
		body := large(400_000, "")
		r := st.do("/v1/chat/completions", body)
		if r.status != 429 || !strings.Contains(r.body, "this key") {
			t.Errorf("one more of the same key: %d %s", r.status, r.body)
		}
		st.key = other
		if r := st.do("/v1/chat/completions", body); r.status != 200 {
			t.Errorf("one of another key: %d %s", r.status, r.body)
		}
		st.key = mine
		time.Sleep(time.Minute + time.Second) // idle connections are closed after a minute
		if r := st.do("/v1/chat/completions", body); r.status != 200 {
			t.Errorf("when they have gone: %d %s", r.status, r.body)
		}
		synctest.Wait()
		if n := st.look(); n != 0 {
			t.Errorf("%d bytes in the end", n)
		}
	})
}

// What a body takes is what has come of it, not what its header says that will.
func TestABodyTakesWhatHasCome(t *testing.T) {
	onStage(t, small, func(t *testing.T, st *stage) {
		for range 40 {
			c := st.dial()
			go fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
				"Content-Length: 500000\r\n\r\n%s", st.key, strings.Repeat("x", 5000))
		}
		synctest.Wait()
		if n := st.look(); n < 40*5000 || n > 40*10000 {
			t.Errorf("40 bodies of which 5,000 bytes have come take %d", n)
		}
		time.Sleep(time.Minute + time.Second)
		if n := st.look(); n != 0 || st.s.Stats().Refused[bus.CodeBadRequest] != 40 {
			t.Errorf("%d bytes in the end, %+v", n, st.s.Stats())
		}
	})
}

// Where answers that run grow beyond the bound, kept ones go, and then the one with most unread is cut; who
// reads has all of its answer.
func TestTheOneWithMostUnreadIsCut(t *testing.T) {
	onStage(t, func(c *gateway.Config) {
		small(c)
		c.MaxMemory, c.MaxUnread, c.MaxConns, c.WriteWithin = 8<<20, 32<<20, 16, time.Hour
		c.MaxKept, c.MaxItems = 1<<20, 1<<20
	}, func(t *testing.T, st *stage) {
		st.will(func(j *job) {
			j.accept()
			if strings.Contains(string(j.Body), "much") { // it grows no more when room is needed
				for range 120 {
					j.chunk(bus.Chunk{Text: strings.Repeat("y", 40<<10), Count: 1})
					time.Sleep(time.Millisecond)
				}
				<-j.stop
			}
			for range 120 {
				if !j.chunk(bus.Chunk{Text: strings.Repeat("y", 40<<10), Count: 1}) {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			j.endHere()
		})
		unread := func(more string) *http.Response {
			r, err := st.client.Do(st.request(t.Context(), "/v1/chat/completions",
				strings.NewReader(large(10, `,"stream":true`+more))))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		much, some := unread(`,"user":"much"`), unread(``)
		var read reply
		var all sync.WaitGroup
		all.Go(func() { read = st.do("/v1/chat/completions", large(10, `,"stream":true`)) })
		all.Wait()
		if !strings.Contains(read.body, "[DONE]") || strings.Count(read.body, "y") < 120*40<<10 {
			t.Errorf("who reads has %d bytes, and at the end %.300s", len(read.body),
				read.body[max(0, len(read.body)-300):])
		}
		cut, _ := io.ReadAll(much.Body)
		if !strings.Contains(string(cut[max(0, len(cut)-1000):]), `memory is full`) {
			t.Errorf("the one with most unread ends with %.300s", cut[max(0, len(cut)-300):])
		}
		whole, _ := io.ReadAll(some.Body)
		if !strings.Contains(string(whole), "[DONE]") {
			t.Errorf("the one with less unread ends with %.300s", whole[max(0, len(whole)-300):])
		}
		if s := st.s.Stats(); s.Cut[bus.CodeSlowReader] != 1 || st.highest.Load() > 8<<20 {
			t.Errorf("%d bytes at most, %+v", st.highest.Load(), s)
		}
	})
}

// Several answers to one prompt share its body: it is there once, however many they are.
func TestSeveralAnswersShareABody(t *testing.T) {
	onStage(t, small, func(t *testing.T, st *stage) {
		st.will(func(j *job) {
			j.accept()
			<-j.stop
			j.end(bus.CodeCancelled)
		})
		ctx, leave := context.WithCancel(t.Context())
		go st.client.Do(st.request(ctx, "/v1/chat/completions", strings.NewReader(large(500<<10, `,"n":8`))))
		synctest.Wait()
		const task, body = 24 << 10, 512 << 10
		if n := st.look(); n < 500<<10 || n > body+10*task {
			t.Errorf("%d bytes are counted", n)
		}
		leave()
		time.Sleep(time.Minute + time.Second)
		if n := st.look(); n != 0 {
			t.Errorf("%d bytes are counted in the end", n)
		}
	})
}

// While the treasury is silent, or is not there, nobody knows a balance, and it may be asked for again.
func TestABalanceOfASilentTreasury(t *testing.T) {
	for name, there := range map[string]bool{"silent": true, "not there": false} {
		t.Run(name, func(t *testing.T) {
			onStage(t, small, func(t *testing.T, st *stage) {
				if there {
					if _, err := st.them.Subscribe(bus.Root+"ledger.>", "", func(bus.Msg) {}); err != nil {
						t.Fatal(err)
					}
				}
				q := st.request(t.Context(), "/v1/balance", nil)
				q.Method = "GET"
				begun := time.Now()
				r, err := st.client.Do(q)
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(r.Body)
				r.Body.Close()
				if r.StatusCode != 503 || r.Header.Get("Retry-After-Ms") == "" ||
					!strings.Contains(string(text), `"code":"unavailable"`) {
					t.Errorf("%d %v %s", r.StatusCode, r.Header, text)
				}
				if d := time.Since(begun); there != (d == 5*time.Second) {
					t.Errorf("after %v", d)
				}
			})
		})
	}
}
