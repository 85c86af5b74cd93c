package integration

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/local"
)

// Keys, creds and prompts are in no log, at the most talkative level, and in no file but those meant for
// them: a seed is in its own file, a client's key and creds in theirs, the key of cache marks in the
// registry's, a prompt nowhere.
func TestSecretsAndPromptsStayWhereTheyBelong(t *testing.T) {
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
	if err := m.Keys().Revoke(local.FirstClient, m.State().Started); err != nil {
		t.Fatal(err)
	}
	if err := m.Reach().Push(t.Context(), m.Keys()); err != nil {
		t.Fatal(err)
	}
	kvs, err := m.Registry().Get(t.Context(), bus.MarksKey)
	if err != nil || len(kvs) != 1 {
		t.Fatalf("the key of cache marks: %d, %v", len(kvs), err)
	}
	var marks bus.MarkKeys
	if err := bus.DecodeEntry(kvs[0].Value, &marks); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files["the log"] = log.String()
	secrets := map[string]string{"canary-3f9c1": ""} // by whose file it may be in
	for _, secret := range []string{string(marks.Keys[0].Key), fmt.Sprintf("%x", marks.Keys[0].Key),
		base64.StdEncoding.EncodeToString(marks.Keys[0].Key)} {
		for path, text := range files {
			if strings.Contains(text, secret) && !strings.HasPrefix(path, filepath.Join(dir, "etcd")) {
				t.Errorf("the key of cache marks is in %s", path)
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
