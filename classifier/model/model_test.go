package model

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"
)

// What a newcomer would try. The model is coarse; these are far from its borders.
func TestNamesPlainQuestions(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"Janet has 3 boxes with 12 apples each. She gives away 7 apples. How many apples does she " +
			"have left?", "math"},
		{"Write a python function that returns the sum of the even numbers of a list.", "code"},
		{"def fib(n):\n    \"\"\"Return the n-th number.\n    >>> fib(10)\n    55\n    \"\"\"\n", "code"},
		{"Does early treatment with statins reduce mortality in patients with acute coronary syndrome?",
			"medicine"},
		{"The Licensee shall not assign this Agreement without the prior written consent of the Licensor. " +
			"Does the clause limit assignment?", "law"},
		{"What is the acceleration of a block of mass 2 kg when a force of 10 N acts on it?", "science"},
	} {
		for _, system := range []string{"", "You are a helpful assistant."} {
			var s Scratch
			if g := Default().Classify(&s, system, c.text); g.Label != c.want {
				t.Errorf("system %q, %q: named %s (%.2f), want %s", system, c.text, g.Label, g.Confidence,
					c.want)
			}
		}
	}
}

func TestNoTextNoName(t *testing.T) {
	var s Scratch
	for _, text := range []string{"", " ", "\n\t", "x"} {
		g := Default().Classify(&s, text, "")
		if text != "x" && (g.Label != "" || g.Confidence != 0) {
			t.Errorf("%q: named %q with confidence %v, want no name", text, g.Label, g.Confidence)
		}
		if math.IsNaN(g.Confidence) {
			t.Errorf("%q: confidence is not a number", text)
		}
	}
}

// Every turn of a session must be named alike: only the first kilobytes count.
func TestReadsABoundedPart(t *testing.T) {
	long := strings.Repeat("what is a cell membrane made of? ", 100) // more than MaxPrompt
	var s Scratch
	a := Default().Classify(&s, "", long)
	b := Default().Classify(&s, "", long+strings.Repeat("def main(): pass\n", 10_000))
	if a != b {
		t.Errorf("text behind %d bytes changed the name: %v, then %v", MaxPrompt, a, b)
	}
	if got := cut("ab\u00e9", 3); got != "ab" {
		t.Errorf("cut inside a character gives %q, want \"ab\"", got)
	}
}

func TestProbabilitiesAreProbabilities(t *testing.T) {
	var s Scratch
	f := func(system, prompt string) bool {
		g := Default().Classify(&s, system, prompt)
		if g.Label == "" {
			return len(s.Features) == 0
		}
		sum, top := 0.0, 0.0
		for _, p := range g.Probabilities[:len(Default().Labels)] {
			if p < 0 || p > 1 {
				return false
			}
			sum += p
			top = max(top, p)
		}
		return math.Abs(sum-1) < 1e-9 && g.Confidence == top
	}
	if err := quick.Check(f, nil); err != nil {
		t.Error(err)
	}
}

// The quick sum of four packed numbers at a time against the plain one.
func TestPackedSumIsThePlainSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	m := Default()
	for range 200 {
		features := make([]uint32, 1+rng.IntN(2000))
		for i := range features {
			features[i] = rng.Uint32N(Buckets)
		}
		var got, want [MaxLabels]float64
		m.logits(features, &got)
		for _, f := range features {
			for l := range m.Labels {
				q := int32(m.rows[f][l/8]>>(8*(l%8))&0xff) - 128
				want[l] += float64(q) * m.step[l]
			}
		}
		for l := range m.Labels {
			want[l] = m.bias[l] + want[l]/math.Sqrt(float64(len(features)))
			if math.Abs(got[l]-want[l]) > 1e-6 {
				t.Fatalf("%d features, label %s: %v, want %v", len(features), m.Labels[l], got[l], want[l])
			}
		}
	}
}

func TestDecodeRefusesOtherFiles(t *testing.T) {
	good := shipped
	for name, data := range map[string][]byte{
		"empty":        nil,
		"other Magic":  append([]byte("SOUKDOM9"), good[8:]...),
		"cut short":    good[:len(good)-1],
		"one too many": append(bytes.Clone(good), 0),
		"no labels":    append([]byte(Magic), 0),
		"many labels":  append([]byte(Magic), 200),
		"label cut":    append([]byte(Magic), 2, 9, 'x'),
		"not a number": bytes.Replace(good, good[temperatureAt(good):temperatureAt(good)+4],
			[]byte{0, 0, 0xc0, 0x7f}, 1),
		"temperature 0": bytes.Replace(good, good[temperatureAt(good):temperatureAt(good)+4],
			[]byte{0, 0, 0, 0}, 1),
	} {
		if _, err := Decode(data); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func temperatureAt(file []byte) int {
	at := len(Magic) + 1
	for range file[len(Magic)] {
		at += 1 + int(file[at])
	}
	return at
}

// Words and pairs of words are features, punctuation alone and digits alike.
func TestWordsAreFeatures(t *testing.T) {
	var s Scratch
	hash := func(word string) uint64 {
		h := uint64(seedWord)
		for i := range len(word) {
			h = mix(h, word[i])
		}
		return h
	}
	s.Extract("Be brief.", "If f(x) = 2*x + 12, what is f(3)? Ünïcode, too.")
	pair := (hash("what")*seedBigram ^ hash("is")) * seedChars
	for _, want := range []uint64{hash("brief"), pair, hash("00"), hash("?"), hash("f")} {
		if !slices.Contains(s.Features, bucket(want)) {
			t.Errorf("%#x is missing among the features", want)
		}
	}
}

func TestFeaturesAreDistinct(t *testing.T) {
	var s Scratch
	for range 70_000 { // beyond the stamp's range
		s.Extract("", "aaaa aaaa aaaa")
	}
	seen := map[uint32]bool{}
	for _, f := range s.Features {
		if seen[f] {
			t.Fatalf("bucket %d twice", f)
		}
		seen[f] = true
	}
	if len(s.Features) == 0 {
		t.Fatal("no features after many texts")
	}
}

func TestClassifyAllocatesNothing(t *testing.T) {
	var s Scratch
	m := Default()
	m.Classify(&s, typicalSystem, typicalPrompt)
	if n := testing.AllocsPerRun(100, func() { m.Classify(&s, typicalSystem, typicalPrompt) }); n != 0 {
		t.Errorf("%v allocations for a text, want 0", n)
	}
}

func FuzzClassify(f *testing.F) {
	f.Add("", "what is 2+2")
	f.Add("\xff\xfe", "\xf0\x28\x8c\x28")
	f.Add(strings.Repeat("é", MaxSystem), strings.Repeat("\x00", 100))
	f.Fuzz(func(t *testing.T, system, prompt string) {
		var s Scratch
		g := Default().Classify(&s, system, prompt)
		if g.Confidence < 0 || g.Confidence > 1 || math.IsNaN(g.Confidence) {
			t.Fatalf("confidence %v", g.Confidence)
		}
		if utf8.ValidString(prompt) && !utf8.ValidString(cut(prompt, MaxPrompt)) {
			t.Fatal("cut inside a character")
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(Magic))
	f.Add(shipped[:200])
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := Decode(data); err == nil {
			var s Scratch
			m.Classify(&s, "", "some text")
		}
	})
}

const typicalSystem = "You are a helpful assistant. Answer the user's question."
const typicalPrompt = "A 45-year-old woman comes to the physician because of a 3-month history of fatigue " +
	"and a weight gain of 5 kg (11 lb). " +
	"She has had constipation and dry skin during this time. Her pulse is 56/min and blood pressure is " +
	"130/85 mm Hg. Physical examination " +
	"shows delayed relaxation of the deep tendon reflexes. Laboratory studies show a TSH of 12 mU/L. Which " +
	"of the following is the most likely diagnosis, " +
	"and how would you treat it? Explain what other diseases you would consider, which tests you would ask " +
	"for next, and what the patient " +
	"should be told about the years to come."

func BenchmarkClassify(b *testing.B) {
	m := Default()
	for _, c := range []struct{ name, system, prompt string }{
		{"typical", typicalSystem, typicalPrompt},
		{"short", "", "What is the capital of France?"},
		{"longest", strings.Repeat(typicalPrompt, 4), strings.Repeat(typicalPrompt, 4)},
	} {
		b.Run(c.name, func(b *testing.B) {
			var s Scratch
			b.ReportAllocs()
			b.SetBytes(int64(len(c.system) + len(c.prompt)))
			for b.Loop() {
				m.Classify(&s, c.system, c.prompt)
			}
		})
	}
}
