package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

func noon() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// linked are the modules that the commands are linked from.
func linked(t *testing.T) []*debug.Module {
	t.Helper()
	c := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "./cmd/...")
	c.Dir = filepath.Join("..", "..", "..")
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var mods []*debug.Module
	for _, line := range slices.Compact(slices.Sorted(strings.Lines(string(out)))) {
		if f := strings.Fields(line); len(f) == 2 { // the product's own has no version
			mods = append(mods, &debug.Module{Path: f[0], Version: f[1]})
		}
	}
	if len(mods) < 20 {
		t.Fatalf("%d modules", len(mods))
	}
	return mods
}

// A bill of materials names each module once, with its version, and is the same each time.
func TestABillOfMaterials(t *testing.T) {
	r := &Release{Version: "v0.1.0", Commit: "abc", Time: noon()}
	mods := linked(t)
	text, err := Bill(r, Platforms[0], mods)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := Bill(r, Platforms[0], mods)
	other, _ := Bill(r, Platforms[1], mods)
	if !bytes.Equal(text, again) || bytes.Equal(text, other) {
		t.Error("bytes do not follow from commit and platform")
	}
	var bill struct {
		SpecVersion, SerialNumber string
		Metadata                  struct{ Timestamp string }
		Components                []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	if bill.SpecVersion != "1.6" || bill.Metadata.Timestamp != "2026-11-30T12:00:00Z" ||
		len(bill.SerialNumber) != len("urn:uuid:00000000-0000-0000-0000-000000000000") {
		t.Errorf("%+v", bill)
	}
	if len(bill.Components) != len(mods) {
		t.Fatalf("%d modules, want %d", len(bill.Components), len(mods))
	}
	for i, c := range bill.Components {
		m := mods[i]
		if c.Name != m.Path || c.Version != m.Version || c.PURL != "pkg:golang/"+c.Name+"@"+c.Version {
			t.Errorf("%+v, want %s", c, m.Path)
		}
	}
}

// Every module that is linked has a licence that goes with the release; one without is not passed on.
func TestLicencesOfWhatIsLinked(t *testing.T) {
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	at, mods := strings.TrimSpace(string(cache)), linked(t)
	files, err := Licences(at, mods)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mods {
		if !slices.ContainsFunc(files, func(f File) bool {
			return strings.HasPrefix(f.Name, "licences/"+m.Path+"@"+m.Version+"/") && len(f.Text) > 0
		}) {
			t.Errorf("no licence of %s", m.Path)
		}
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "example.org/bare@v1.0.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = Licences(dir, []*debug.Module{{Path: "example.org/bare", Version: "v1.0.0"}})
	if err == nil || !strings.Contains(err.Error(), "example.org/bare@v1.0.0") {
		t.Errorf("a module without a licence: %v", err)
	}
}

// An archive's bytes depend on what is in it alone.
func TestAnArchiveIsTheSameEachTime(t *testing.T) {
	files := []File{{Name: "bin/souk", Text: []byte("program"), Command: true},
		{Name: "README.md", Text: []byte("read")}}
	var one, two bytes.Buffer
	if err := Archive(&one, "souk", noon(), files); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	if err := Archive(&two, "souk", noon(), files); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the order of its files shows in its bytes")
	}
	z, err := gzip.NewReader(&one)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, h.Name+" "+h.FileInfo().Mode().String()+" "+h.ModTime.UTC().Format(time.DateTime))
	}
	want := []string{"souk/README.md -rw-r--r-- 2026-11-30 12:00:00",
		"souk/bin/souk -rwxr-xr-x 2026-11-30 12:00:00"}
	if !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}

// checkout makes a repository whose only program is small, and returns its root.
func checkout(t *testing.T) string {
	t.Helper()
	at := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module souk\n\ngo 1.26\n",
		"cmd/souk/main.go": "package main\n\nfunc main() { println(linked) }\n\nvar linked string\n",
		"CHANGELOG.md":     "# Changes\n\n## v0.1.0\n\nThe first.\n", "LICENSE": "ours\n", "deploy/README.md": "how\n",
		"market/data/LICENSE.txt": "theirs\n",
	} {
		if err := os.MkdirAll(filepath.Join(at, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."},
		{"-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "All"}} {
		c := exec.Command("git", args...)
		c.Dir = at
		if out, err := c.CombinedOutput(); err != nil {
			t.Skipf("git: %v: %s", err, out)
		}
	}
	return at
}

// A release of a small checkout has archive, bill and checksums, which sha256sum and ssh-keygen accept, and
// is the same each time. A byte that differs is named.
func TestARelease(t *testing.T) {
	if testing.Short() {
		t.Skip("builds")
	}
	at, out := checkout(t), filepath.Join(t.TempDir(), "out")
	ctx := context.Background()
	for version, want := range map[string]string{
		"0.1.0": "v0.1.0", "v0.1": "v0.1.0", "v0.2.0": "CHANGELOG.md",
	} {
		if _, err := Open(ctx, at, version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", version, err)
		}
	}
	r, err := Open(ctx, at, "v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	here := []Platform{{runtime.GOOS, runtime.GOARCH}}
	if err := r.Make(ctx, out, here, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := r.Make(ctx, out, here, io.Discard); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("into a folder that has files: %v", err)
	}
	sums, err := os.ReadFile(filepath.Join(out, Sums))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{".tar.gz", ".cdx.json"} {
		name := "souk-v0.1.0-" + here[0].String() + kind
		if !strings.Contains(string(sums), "  "+name+"\n") {
			t.Errorf("%s has no line of %s", Sums, name)
		}
	}
	files, err := r.own(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	want := []string{"CHANGELOG.md", "LICENSE", "deploy/README.md", "market/data/LICENSE.txt"}
	if !slices.Equal(names, want) {
		t.Errorf("%q go with the commands, want %q", names, want)
	}
	again := filepath.Join(t.TempDir(), "again")
	if err := r.Make(ctx, again, here, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := Same(out, again); err != nil {
		t.Error(err)
	}
	other := bytes.Replace(sums, sums[:4], []byte("0000"), 1)
	if err := os.WriteFile(filepath.Join(again, Sums), other, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Same(out, again); err == nil || !strings.Contains(err.Error(), "souk-v0.1.0") {
		t.Errorf("builds that differ: %v", err)
	}
	if exec.Command("sha256sum", "--version").Run() == nil {
		c := exec.Command("sha256sum", "--check", "--quiet", Sums)
		c.Dir = out
		if said, err := c.CombinedOutput(); err != nil {
			t.Errorf("sha256sum: %v: %s", err, said)
		}
	}
	t.Run("signed", func(t *testing.T) { signs(t, out) })

	if err := os.WriteFile(filepath.Join(at, "LICENSE"), []byte("other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, at, "v0.1.0"); err == nil || !strings.Contains(err.Error(), "LICENSE") {
		t.Errorf("a checkout with changes: %v", err)
	}
}

// signs has ssh-keygen judge a signature as SECURITY.md says, and one of checksums that were changed.
func signs(t *testing.T, out string) {
	key := filepath.Join(t.TempDir(), "key")
	said, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput()
	if err != nil {
		t.Skipf("ssh-keygen: %v: %s", err, said)
	}
	if err := Sign(t.Context(), out, key); err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	allowed := filepath.Join(t.TempDir(), "allowed")
	if err := os.WriteFile(allowed, append([]byte("souk "), public...), 0o644); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(out, Sums))
	if err != nil {
		t.Fatal(err)
	}
	verify := func(text []byte) error {
		c := exec.Command("ssh-keygen", "-Y", "verify", "-f", allowed, "-I", "souk", "-n", "file", "-s",
			filepath.Join(out, Sums+".sig"))
		c.Stdin = bytes.NewReader(text)
		return c.Run()
	}
	if err := verify(sums); err != nil {
		t.Errorf("its own signature: %v", err)
	}
	if verify(append(sums, 'x')) == nil {
		t.Error("checksums that were changed pass")
	}
	if again, err := Checksums(out); err != nil || !bytes.Equal(again, sums) {
		t.Errorf("checksums count their own file: %v", err)
	}
}
