package web

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/cmd/local"
	"souk/market"
)

// bare is a console without a market.
func bare(t *testing.T) *Server {
	t.Helper()
	s := &Server{c: Config{Data: t.TempDir()}, market: &local.Lookout{Link: new(local.Link)},
		watcher: new(local.Watcher),
		log:     slog.New(slog.DiscardHandler), slow: time.Second, every: time.Second,
		streams: make(chan struct{}, 1), playing: make(chan struct{}, 1), reading: make(chan struct{}, 1)}
	s.life, s.end = context.WithCancel(t.Context())
	t.Cleanup(s.end)
	s.door = newDoor(s.c.Data, "1", false)
	return s
}

// enter is a request of somebody who came with a token.
func enter(t *testing.T, s *Server, role Role, address string) *http.Request {
	t.Helper()
	token, err := Token(s.c.Data, role, false)
	if err != nil {
		t.Fatal(err)
	}
	w := &recorder{header: http.Header{}}
	r := &http.Request{RemoteAddr: address, Header: http.Header{}, URL: &url.URL{Path: "/"}}
	if ok, _, err := s.door.enter(w, r, token); !ok || err != nil {
		t.Fatalf("%t, %v", ok, err)
	}
	r.Header.Set("Cookie", strings.Split(w.header.Get("Set-Cookie"), ";")[0])
	return r
}

// Whatever others are called, their names are text: nothing of them is markup, leads elsewhere, or ends a
// line of an event. A page of the largest market has a bounded size.
func TestHostileNames(t *testing.T) {
	names := []string{`"><script>alert(1)</script>`, `' onmouseover='alert(1)`,
		"</td></table><img src=x onerror=alert(1)>",
		"javascript:alert(1)", "\x1b[2J\x1b]0;owned\a", "a\r\ndata: <b>\r\n\r\nevent: x", "\u202egnp.exe",
		"{{.}}${7*7}",
		"\xff\xfe\x00", strings.Repeat("宽", 5000)}
	for _, name := range names {
		t.Run(fmt.Sprintf("%.20q", name), func(t *testing.T) {
			p := &picture{Report: &local.Report{Findings: []local.Finding{{Part: name, What: name, Do: name}},
				Survey: &local.Survey{Parts: &local.Parts{Running: []local.Part{{Kind: "hub", Name: name,
					Journal: name, PID: 1,
					Host: name}}},
					Hubs: []local.HubSurvey{{Domain: name, Status: &bus.Status{Regime: name},
						Feed: &bus.Feed{State: &bus.FeedState{
							Hub: name, Agents: []bus.FeedAgent{{Agent: name, Model: name, State: name}}}}}}}}}
			key := bus.APIKey{ID: name, Client: name, Models: []string{name}, Budget: &bus.KeyBudget{Of: name,
				Every: name}}
			row := clientRow{Client: name, Keys: []bus.APIKey{key}, money: money{Err: name,
				Silent: []string{name}}}
			uses, days := usesOf([]bus.HubFunds{{Uses: []tip.Use{{Key: name, Model: name, Paid: 5}}}})
			shown := bus.FeedRound{Number: 1, Pricing: name, Awards: []bus.FeedAward{{Agent: name}},
				Left: []bus.FeedLeft{{Agent: name}}}
			var owed bill
			owed.Souk.Receipt, owed.Souk.Agent, owed.Model, owed.Journal, owed.Number = name, name, name,
				name, name
			for file, data := range map[string]any{
				"overview.html": &overview{picture: p},
				"agents.html":   agentsOf(p.Hubs, &url.URL{RawQuery: "q=" + url.QueryEscape(name)}),
				"models.html": modelsOf([]local.Watched{{Domain: name,
					Status: bus.Status{Models: []bus.ModelStatus{{Model: name}}}}}),
				"rounds.html": []local.WatchedRound{{Journal: name, FeedRound: shown}},
				"round.html":  &roundPage{Journal: name, Shown: &shown, Record: name, NoRecord: name},
				"clients.html": &clientsPage{rowsFrom: rowsFrom[clientRow]{Rows: []clientRow{row}},
					NoKey: name},
				"client.html": &clientPage{clientRow: row, Hubs: []bus.HubFunds{{Hub: name}, {Hub: name,
					AtMS: 5}}, Uses: uses,
					Day: days},
				"playground.html": &playgroundPage{Gateway: name, Models: []string{name}},
				"said.html":       name,
				"login.html":      name,
			} {
				frame := &page{Title: "A page", In: true, Market: name, Stream: "/live/x?q=" +
					url.QueryEscape(name), Hold: "/x", Data: data}
				text, err := render(file, "frame", frame)
				if err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				sound(t, file, string(text))
				live, err := render(file, "live", frame)
				if err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				for _, text := range [][]byte{text, live} {
					if bytes.Contains(text, []byte("<script>")) || bytes.Contains(text, []byte("<img")) ||
						bytes.ContainsAny(text, "\x1b\x00\a") {
						t.Errorf("%s: %s", file, text)
					}
				}
				for line := range bytes.Lines(event(live)) {
					if !bytes.HasPrefix(line, []byte("data: ")) && len(line) > 1 ||
						bytes.ContainsRune(line, '\r') {
						t.Errorf("%s: event has the line %q", file, line)
					}
				}
			}
			begin, err := render("answer.html", "begin", &page{})
			if err != nil {
				t.Fatal(err)
			}
			end, err := render("answer.html", "bill", &page{Data: &owed})
			if err != nil {
				t.Fatal(err)
			}
			sound(t, "answer", string(begin)+string(end))
		})
	}
}

// A page of ten thousand agents has those that have trouble first, leads to the rest, and is there at once.
func TestTenThousandAgents(t *testing.T) {
	var hubs []local.HubSurvey
	for i := range 80 {
		f := &bus.Feed{State: &bus.FeedState{Fleet: 200}}
		for k := range 128 {
			f.State.Agents = append(f.State.Agents, bus.FeedAgent{Agent: fmt.Sprintf("a-%d-%d", i, k),
				Model: "m", Slots: 4})
		}
		hubs = append(hubs, local.HubSurvey{Domain: fmt.Sprint("d", i), Feed: f})
	}
	hubs[79].Feed.State.Agents[127].State = "dead"
	began := time.Now()
	a := agentsOf(hubs, &url.URL{})
	text, err := render("agents.html", "frame", &page{In: true, Data: a})
	t.Logf("%d bytes after %v", len(text), time.Since(began))
	if err != nil || len(text) > 256<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if len(a.Rows) != pageRows || a.Rows[0].Agent != "a-79-127" || a.All != 80*128 || a.Fleet != 16_000 ||
		a.Unseen != 5760 ||
		a.Earlier != "" || a.Later != "?from=251" {
		t.Errorf("%d rows of %d, %d, %d, first %+v, %s", len(a.Rows), a.All, a.Fleet, a.Unseen, a.Rows[0],
			a.Later)
	}
	// page by page to the end and back, all are seen once
	seen, last := map[string]bool{}, a
	for at := ""; ; at = last.Later {
		if last = agentsOf(hubs, &url.URL{RawQuery: strings.TrimPrefix(at, "?")}); last.Later == "" {
			break
		}
		for _, row := range last.Rows {
			seen[row.Hub+row.Agent] = true
		}
	}
	for _, row := range last.Rows {
		seen[row.Hub+row.Agent] = true
	}
	if len(seen) != 80*128 || last.To != last.All || last.Earlier != "?from=9751" {
		t.Errorf("%d were seen; the last page is %d to %d, after %s", len(seen), last.From, last.To,
			last.Earlier)
	}
	for _, q := range []string{"from=-1", "from=x", "from=99999", "from=99999999999999999999"} {
		if c := cutRows([]int{1, 2, 3}, 2, &url.URL{RawQuery: q}); len(c.Rows) == 0 || c.From < 1 ||
			c.To > 3 {
			t.Errorf("%s: %+v", q, c)
		}
	}
	if c := cutRows([]int(nil), 2, &url.URL{}); c.From != 0 || c.To != 0 || c.Earlier+c.Later != "" {
		t.Errorf("of nothing: %+v", c)
	}
}

// Sessions end with their time, with the token they began with, and for who has the most of them, when there
// are too many. Wrong tokens are put off by address; a right one is let in all the same.
func TestWhoIsLetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bare(t)
		viewer, operator := enter(t, s, Viewer, "a:1"), enter(t, s, Operator, "a:1")
		if got := s.door.role(viewer); got != Viewer {
			t.Errorf("a viewer is %q", got)
		}
		time.Sleep(sessionFor - time.Minute)
		for range 2 * mostSessions {
			enter(t, s, Viewer, "a:1")
		}
		if got := s.door.role(viewer); got != "" {
			t.Errorf("of too many the first is %q", got)
		}
		if got := s.door.role(operator); got != Operator || s.door.sessions.Len() > mostSessions {
			t.Errorf("an operator is %q, of %d sessions", got, s.door.sessions.Len())
		}
		time.Sleep(2 * time.Minute)
		if got := s.door.role(operator); got != "" {
			t.Errorf("after its time an operator is %q", got)
		}
		operator = enter(t, s, Operator, "a:1")
		operator.Header.Set("Cookie", operator.Header.Get("Cookie")+"x")
		if got := s.door.role(operator); got != "" {
			t.Errorf("with another cookie an operator is %q", got)
		}

		try := func(address, token string) (bool, time.Duration) {
			ok, wait, err := s.door.enter(&recorder{header: http.Header{}},
				&http.Request{RemoteAddr: address}, token)
			if err != nil {
				t.Error(err)
			}
			return ok, wait
		}
		for i := range wrongASecond + 1 {
			if ok, wait := try("b:1", "guess"); ok || (wait > 0) != (i == wrongASecond) {
				t.Errorf("guess %d: %t, %v", i, ok, wait)
			}
		}
		if _, wait := try("c:1", "guess"); wait > 0 {
			t.Errorf("another address waits %v", wait)
		}
		enter(t, s, Operator, "b:1")
		for i := range mostAddresses + 100 {
			try(fmt.Sprintf("%d:1", i), "")
		}
		if n := s.door.wrong.Len(); n > mostAddresses {
			t.Errorf("%d addresses are remembered", n)
		}
	})
}

// A token that others could have read is good for nothing, nor is one that somebody could guess; another is
// made in its place, for its owner's eyes alone.
func TestTokens(t *testing.T) {
	data := t.TempDir()
	first, err := Token(data, Viewer, false)
	if again, _ := Token(data, Viewer, false); err != nil || again != first || len(first) < 20 {
		t.Errorf("%q, then %q: %v", first, again, err)
	}
	if other, _ := Token(data, Operator, false); other == first {
		t.Error("both roles have one token")
	}
	path := TokenFile(data, Viewer)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for name, spoil := range map[string]func() error{
		"open":  func() error { return os.Chmod(path, 0o644) },
		"short": func() error { return os.WriteFile(path, []byte("secret\n"), 0o600) },
		"empty": func() error { return os.Truncate(path, 0) },
		"no file": func() error {
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
		},
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if token, err := Token(data, Viewer, false); err == nil {
			t.Errorf("%s: %q", name, token)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if token, err := Token(data, Viewer, true); err != nil || token == first {
			t.Errorf("%s: %q, %v", name, token, err)
		}
	}
}

// Who shows a token whose file others can read is told that it is the file that is wrong.
func TestATokenThatOthersCanReadSaysSo(t *testing.T) {
	s := bare(t)
	token, err := Token(s.c.Data, Viewer, false)
	if err := errors.Join(err, os.Chmod(TokenFile(s.c.Data, Viewer), 0o644)); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader("token="+token))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	s.login(w, r)
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "cannot be read") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// Beyond loopback the console speaks TLS, or does not start.
func TestBeyondThisMachine(t *testing.T) {
	for listen, c := range map[string]Config{"not on loopback": {Listen: "0.0.0.0:0"},
		"both":         {Listen: "127.0.0.1:0", Cert: "x"},
		"no such file": {Listen: "0.0.0.0:0", Cert: "x", Key: "y"}, "host:port": {Listen: "nonsense"}} {
		c.Data = t.TempDir()
		s, err := Start(c, &local.Lookout{Link: new(local.Link)}, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), listen) {
			t.Errorf("%+v: %v", c, err)
		}
		if s != nil {
			s.Close()
		}
	}
}

// pipes is a listener without buffers: who writes waits for who reads.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A viewer that reads nothing is cut, and makes room for others; one that reads is told what has changed, and
// now and then that the stream lives. No more are served than may be.
func TestAViewerThatNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bare(t)
		var mu sync.Mutex
		said := "one"
		v := view{path: "/", file: "rounds.html"}
		v.data = func(*Server, *http.Request, Role) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			return []local.WatchedRound{{Journal: said}}, nil
		}
		l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		serve := func(w http.ResponseWriter, r *http.Request) { s.stream(w, r, v) }
		server := &http.Server{Handler: http.HandlerFunc(serve)}
		go server.Serve(l)
		cookie := enter(t, s, Viewer, "a:1").Header.Get("Cookie")
		dial := func() net.Conn {
			near, far := net.Pipe()
			l.conns <- far
			if _, err := fmt.Fprintf(near, "GET / HTTP/1.1\r\nHost: x\r\nCookie: %s\r\n\r\n",
				cookie); err != nil {
				t.Fatal(err)
			}
			return near
		}
		lazy := dial()
		synctest.Wait()
		if len(s.streams) != 1 {
			t.Fatalf("%d streams", len(s.streams))
		}
		second := dial()
		if reply, err := http.ReadResponse(bufio.NewReader(second), nil); err != nil ||
			reply.StatusCode != 503 {
			t.Errorf("one too many: %v, %v", reply, err)
		}
		second.Close()
		time.Sleep(2 * s.slow)
		synctest.Wait()
		if len(s.streams) != 0 {
			t.Error("who does not read is still served")
		}
		lazy.Close()

		good := dial()
		reply, err := http.ReadResponse(bufio.NewReader(good), nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(reply.Body)
		until := func(want string) time.Duration {
			began := time.Now()
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					t.Fatalf("%v before %q", err, want)
				}
				if strings.Contains(line, want) {
					return time.Since(began)
				}
			}
		}
		until("/rounds/one/0")
		mu.Lock()
		said = "two"
		mu.Unlock()
		if took := until("/rounds/two/0"); took > s.every {
			t.Errorf("a change is told after %v", took)
		}
		if took := until("/rounds/two/0"); took < quietFor || took > quietFor+2*s.every {
			t.Errorf("a page that does not change is told again after %v", took)
		}
		if _, err := Token(s.c.Data, Viewer, true); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(lines); err != nil {
			t.Errorf("with its token a stream ends by %v, after %q", err, rest)
		}
		good.Close()
		server.Close()
	})
}

// What takes long to find out is found out once, however many ask; what was found last stands in meanwhile,
// but not for ever.
func TestWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var work sync.WaitGroup
		made := 0
		k := kept[int]{make: func(context.Context) (int, error) {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			made++
			return made, nil
		}}
		get := func(want int, within time.Duration) {
			t.Helper()
			began := time.Now()
			got, err := k.get(t.Context(), t.Context(), &work, 2*time.Second)
			if took := time.Since(began); err != nil || got != want || took > within {
				t.Errorf("%d after %v, %v; want %d within %v", got, took, err, want, within)
			}
		}
		var asking sync.WaitGroup
		for range 100 {
			asking.Go(func() { get(1, time.Second) })
		}
		asking.Wait()
		get(1, 0)
		time.Sleep(3 * time.Second)
		get(1, 0) // and has another made
		time.Sleep(1100 * time.Millisecond)
		get(2, 0)
		time.Sleep(stale)
		get(3, time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		time.Sleep(stale)
		cancel()
		if _, err := k.get(ctx, t.Context(), &work, time.Second); !errors.Is(err, context.Canceled) {
			t.Errorf("who has left: %v", err)
		}
		work.Wait()
		ended := kept[*int]{make: func(context.Context) (*int, error) { return new(int), nil }}
		if got, err := ended.get(t.Context(), ctx, &work, time.Second); !errors.Is(err, context.Canceled) {
			t.Errorf("where all ends before it was found out: %v, %v", got, err)
		}
	})
}

// What a hub sold that is gone is sold no more.
func TestModelsOfASilentHubAreNotShown(t *testing.T) {
	now := time.Now()
	said := func(domain string, ago time.Duration) local.Watched {
		return local.Watched{Domain: domain, Heard: now.Add(-ago), Status: bus.Status{
			Models: []bus.ModelStatus{{Model: "llama"}}}}
	}
	got := modelsOf(speaking([]local.Watched{said("gone", time.Minute), said("math", time.Second)}, now))
	if len(got) != 1 || got[0].Hub != "math" {
		t.Errorf("shown are %+v", got)
	}
}

// How much is served a second is told by each hub's own clock, an hour off or not, and hubs that began anew
// count for nothing.
func TestSpeed(t *testing.T) {
	hour := int64(3_600_000)
	was := &picture{counts: map[string]counts{"a": {1000, 10, market.Credit}, "b": {1000 + hour, 5, 0},
		"c": {9000, 100, 7}}}
	now := &picture{counts: map[string]counts{"a": {3000, 30, 2 * market.Credit}, "b": {2000 + hour, 8, 0},
		"c": {9500, 0, 0},
		"d": {5, 5, 5}}}
	now.speed(was)
	if now.Tasks != 13 || now.Credits != 0.5 {
		t.Errorf("%v tasks and %v credits a second", now.Tasks, now.Credits)
	}
}

// A journal that is gone, or damaged, is told of on the page of its round.
func TestAJournalThatIsNotThere(t *testing.T) {
	s := bare(t)
	explain := func() string {
		_, err := s.explain(t.Context(), "general", 1)
		if err == nil {
			t.Fatal("a round of nothing")
		}
		return err.Error()
	}
	if got := explain(); !strings.Contains(got, "name its data directory") {
		t.Errorf("elsewhere: %s", got)
	}
	s.c.Journals = t.TempDir()
	if got := explain(); !strings.Contains(got, s.c.Journals) || !strings.Contains(got, "no journal") {
		t.Errorf("gone: %s", got)
	}
	wal := filepath.Join(s.c.Journals, "journal", "general", "wal")
	if err := errors.Join(os.MkdirAll(wal, 0o700),
		os.WriteFile(filepath.Join(wal, "0000000000000000-0000000000000000.wal"), bytes.Repeat([]byte("junk"),
			4096), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := explain(); !strings.Contains(got, "general") || !strings.Contains(got, "at byte 0") {
		t.Errorf("damaged: %s", got)
	}
	page, err := render("round.html", "frame", &page{Data: &roundPage{NoRecord: explain()}})
	if err != nil || !bytes.Contains(page, []byte("general")) {
		t.Errorf("%s, %v", page, err)
	}
}
