package ledger

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// What policies set in a round comes back as it was written, with and without what was expected, and stands
// below the task that it was set for.
func TestWhatAPolicySetIsRead(t *testing.T) {
	expected := []Seen{{Prompt: 9, Cached: 4}, {Prompt: 9}, {Prompt: 9}}
	sets := []Set{{"pd", "ann/t", "b", -3}, {"fair", "ann/t", "d", 0}}
	for _, seen := range [][]Seen{nil, expected} {
		f := foreseen(t, seen)
		r := f.Records[0].Round
		r.Round.Edges[1].Toll = -3
		r.Outcome = clearRound(t, r.Round)
		r.Set = sets
		data := AppendFrame(nil, &f)
		got, err := DecodeFrame(data)
		if err != nil || !reflect.DeepEqual(got.Records[0].Round.Set, sets) ||
			!reflect.DeepEqual(got.Records[0].Round.Seen, seen) {
			t.Fatalf("%v: %+v", err, got.Records[0].Round)
		}
		x, err := got.Records[0].Round.Explain()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"\n  policy pd: toll 0.000000003 on b\n", "\n  policy fair: not on d\n"} {
			if !strings.Contains(strings.ReplaceAll(x.String(), "-0.0", "0.0"), want) {
				t.Errorf("no %q in\n%s", want, x.String())
			}
		}
		for i := range data { // every byte has one meaning
			for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
				changed := bytes.Clone(data)
				changed[i] = b
				if got, err := DecodeFrame(changed); err == nil &&
					!bytes.Equal(AppendFrame(nil, &got), changed) {
					t.Fatalf("byte %d as %#x: read as another frame", i, b)
				}
			}
		}
	}
}

// An audit finds what no policy can have set: a toll that the edge does not have, a slot that was offered
// after all; and what is not in order is not read.
func TestWhatNoPolicySet(t *testing.T) {
	findings := func(sets []Set) []Finding {
		f := foreseen(t, nil)
		r := f.Records[0].Round
		r.Round.Edges[1].Toll = -3
		r.Outcome, r.Set = clearRound(t, r.Round), sets
		f, err := DecodeFrame(AppendFrame(nil, &f))
		if err != nil {
			return []Finding{{Invariant: "I17"}}
		}
		check := RoundCheck{Journal: "math", Domain: "maths", Round: f.Records[0].Round}
		return check.Findings()
	}
	for name, c := range map[string]struct {
		sets []Set
		want string
	}{
		"the toll of an edge":   {[]Set{{"pd", "ann/t", "b", -3}}, ""},
		"a part of it":          {[]Set{{"pd", "ann/t", "b", -1}}, ""},
		"of an edge not chosen": {[]Set{{"pd", "ann/t", "z", -9}, {"pd", "ann/zz", "a", 0}}, ""},
		"more than the toll":    {[]Set{{"pd", "ann/t", "b", -4}}, "I6"},
		"a slot after all":      {[]Set{{"pd", "ann/t", "a", 0}}, "I6"},
		"a bonus":               {[]Set{{"pd", "ann/t", "b", 1}}, "I17"},
		"twice":                 {[]Set{{"pd", "ann/t", "b", -1}, {"pd", "ann/t", "b", -2}}, "I17"},
		"out of order":          {[]Set{{"pd", "ann/t", "c", -1}, {"pd", "ann/t", "b", -1}}, "I17"},
		"nothing":               {nil, ""},
	} {
		found := ""
		for _, x := range findings(c.sets) {
			if x.Invariant != "I9" { // the frame has no holds
				found = x.Invariant
			}
		}
		if found != c.want {
			t.Errorf("%s: an audit finds %q, want %q", name, found, c.want)
		}
	}
}

// A round whose edges are of no task or no agent is found, whatever policies are said to have set there.
func TestSetsOfARoundThatIsNone(t *testing.T) {
	for _, at := range [][2]int{{-1, 0}, {9, 0}, {0, -1}, {0, 9}} {
		f := foreseen(t, nil)
		r := f.Records[0].Round
		r.Outcome, r.Set = clearRound(t, r.Round), []Set{{"pd", "ann/t", "b", -3}}
		for i := range r.Round.Edges {
			r.Round.Edges[i].Task, r.Round.Edges[i].Agent = at[0], at[1]
		}
		f, err := DecodeFrame(AppendFrame(nil, &f))
		if err != nil {
			t.Fatal(err)
		}
		check := RoundCheck{Journal: "math", Domain: "maths", Round: f.Records[0].Round}
		if found := check.Findings(); len(found) == 0 || found[0].Invariant != "I6" {
			t.Errorf("edges of task %d on agent %d: found %v", at[0], at[1], found)
		}
	}
}
