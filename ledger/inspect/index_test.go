package inspect

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// said lists sums and statements of a random market's journals, over all time and over some.
func (f *fair) said(dir string) (all []string) {
	f.t.Helper()
	for _, p := range []Period{{}, {From: f.paid[len(f.paid)/3].at, To: f.paid[len(f.paid)*2/3].at}} {
		p.Zone = time.UTC
		for _, earned := range []bool{false, true} {
			q := Sums{Period: p, Earned: earned,
				By: []string{"client", "agent", "model", "key", "day", "tag:user"}}
			sums, err := q.Sum(f.t.Context(), sourcesOf(f.t, dir))
			all = append(all, fmt.Sprint(sums, err, q.Missing))
		}
		for _, client := range fairClients[:2] {
			s, err := State(f.t.Context(), sourcesOf(f.t, dir), client, p)
			all = append(all, fmt.Sprintf("%+v %v", s, err))
		}
	}
	return all
}

// Sums and statements are the same with the files beside the log as without, and where these are damaged, of
// other segments, or no files, which are made anew.
func TestSumsAreTheSameByTheFilesBesideTheLog(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	f := newFair(t, seed, 150)
	for range 1000 {
		if f.step(); len(f.paid) > 20 {
			break
		}
	}
	for _, w := range f.hubs {
		for range 35 { // fills a segment
			for f.round(w); len(w.holds) > 1; {
				f.end(w)
			}
		}
	}
	dir := f.data()
	index := func() (files []string) {
		files, err := filepath.Glob(filepath.Join(dir, "journal", "*", "index", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	want := f.said(dir) // most of it without: a file is there once its segment was read to the end
	files := index()
	if len(files) < 2 || len(f.paid) < 10 {
		t.Fatalf("there are %d files and %d payments", len(files), len(f.paid))
	}
	same := func(what string) {
		t.Helper()
		got := f.said(dir)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s: with\n%s\nand without\n%s", what, got[i], want[i])
			}
		}
		if again := index(); !slices.Equal(again, files) {
			t.Errorf("%s: the files are %q, and were %q", what, again, files)
		}
	}
	same("as it is")
	good := map[string][]byte{}
	for _, file := range files {
		good[file] = readFile(t, file)
	}
	for what, spoil := range map[string]func(i int, data []byte) []byte{
		"a bit": func(_ int, d []byte) []byte {
			d[f.rng.IntN(len(d))] ^= 1 << f.rng.IntN(8)
			return d
		},
		"cut":               func(_ int, d []byte) []byte { return d[:f.rng.IntN(len(d))] },
		"longer":            func(_ int, d []byte) []byte { return append(d, 0) },
		"another segment's": func(i int, _ []byte) []byte { return good[files[(i+1)%len(files)]] },
		"nothing":           func(int, []byte) []byte { return nil },
	} {
		for i, file := range files {
			if err := os.WriteFile(file, spoil(i, slices.Clone(good[file])), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		same(what)
		for _, file := range files {
			if string(readFile(t, file)) != string(good[file]) {
				t.Errorf("%s: %s was not made anew", what, file)
			}
		}
	}
	for _, file := range files { // nor is what is no file, or may not be written, in the way
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(file, "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	same("folders")
}

// Who changes such a file so that all of it fits changes sums, and is found by a check.
func TestACheckFindsAFalseFileBesideTheLog(t *testing.T) {
	f := newFair(t, 10, 0)
	w := f.hubs[0]
	f.write(w, ledger.NewAccept(w.name, 1, "ann", 5*market.Credit, f.nextSalt()))
	for range 70 { // fills two segments
		f.round(w)
		for len(w.holds) > 0 {
			f.end(w)
		}
	}
	dir := f.data()
	q := Sums{Period: Period{Zone: time.UTC}, By: []string{"client"}}
	sum := func() string {
		all, err := q.Sum(t.Context(), sourcesOf(t, dir))
		return fmt.Sprint(all, err)
	}
	check := func() (found []string) {
		sum, err := Check(t.Context(), []string{filepath.Join(dir, "journal", w.name)},
			Options{Level: ledger.LevelAcross})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range sum.Findings {
			if x.Level == ledger.LevelAcross && x.Damage { // this market's rounds prove nothing
				found = append(found, x.String())
			}
		}
		return found
	}
	was := sum()
	files, _ := filepath.Glob(filepath.Join(dir, "journal", w.name, "index", "*"))
	if found := check(); len(files) == 0 || len(found) > 0 {
		t.Fatalf("%d files; found %q", len(files), found)
	}
	data := readFile(t, files[0])
	head := 1 + 4 + 4
	var other ledger.Brief
	err := ledger.ReadBrief(data[head:len(data)-len(tip.Sum{})], func(x *ledger.Fact) error {
		if x.Record.Capture != nil {
			x.Record.Capture.Usage.Output += 7
		}
		other.Add(x)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	data = append(data[:head:head], other.Bytes()...)
	s := tip.SumOf(data)
	if err := os.WriteFile(files[0], append(data, s[:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	if sum() == was {
		t.Error("it is not read: the test shows nothing")
	}
	found := check()
	if len(found) != 1 || !strings.Contains(found[0], files[0]+" what") {
		t.Fatalf("found %q", found)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if is := sum(); is != was || len(check()) > 0 {
		t.Errorf("after that %s, and %s before", is, was)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
