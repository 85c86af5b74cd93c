// Package release makes what a user downloads: for each platform an archive of the commands with licences
// and manuals and a bill of materials (CycloneDX 1.6), and checksums of all. The same commit gives the same
// bytes.
package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// Platform is an operating system and an architecture, as Go names them.
type Platform struct{ OS, Arch string }

// Platforms lists what a release is made for.
var Platforms = []Platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func (p Platform) String() string { return p.OS + "-" + p.Arch }

// Release names the commit of a checkout, and the version that it becomes.
type Release struct {
	Tree    string    // root of the checkout
	Version string    // as v0.1.0
	Commit  string    // hex
	Time    time.Time // of the commit: of every file in an archive
}

// Sums is the file of checksums, as sha256sum writes and reads it.
const Sums = "SHA256SUMS"

// Open reads what is checked out in tree. A tree with changes is none that anybody else could build, and a
// version that CHANGELOG.md does not tell of is none yet: errors that say so.
func Open(ctx context.Context, tree, version string) (*Release, error) {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return nil, fmt.Errorf("version %q: write it as v0.1.0 (semver.org)", version)
	}
	changed, err := run(ctx, tree, nil, "git", "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changed != "" {
		return nil, fmt.Errorf("the checkout has changes, so nobody else could make this release: commit them, or "+
			"release a clone:\n%s", changed)
	}
	log, err := os.ReadFile(filepath.Join(tree, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	if !regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(version) + `\b`).Match(log) {
		return nil, fmt.Errorf("CHANGELOG.md has no heading \"## %s\": say first what it brings", version)
	}
	said, err := run(ctx, tree, nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return nil, err
	}
	commit, at, _ := strings.Cut(said, " ")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("time of commit %s: %w", commit, err)
	}
	return &Release{Tree: tree, Version: version, Commit: commit, Time: time.Unix(seconds, 0).UTC()}, nil
}

// Make builds the commands for each platform and writes archives, bills of materials and their checksums into
// out, an empty folder. Progress goes to say, a line each.
func (r *Release) Make(ctx context.Context, out string, platforms []Platform, say io.Writer) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if there, err := os.ReadDir(out); err != nil || len(there) > 0 {
		return errors.Join(err, fmt.Errorf("%s is not empty: what is there would be signed with the release", out))
	}
	for _, p := range platforms {
		fmt.Fprintf(say, "building %s for %s\n", r.Version, p)
		if err := r.make(ctx, out, p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	sums, err := Checksums(out)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, Sums), sums, 0o644)
}

func (r *Release) make(ctx context.Context, out string, p Platform) error {
	at, err := os.MkdirTemp("", "souk-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(at)
	env := []string{"GOOS=" + p.OS, "GOARCH=" + p.Arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off"}
	if _, err := run(ctx, r.Tree, env, "go", "build", "-trimpath", "-buildvcs=true",
		"-ldflags", "-s -w -X souk/cmd/daemon.linked="+r.Version, "-o", at+"/", "./cmd/..."); err != nil {
		return err
	}
	built, err := filepath.Glob(filepath.Join(at, "*"))
	if err != nil {
		return err
	}
	mods := map[string]*debug.Module{}
	var files []File
	for _, name := range built {
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range info.Deps {
			mods[m.Path] = m
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files = append(files, File{Name: "bin/" + filepath.Base(name), Text: text, Command: true})
	}
	modules := slices.SortedFunc(maps.Values(mods), func(a, b *debug.Module) int {
		return strings.Compare(a.Path, b.Path)
	})
	bill, err := Bill(r, p, modules)
	if err != nil {
		return err
	}
	cache, err := run(ctx, r.Tree, nil, "go", "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	licences, err := Licences(cache, modules)
	if err != nil {
		return err
	}
	own, err := r.own(ctx)
	if err != nil {
		return err
	}
	name := "souk-" + r.Version + "-" + p.String()
	var archive bytes.Buffer
	if err := Archive(&archive, name, r.Time, slices.Concat(files, licences, own)); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(out, name+".tar.gz"), archive.Bytes(), 0o644),
		os.WriteFile(filepath.Join(out, name+".cdx.json"), bill, 0o644))
}

// own are the files of the tree that go with the commands: what says how to run them, and whose they are.
func (r *Release) own(ctx context.Context) (files []File, err error) {
	all, err := run(ctx, r.Tree, nil, "git", "ls-files")
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Split(all, "\n") {
		base := path.Base(name)
		wanted := strings.HasPrefix(name, "deploy/") || path.Dir(name) == "." || licence.MatchString(base)
		if !wanted || strings.HasPrefix(base, ".") || strings.HasPrefix(name, "go.") || name == "Makefile" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.Tree, name))
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: name, Text: text, Command: strings.HasSuffix(name, ".sh")})
	}
	return files, nil
}

// licence matches the names of files in which a module says who may use it, and how.
var licence = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|authors)([-._].*)?$`)

// Licences reads the licences of modules from Go's module cache. A module without one is an error: it may not
// be passed on.
func Licences(cache string, modules []*debug.Module) (files []File, err error) {
	for _, m := range modules {
		if m.Replace != nil {
			m = m.Replace
		}
		at, err := module.EscapePath(m.Path)
		if err != nil {
			return nil, err
		}
		version, err := module.EscapeVersion(m.Version)
		if err != nil {
			return nil, err
		}
		dir := filepath.Join(cache, filepath.FromSlash(at)+"@"+version)
		there, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		found := false
		for _, e := range there {
			if e.IsDir() || !licence.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			found = true
			name := path.Join("licences", m.Path+"@"+m.Version, e.Name())
			files = append(files, File{Name: name, Text: text})
		}
		if !found {
			return nil, fmt.Errorf("module %s@%s has no file of a licence: whether it may be passed on is not known",
				m.Path, m.Version)
		}
	}
	return files, nil
}

// File is a file of an archive.
type File struct {
	Name    string // below the archive's own folder, with slashes
	Text    []byte
	Command bool // may be executed
}

// Archive writes a tar file, compressed, whose bytes depend on its arguments alone: sorted by name, of
// nobody, every file of one time.
func Archive(to io.Writer, folder string, at time.Time, files []File) error {
	z := gzip.NewWriter(to)
	t := tar.NewWriter(z)
	sorted := slices.SortedFunc(slices.Values(files), func(a, b File) int {
		return strings.Compare(a.Name, b.Name)
	})
	for _, f := range sorted {
		mode := int64(0o644)
		if f.Command {
			mode = 0o755
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(folder, f.Name),
			Mode: mode, Size: int64(len(f.Text)), ModTime: at, Format: tar.FormatPAX}); err != nil {
			return err
		}
		if _, err := t.Write(f.Text); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// Checksums returns a line for each file in a folder, but for [Sums] and its signature.
func Checksums(dir string) ([]byte, error) {
	var out bytes.Buffer
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, Sums) {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		sum := sha256.Sum256(text)
		fmt.Fprintf(&out, "%s  %s\n", hex.EncodeToString(sum[:]), name)
		return err
	})
	return out.Bytes(), err
}

// Again makes the release a second time, from a clone elsewhere and with nothing compiled before, and
// compares: what differs is an error that names it.
func (r *Release) Again(ctx context.Context, out string, platforms []Platform, say io.Writer) error {
	at, err := os.MkdirTemp("", "souk-again-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(at)
	tree := filepath.Join(at, "another", "tree")
	if _, err := run(ctx, at, nil, "git", "clone", "--quiet", "--no-hardlinks", r.Tree, tree); err != nil {
		return err
	}
	if _, err := run(ctx, tree, nil, "git", "checkout", "--quiet", r.Commit); err != nil {
		return err
	}
	fmt.Fprintln(say, "the same again from a clone, with nothing compiled before")
	was, set := os.LookupEnv("GOCACHE")
	os.Setenv("GOCACHE", filepath.Join(at, "cache"))
	defer func() {
		if os.Unsetenv("GOCACHE"); set {
			os.Setenv("GOCACHE", was)
		}
	}()
	second := *r
	second.Tree = tree
	if err := second.Make(ctx, filepath.Join(at, "out"), platforms, say); err != nil {
		return err
	}
	return Same(out, filepath.Join(at, "out"))
}

// Same compares the checksums of two folders.
func Same(a, b string) error {
	one, err := os.ReadFile(filepath.Join(a, Sums))
	if err != nil {
		return err
	}
	two, err := os.ReadFile(filepath.Join(b, Sums))
	if err != nil {
		return err
	}
	var differ []string
	for line := range strings.Lines(string(one)) {
		if !strings.Contains(string(two), line) {
			differ = append(differ, strings.Fields(line)[1])
		}
	}
	if len(differ) > 0 || len(one) != len(two) {
		return fmt.Errorf("two builds of one commit differ: %s", strings.Join(differ, ", "))
	}
	return nil
}

// Sign signs the checksums with an SSH key, so that ssh-keygen -Y verify judges them.
func Sign(ctx context.Context, out, key string) error {
	_, err := run(ctx, out, nil, "ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", "file", Sums)
	return err
}

// run runs a program and returns what it printed, trimmed.
func run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	var out, wrong bytes.Buffer
	c.Stdout, c.Stderr = &out, &wrong
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, args[0], err, strings.TrimSpace(wrong.String()))
	}
	return strings.TrimSpace(out.String()), nil
}
