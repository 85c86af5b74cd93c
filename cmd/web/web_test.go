package web

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"souk/bus/bustest"
	"souk/cmd/local"
)

// fair is a market with a console.
type fair struct {
	*Server
	market *local.Market
	data   string
	log    bytes.Buffer // of the console; read after its end
}

// opened brings a market of one agent up, and its console.
func opened(t *testing.T) *fair {
	t.Helper()
	cfg, err := local.ParseConfig("market.yaml", []byte(`
listen: 127.0.0.1:0
domains: [{name: general, general: true}]
agents:
  - {id: only, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, slots: 4, scores: [{domain: general,
  	score: 0.5}],
     engine: {profile: rtxpro6000-llama-3.1-8b}}
speedup: 10
clients: {dev: 10}
`))
	if err != nil {
		t.Fatal(err)
	}
	return openedWith(t, cfg)
}

// openedWith brings any market up, and its console.
func openedWith(t *testing.T, cfg local.Config) *fair {
	t.Helper()
	cfg.Listen, cfg.HTTP = "127.0.0.1:0", new(string)
	*cfg.HTTP = "127.0.0.1:0"
	f := &fair{data: t.TempDir()}
	var err error
	f.market, err = local.Start(t.Context(), local.Options{Dir: f.data, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.market.Close(); err != nil {
			t.Error(err)
		}
	})
	at, err := f.market.Lookout()
	if err != nil {
		t.Fatal(err)
	}
	f.Server, err = Start(Config{Listen: "127.0.0.1:0", Data: f.data, Journals: f.data,
		Gateway: f.market.State.HTTP}, at, slog.New(slog.NewTextHandler(&f.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if f.log.Len() > 0 {
			t.Errorf("the console's log: %s", f.log.String())
		}
	})
	return f
}

// visitor is somebody with a browser.
type visitor struct {
	t  *testing.T
	at string
	http.Client
}

// visit is somebody who has logged in as somebody; "": who has not.
func (f *fair) visit(t *testing.T, role Role) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t: t, at: f.Address, Client: http.Client{Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	t.Cleanup(v.CloseIdleConnections)
	if role != "" {
		token, err := Token(f.data, role, false)
		if err != nil {
			t.Fatal(err)
		}
		if status, _ := v.post("/login", url.Values{"token": {token}}); status != http.StatusSeeOther {
			t.Fatalf("login of a %s: %d", role, status)
		}
	}
	return v
}

func (v *visitor) read(r *http.Response, err error) (int, string) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	if got := r.Header.Get("Content-Security-Policy"); got != policy {
		v.t.Errorf("%s: policy %q", r.Request.URL, got)
	}
	return r.StatusCode, string(text)
}

func (v *visitor) get(path string) (int, string) {
	v.t.Helper()
	return v.read(v.Get(v.at + path))
}

func (v *visitor) post(path string, form url.Values) (int, string) {
	v.t.Helper()
	return v.read(v.PostForm(v.at+path, form))
}

// sound judges a page as who reads it by ear, or by keyboard, or without scripts would.
func sound(t *testing.T, at, text string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	ids, labels := map[string]int{}, map[string]bool{}
	attr := func(n *html.Node, name string) string {
		for _, a := range n.Attr {
			if a.Key == name {
				return a.Val
			}
		}
		return ""
	}
	count := map[string]int{}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		count[n.Data]++
		if id := attr(n, "id"); id != "" {
			ids[id]++
		}
		labels[attr(n, "for")] = true
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("%s: %d elements have the id %s", at, n, id)
		}
	}
	heading := 0
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		for _, a := range n.Attr {
			local := strings.HasPrefix(a.Val, "/") || strings.HasPrefix(a.Val, "?") ||
				strings.HasPrefix(a.Val, "#")
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style":
				t.Errorf("%s: %s=%q stands in the page", at, a.Key, a.Val)
			case (a.Key == "href" || a.Key == "src" || a.Key == "action") && !local:
				t.Errorf("%s: %s=%q leads elsewhere", at, a.Key, a.Val)
			case a.Key == "aria-labelledby" && ids[a.Val] != 1:
				t.Errorf("%s: nothing is called %s", at, a.Val)
			}
		}
		switch n.Data {
		case "html":
			if attr(n, "lang") == "" {
				t.Errorf("%s: no language", at)
			}
		case "script":
			if attr(n, "src") == "" {
				t.Errorf("%s: a script stands in the page", at)
			}
		case "style":
			t.Errorf("%s: a style stands in the page", at)
		case "input", "select", "textarea":
			if attr(n, "name") != "username" && !labels[attr(n, "id")] {
				t.Errorf("%s: %s %s has no label", at, n.Data, attr(n, "name"))
			}
		case "iframe":
			if attr(n, "title") == "" {
				t.Errorf("%s: a frame has no title", at)
			}
		case "table":
			first := n.FirstChild
			for first != nil && first.Type != html.ElementNode {
				first = first.NextSibling
			}
			if first == nil || first.Data != "caption" || first.FirstChild == nil {
				t.Errorf("%s: a table has no caption", at)
			}
		case "th":
			if attr(n, "scope") == "" {
				t.Errorf("%s: a heading of a table has no scope", at)
			}
		case "h1", "h2", "h3":
			level := int(n.Data[1] - '0')
			if level > heading+1 {
				t.Errorf("%s: %s after a heading of level %d", at, n.Data, heading)
			}
			heading = level
		}
	}
	for name, want := range map[string]int{"h1": 1, "main": 1, "title": 1} {
		if count[name] != want {
			t.Errorf("%s: %d %s", at, count[name], name)
		}
	}
}

// wants complains of what a page lacks.
func wants(t *testing.T, at, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", at, want, text)
		}
	}
}

// The console of a market, as an operator, a viewer and a stranger see it.
func TestConsole(t *testing.T) {
	f := opened(t)
	key, err := local.ReadKey(f.market.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	operator, viewer, stranger := f.visit(t, Operator), f.visit(t, Viewer), f.visit(t, "")
	question := url.Values{"key": {key}, "model": {"gpt-oss-20b"}, "max_tokens": {"5"},
		"prompt": {"What is <b>a souk?"}}

	t.Run("strangers see nothing", func(t *testing.T) {
		for _, v := range views {
			if status, text := stranger.get(strings.NewReplacer("{$}", "", "{journal}/{number}", "general/1").
				Replace(v.path)); status != http.StatusSeeOther || strings.Contains(text, "general") {
				t.Errorf("%s: %d %s", v.path, status, text)
			}
			if v.live == "" {
				continue
			}
			if status, _ := stranger.get(v.live); status != http.StatusUnauthorized {
				t.Errorf("%s: %d", v.live, status)
			}
		}
		if status, _ := stranger.post("/playground", question); status != http.StatusSeeOther {
			t.Errorf("the playground: %d", status)
		}
		status, text := stranger.get("/login")
		if status != http.StatusOK || strings.Contains(text, f.market.State.NATS) {
			t.Errorf("login: %d %s", status, text)
		}
		sound(t, "/login", text)
	})

	t.Run("an answer streams, and its bill follows", func(t *testing.T) {
		status, text := viewer.post("/playground", question)
		wants(t, "the answer", text, "<h1>Answer</h1>", "Paid", "general/1/0", "5 of output", "</html>")
		sound(t, "the answer", text)
		if status != http.StatusOK || strings.Contains(text, key) {
			t.Errorf("%d %s", status, text)
		}
		for name, change := range map[string][2]string{
			"Give an API key":                     {"key", " "},
			"That is no API key":                  {"key", "a\nb: c"},
			"(invalid_api_key)":                   {"key", key + "x"},
			"Write a prompt":                      {"prompt", "\n"},
			"how many tokens the answer may have": {"max_tokens", "0"},
			"too long for the playground":         {"prompt", strings.Repeat("x", mostForm)},
			"(unknown_model)":                     {"model", "<script>alert(1)</script>"},
		} {
			form := url.Values{}
			for k, v := range question {
				form[k] = v
			}
			form.Set(change[0], change[1])
			status, text := operator.post("/playground", form)
			wants(t, change[0], text, name, "</html>")
			if strings.Contains(text, "<script>") || strings.Contains(text, key) {
				t.Errorf("%s: %d %s", name, status, text)
			}
		}
	})

	t.Run("pages", func(t *testing.T) {
		f.watcher.Look()
		bustest.Eventually(t, "the hub says what it sells", func() bool {
			return len(speaking(f.watcher.Hubs(), time.Now())) > 0
		})
		for path, want := range map[string][]string{
			"/": {"All is well", "Free slots", "of 4", "Paid in, ever", "treasury",
				"gateway", "door"},
			"/models":             {"gpt-oss-20b", "general", "0.07"},
			"/agents":             {"1 of 1 agents", "only", "gpt-oss-20b"},
			"/agents?q=nobody":    {"0 of 1 agents", `value="nobody"`},
			"/rounds":             {"Rounds"},
			"/rounds/general/1":   {"Round 1 of the journal general", "begins now at only", "dev/"},
			"/rounds/general/999": {"has no round 999"},
			"/clients":            {"Clients that have keys: 1", "/client?name=dev", "9.99"},
			"/client?name=dev": {"Money of dev", "By key and model", "for 1 tasks", "gpt-oss-20b",
				"for ever"},
			"/client?name=ghost": {"unknown_client"},
			"/playground":        {"API key", "gpt-oss-20b", `target="answer"`},
		} {
			status, text := operator.get(path)
			if status != http.StatusOK {
				t.Errorf("%s: %d", path, status)
			}
			wants(t, path, text, want...)
			sound(t, path, text)
			began := time.Now()
			operator.get(path)
			t.Logf("%s takes %v", path, time.Since(began).Round(100*time.Microsecond))
			// a viewer sees the market, and nothing of clients
			switch status, text := viewer.get(path); {
			case strings.HasPrefix(path, "/client") && status != http.StatusForbidden:
				t.Errorf("a viewer at %s: %d", path, status)
			case strings.Contains(text, "Paid in, ever"), strings.Contains(text, "dev/"),
				strings.Contains(text, "name=dev"):
				t.Errorf("a viewer sees %s", text)
			}
		}
		for path, want := range map[string]int{"/nothing": 404, "/rounds/general/0": 404,
			"/rounds/..%2f/1":   404,
			"/rounds/general/x": 404, "/client?name=a%00b": 404, "/client": 404, "/static/console.js": 200,
			"/static/console.css": 200, "/static/icon.svg": 200, "/html/frame.html": 404,
			"/agents?from=-5":                   200,
			"/agents?from=99999999999999999999": 200} {
			if status, _ := operator.get(path); status != want {
				t.Errorf("%s: %d, want %d", path, status, want)
			}
		}
	})

	t.Run("a page follows the market", func(t *testing.T) {
		next := f.follow(t, operator, "/live/rounds")
		next("")
		if _, text := viewer.post("/playground", question); !strings.Contains(text, "Paid") {
			t.Fatal(text)
		}
		next("/rounds/general/")
		status, text := operator.get("/rounds")
		wants(t, "rounds", text, "/rounds/general/", "vcg")
		number := f.watcher.Rounds()[0].Number
		status, text = viewer.get(fmt.Sprintf("/rounds/general/%d", number))
		wants(t, fmt.Sprint(status), text, "How it went", "only", "so it is for operators")
	})

	t.Run("a lost token", func(t *testing.T) {
		thief := f.visit(t, Operator)
		next := f.follow(t, thief, "/live/overview")
		next("sums")
		if _, err := Token(f.data, Operator, true); err != nil {
			t.Fatal(err)
		}
		if status, _ := thief.get("/"); status != http.StatusSeeOther {
			t.Errorf("with a token that is another: %d", status)
		}
		next("the end")
		if status, _ := viewer.get("/"); status != http.StatusOK {
			t.Errorf("a viewer's stays: %d", status)
		}
		viewer.post("/logout", nil)
		if status, _ := viewer.get("/"); status != http.StatusSeeOther {
			t.Errorf("after logging out: %d", status)
		}
	})
}

// follow returns what waits for an event with some text in it, or for "the end".
func (f *fair) follow(t *testing.T, v *visitor, path string) func(string) {
	t.Helper()
	f.every = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.at+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := v.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reply.Body.Close() })
	lines := bufio.NewScanner(reply.Body)
	return func(want string) {
		t.Helper()
		for lines.Scan() {
			if want != "the end" && strings.HasPrefix(lines.Text(), "data: ") &&
				strings.Contains(lines.Text(), want) {
				return
			}
		}
		if want != "the end" || lines.Err() != nil {
			t.Errorf("the stream ended (%v) before %q", lines.Err(), want)
		}
	}
}

// Nothing that another site's page has a browser send is taken, nor what comes under another name.
func TestOtherSites(t *testing.T) {
	s := bare(t)
	token, err := Token(s.c.Data, Operator, false)
	if err != nil {
		t.Fatal(err)
	}
	handler := s.handler()
	for _, test := range []struct {
		header, value string
		want          int
	}{{"Origin", "https://evil.example", 403}, {"Sec-Fetch-Site", "cross-site", 403}, {"Sec-Fetch-Site",
		"same-site", 403},
		{"Origin", "null", 403}, {"Origin", "http://127.0.0.1:8090", 303}, {"Sec-Fetch-Site", "same-origin",
			303}} {
		r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:8090/login",
			strings.NewReader(url.Values{"token": {token}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set(test.header, test.value)
		w := &recorder{header: http.Header{}}
		handler.ServeHTTP(w, r)
		if w.status != test.want {
			t.Errorf("%s %s: %d, want %d", test.header, test.value, w.status, test.want)
		}
		for _, c := range w.header["Set-Cookie"] {
			if !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "SameSite=Strict") {
				t.Errorf("cookie %s", c)
			}
		}
	}
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) { w.status = status }

func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }
