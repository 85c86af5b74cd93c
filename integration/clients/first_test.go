package clients

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// api.md begins with what most people have, HTTP and openai-python, in ten lines that run as they stand; what
// is for few comes after.
func TestTheFirstLinesOfTheAPI(t *testing.T) {
	page, err := os.ReadFile("../../deploy/api.md")
	if err != nil {
		t.Fatal(err)
	}
	order := []int{}
	for _, what := range []string{"\n## The first answer\n", "\n    import openai\n", "\n## Over HTTP\n",
		"\n| route | |\n", "\n## Over NATS\n"} {
		order = append(order, strings.Index(string(page), what))
	}
	if order[0] < 0 || !slices.IsSorted(order) {
		t.Fatalf("what the page begins with stands at %v", order)
	}
	block, _, _ := strings.Cut(string(page[order[1]+1:]), "\n\n")
	lines := strings.Split(block, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "    ")
	}
	program := strings.Join(lines, "\n")
	if len(lines) != 10 || !strings.Contains(program, "extra_body") {
		t.Errorf("%d lines:\n%s", len(lines), program)
	}
	_, url, key, _ := market(t)
	dir := t.TempDir()
	keys := filepath.Join(dir, "souk-data/keys")
	if err := os.MkdirAll(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(keys, "dev"), []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("SOUK_PYTHON"), "python3"), "-c",
		strings.ReplaceAll(program, "http://127.0.0.1:8080/v1", url))
	c.Dir = dir
	out, err := c.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) || strings.Contains(string(out), "No module named 'openai'") {
		t.Skip("openai-python is not installed")
	}
	said := strings.TrimSpace(string(out))
	if err != nil || !strings.HasPrefix(said, "[{'model': ") || !strings.HasSuffix(said, " credits") {
		t.Errorf("%v:\n%s", err, said)
	}
}
