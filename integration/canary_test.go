package integration

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/local"
)

// D7: keys, creds and prompts are in no log, at the most talkative level, in no error, in no count, and in no
// file but those meant for them: a seed is in its own file, a client's key and creds in theirs, the key of
// prefix hashes in the registry's, a prompt nowhere.
func TestSecretsAndPromptsStayWhereTheyBelong(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	const prompt = "canary-3f9c1 in the souk"
	dir, log := t.TempDir(), new(bustest.Buffer)
	cfg := local.Default()
	anywhere := "127.0.0.1:0"
	cfg.Listen, cfg.HTTP = anywhere, &anywhere
	m, err := local.Start(t.Context(), local.Options{Dir: dir, Config: cfg,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := m.Ask(t.Context(), chat(prompt)); err != nil || a.Result.Code != "" {
		t.Errorf("%+v, %v", a.Result, err)
	}
	files := map[string]string{"the errors": whatIsSaid(t, m, prompt)}
	counts, err := json.Marshal([]any{m.Gateway.Stats(), m.Door.Stats(), m.Hubs[0].Stats()})
	if err != nil {
		t.Fatal(err)
	}
	files["the counts"] = string(counts)
	if err := m.Keys.Revoke(local.FirstClient, m.State.Started); err != nil {
		t.Fatal(err)
	}
	if err := m.Reach().Push(t.Context(), m.Keys); err != nil {
		t.Fatal(err)
	}
	kvs, err := m.Registry.Get(t.Context(), bus.PrefixKeysKey)
	if err != nil || len(kvs) != 1 {
		t.Fatalf("the key of prefix hashes: %d, %v", len(kvs), err)
	}
	var keys bus.PrefixKeys
	if err := bus.DecodeEntry(kvs[0].Value, &keys); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	texts, err := bustest.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range texts {
		files[path] = string(text)
	}
	files["the log"] = log.String()
	secrets := map[string]string{"canary-3f9c1": ""} // by whose file it may be in
	for _, secret := range []string{string(keys.Keys[0].Key), fmt.Sprintf("%x", keys.Keys[0].Key),
		base64.StdEncoding.EncodeToString(keys.Keys[0].Key)} {
		for path, text := range files {
			if strings.Contains(text, secret) && !strings.HasPrefix(path, filepath.Join(dir, "etcd")) {
				t.Errorf("the key of prefix hashes is in %s", path)
			}
		}
	}
	for path, text := range files {
		for _, s := range regexp.MustCompile(`\bS[UOA][A-Z0-9]{50,}\b|sk-souk-\S+`).FindAllString(text, -1) {
			if len(s) > 40 {
				secrets[s] = path
			}
		}
	}
	if len(secrets) < 6 {
		t.Fatalf("only %d secrets: where are they?", len(secrets))
	}
	for secret, home := range secrets {
		inAuth := strings.Contains(home, filepath.Join(dir, "auth")+string(filepath.Separator)) ||
			strings.Contains(home, filepath.Join(dir, "keys")+string(filepath.Separator))
		if home != "" && !inAuth {
			t.Errorf("a secret is in %s", home)
		}
		for path, text := range files {
			if path != home && strings.Contains(text, secret) {
				t.Errorf("%.12s... of %s is in %s, too", secret, home, path)
			}
		}
	}
}

// An engine may say its request again in whatever it says of it: vLLM quotes it where it refuses one. The
// client reads that, since the words are its own. They are in no log, and in no file.
func TestWhatAnEngineSaysOfAPromptIsNotLogged(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	const prompt = "canary-77ab2"
	engine, err := vllmsim.New(vllmsim.Config{Model: "gpt-oss-20b"})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var says atomic.Pointer[func(w http.ResponseWriter, asked string)]
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), prompt) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			engine.ServeHTTP(w, r)
			return
		}
		(*says.Load())(w, string(body))
	}))
	defer front.Close()
	cfg, err := local.ParseConfig("test.yaml",
		[]byte(strings.Replace(one, "{profile: steady}", `{url: "`+front.URL+`"}`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	dir, log := t.TempDir(), new(bustest.Buffer)
	m, err := local.Start(t.Context(), local.Options{Dir: dir, Config: cfg,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	refuses := func(status int) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, asked string) {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"message":%q}}`, asked)
		}
	}
	streams := func(form string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, asked string) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, form, asked)
		}
	}
	for name, f := range map[string]func(http.ResponseWriter, string){
		"refused": refuses(400), "a wrong key": refuses(401), "broken": refuses(500),
		"elsewhere": refuses(302), "full": refuses(503),
		"an error as an event":         streams("data: {\"error\":{\"message\":%q,\"code\":500}}\n\n"),
		"an event that cannot be read": streams("data: {\"choices\":%q}\n\n"),
		"no JSON":                      streams("data: %s\n\n"),
		"no event":                     streams("%s"),
	} {
		says.Store(&f)
		soon := func(t *bus.Task) { t.DeadlineMS = time.Now().Add(5 * time.Second).UnixMilli() }
		told := !strings.HasPrefix(name, "an error")
		for try := 0; try == 0 || !told && try < 5; try++ { // the hub's word may come before the agent's
			a, err := m.Ask(t.Context(), chat(prompt, soon))
			if err == nil && a.Result.Code == "" {
				t.Errorf("%s: it is served: %+v", name, a.Result)
			}
			told = told || strings.Contains(a.Result.Message, prompt)
		}
		if !told {
			t.Errorf("%s: its client is not told", name)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, prompt) {
			t.Errorf("the log says: %s", line)
		}
	}
	texts, err := bustest.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range texts {
		if strings.Contains(string(text), prompt) {
			t.Errorf("the prompt is in %s", path)
		}
	}
	if !strings.Contains(log.String(), "the engine failed a task") {
		t.Error("the log does not say that it failed")
	}
}

// whatIsSaid collects a market's answers to requests that it does not serve, over HTTP and over NATS, each
// with a prompt and a key or creds.
func whatIsSaid(t *testing.T, m *local.Market, prompt string) (said string) {
	t.Helper()
	key, err := local.ReadKey(m.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	messages := fmt.Sprintf(`"messages":[{"role":"user","content":%q}]`, prompt)
	for i, c := range []struct{ path, key, body string }{
		{"/v1/chat/completions", key, `{` + messages + `,"n":99}`},
		{"/v1/chat/completions", key, `{` + messages},
		{"/v1/chat/completions", key, `{` + messages + `,"model":"none-such"}`},
		{"/v1/chat/completions", key, `{` + messages + `,"max_tokens":"` + prompt[:6] + `"}`},
		{"/v1/completions", key, `{` + messages + `}`},
		{"/v1/responses", key, `{"input":"` + prompt + `","background":true}`},
		{"/v1/quote", key, `{` + messages + `,"souk":{"max_price":-1}}`},
		{"/v1/none", key, `{` + messages + `}`},
		{"/v1/chat/completions", key[:len(key)-1], `{` + messages + `}`},
	} {
		r, err := http.NewRequest(http.MethodPost, m.State.HTTP+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+c.key)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil || a.StatusCode < 400 {
			t.Errorf("request %d: %s, %v", i, a.Status, err)
		}
		said += fmt.Sprintln(a.Header, string(text))
	}
	for _, body := range []string{`{` + messages, `{` + messages + `,"n":99}`,
		`{` + messages + `,"souk":7}`} {
		a, err := m.Ask(t.Context(), bus.Task{Client: local.FirstClient, Body: []byte(body)})
		if err == nil && a.Result.Code == "" {
			t.Errorf("%s is served", body)
		}
		said += fmt.Sprintln(a.Result, err)
	}
	return said
}
