package web

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"souk/bus/bustest/golden"
	"souk/cmd/local"
)

// browser is a tab of Chromium, driven by its DevTools protocol as somebody with a keyboard alone would.
type browser struct {
	t       *testing.T
	ws      *websocket.Conn
	session string

	mu      sync.Mutex
	last    int
	replies map[int]chan json.RawMessage
	amiss   []string // what the console of the browser complained of
}

// browse starts Chromium, or skips where there is none.
func browse(t *testing.T) *browser {
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium here")
	}
	profile := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	c := exec.CommandContext(ctx, path, "--headless=new", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage",
		"--no-first-run", "--remote-allow-origins=*", "--hide-scrollbars", "--remote-debugging-port=0",
		"--user-data-dir="+profile,
		"--window-size=1100,800", "about:blank")
	c.WaitDelay = 5 * time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		c.Wait()
	})
	var port, at string
	await(t, "chromium listens", func() bool {
		text, err := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
		port, at, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
		return err == nil && at != ""
	})
	b := &browser{t: t, replies: map[int]chan json.RawMessage{}}
	if b.ws, err = websocket.Dial("ws://127.0.0.1:"+port+at, "", "http://127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	b.ws.MaxPayloadBytes = 64 << 20
	t.Cleanup(func() { b.ws.Close() })
	go b.hear()
	var target struct{ TargetID string }
	b.do(&target, "Target.createTarget", map[string]any{"url": "about:blank"})
	var on struct{ SessionID string }
	b.do(&on, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	b.session = on.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Accessibility"} {
		b.do(nil, domain+".enable", nil)
	}
	return b
}

// await waits until something holds, for half a minute.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("within 30 s it does not come that %s", what)
		}
	}
}

func (b *browser) hear() {
	for {
		var m struct {
			ID     int
			Result json.RawMessage
			Error  json.RawMessage
			Method string
			Params json.RawMessage
		}
		if websocket.JSON.Receive(b.ws, &m) != nil {
			return
		}
		b.mu.Lock()
		switch {
		case m.ID != 0:
			if m.Error != nil {
				b.amiss = append(b.amiss, "devtools: "+string(m.Error))
			}
			b.replies[m.ID] <- m.Result
			delete(b.replies, m.ID)
		case m.Method == "Runtime.exceptionThrown", m.Method == "Log.entryAdded",
			m.Method == "Runtime.consoleAPICalled":
			b.amiss = append(b.amiss, string(m.Params))
		}
		b.mu.Unlock()
	}
}

// do has the browser do something, and waits for it.
func (b *browser) do(result any, method string, params map[string]any) {
	b.t.Helper()
	reply := make(chan json.RawMessage, 1)
	b.mu.Lock()
	b.last++
	id := b.last
	b.replies[id] = reply
	b.mu.Unlock()
	m := map[string]any{"id": id, "method": method, "params": params}
	if params == nil {
		m["params"] = map[string]any{}
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	if err := websocket.JSON.Send(b.ws, m); err != nil {
		b.t.Fatal(err)
	}
	select {
	case text := <-reply:
		if result != nil {
			if err := json.Unmarshal(text, result); err != nil {
				b.t.Fatalf("%s: %v in %s", method, err, text)
			}
		}
	case <-time.After(30 * time.Second):
		b.t.Fatalf("%s: no answer", method)
	}
}

// value evaluates an expression in the page.
func (b *browser) value(expression string) string {
	b.t.Helper()
	var r struct{ Result struct{ Value any } }
	b.do(&r, "Runtime.evaluate", map[string]any{"expression": expression})
	return fmt.Sprint(r.Result.Value)
}

func (b *browser) press(keys ...string) {
	codes := map[string]int{"Tab": 9, "Enter": 13}
	for _, key := range keys {
		for _, kind := range []string{"keyDown", "keyUp"} {
			p := map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
			if key == "Enter" && kind == "keyDown" {
				p["text"] = "\r"
			}
			b.do(nil, "Input.dispatchKeyEvent", p)
		}
	}
}

// reach presses Tab until what has the focus is meant, and complains if nobody would see where the focus is.
func (b *browser) reach(meant string) {
	b.t.Helper()
	for range 100 {
		b.press("Tab")
		if b.value("(e => "+meant+")(document.activeElement)") == "true" {
			if b.value("getComputedStyle(document.activeElement).outlineStyle") == "none" {
				b.t.Errorf("it cannot be seen that %s has the focus", meant)
			}
			return
		}
	}
	b.t.Fatalf("no Tab leads to %s", meant)
}

// shows waits for a page to have a text.
func (b *browser) shows(text string) {
	b.t.Helper()
	await(b.t, "the page shows "+text, func() bool {
		return b.value(fmt.Sprintf("document.readyState === 'complete' && document.body.innerText.includes(%q)",
			text)) == "true"
	})
}

// named complains of what the accessibility tree has no name for.
func (b *browser) named(at string) {
	b.t.Helper()
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name struct{ Value any }
		}
	}
	b.do(&tree, "Accessibility.getFullAXTree", nil)
	roles := map[string]int{}
	for _, n := range tree.Nodes {
		role := fmt.Sprint(n.Role.Value)
		if n.Ignored {
			continue
		}
		roles[role]++
		switch role {
		case "link", "button", "textbox", "combobox", "spinbutton", "table", "heading", "region", "Iframe",
			"navigation":
			if n.Name.Value == nil || n.Name.Value == "" {
				b.t.Errorf("%s: a %s has no name", at, role)
			}
		}
	}
	for _, role := range []string{"main", "heading", "navigation", "banner"} {
		if roles[role] == 0 {
			b.t.Errorf("%s: no %s among %v", at, role, roles)
		}
	}
}

// picture takes one of the page for the manual, with -update; a page too large for one is an error.
func (b *browser) picture(name string) {
	b.t.Helper()
	var shot struct{ Data string }
	if name != "playground" {
		b.value("scrollTo(0, 0)")
	}
	b.do(&shot, "Page.captureScreenshot", map[string]any{"format": "png"})
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil || len(data) < 5000 || len(data) > 200<<10 {
		b.t.Errorf("%s: %d bytes, %v", name, len(data), err)
	}
	if *golden.Update {
		if err := os.WriteFile(filepath.Join("../../deploy/console", name+".png"), data, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

// Somebody with a keyboard alone logs in, walks through all pages, asks in the playground, and watches the
// market: in a browser that runs the script and in one that does not. Its console has nothing to complain of.
func TestInABrowser(t *testing.T) {
	if os.Getenv("SOUK_SOAK") == "" {
		t.Skip("a browser takes its time: SOUK_SOAK=1")
	}
	b := browse(t)
	f := openedWith(t, local.Default())
	f.every = time.Second
	key, err := local.ReadKey(f.market.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	token, err := Token(f.data, Operator, false)
	if err != nil {
		t.Fatal(err)
	}
	crowd(t, f.market.State.HTTP, key)
	write := func(text string) { b.do(nil, "Input.insertText", map[string]any{"text": text}) }

	b.do(nil, "Page.navigate", map[string]any{"url": f.Address})
	b.shows("Token")
	write(token)
	b.press("Enter")
	b.shows("All is well")
	for _, v := range entries(true) {
		b.reach(fmt.Sprintf("e.getAttribute('href') === %q", v.Path))
		b.press("Enter")
		b.shows(v.Name)
		await(t, "it is that page", func() bool { return b.value("location.pathname") == v.Path })
		if b.value("!!document.getElementById('live').dataset.from") == "true" {
			b.shows("Live.")
		}
		if v.Path == "/rounds" {
			await(t, "rounds come by themselves",
				func() bool { return b.value("document.querySelectorAll('tbody tr').length > 5") == "true" })
			b.reach("(e.getAttribute('href') || '').startsWith('/rounds/')")
			at := b.value("document.activeElement.getAttribute('href')")
			before := b.value("document.querySelector('tbody a').href")
			await(t, "more come",
				func() bool { return b.value("document.querySelector('tbody a').href") != before })
			if now := b.value("document.activeElement.getAttribute('href')"); now != at {
				t.Errorf("the focus was on %s, and is on %s", at, now)
			}
		}
		if v.Path == "/" {
			await(t, "it is told how much is served", func() bool {
				return b.value("Number(document.querySelector('#sums dd').innerText) > 0") == "true"
			})
		}
		b.named(v.Path)
		switch v.Path {
		case "/":
			b.picture("overview")
		case "/rounds":
			b.press("Enter")
			b.shows("How it went")
			b.named("a round")
			b.picture("round")
		}
	}
	b.reach("e.id === 'key'")
	write(key)
	b.reach("e.id === 'prompt'")
	write("What is a souk?")
	b.reach("e.type === 'submit' && e.innerText === 'Ask'")
	b.press("Enter")
	await(t, "the bill comes", func() bool {
		return b.value("frames[0].document.body && frames[0].document.body.innerText.includes('Receipt')") == "true"
	})
	b.named("/playground")
	b.value("scrollTo(0, 1e6)")
	b.picture("playground")
	receipt := b.value("frames[0].document.querySelector('td a').getAttribute('href')")
	b.do(nil, "Page.navigate", map[string]any{"url": f.Address + receipt})
	b.shows("Why each price is what it is")
	b.named(receipt)

	b.do(nil, "Emulation.setScriptExecutionDisabled", map[string]any{"value": true})
	for _, v := range entries(true) {
		b.do(nil, "Page.navigate", map[string]any{"url": f.Address + v.Path})
		b.shows(v.Name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.amiss) > 0 {
		t.Errorf("the browser's console: %s", strings.Join(b.amiss, "\n"))
	}
}

// crowd asks for more than there is room for at once, again and again, until the test ends.
func crowd(t *testing.T, gateway, key string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		asking.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	for i := range 20 {
		asking.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				body := fmt.Sprintf(`{"max_tokens": 400, "messages": [{"role": "user", "content": "Question %d of %d: why is `+
					`the sky of deserts so clear at night?"}], "souk": {"terms": {"worth": 0.000%d}}}`, n, i,
					i%9+1)
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway+"/v1/chat/completions",
					strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Authorization", "Bearer "+key)
				reply, err := http.DefaultClient.Do(r)
				if err != nil {
					continue
				}
				text, _ := io.ReadAll(reply.Body)
				reply.Body.Close()
				if reply.StatusCode == http.StatusBadRequest {
					t.Errorf("%s", text)
					return
				}
			}
		})
	}
}
