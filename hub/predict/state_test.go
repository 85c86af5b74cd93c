package predict

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"souk/bus/learned"
	"souk/market"
)

// history is agents that change their classes and serve whatever comes, and answers of a few clients.
type history struct {
	*rand.Rand
	l Learned
}

func newHistory(seed uint64) *history {
	h := &history{Rand: rand.New(rand.NewPCG(seed, 12)),
		l: Learned{Classes: NewClasses(trees), Outputs: NewOutputs(trees)}}
	for i := range 6 {
		m := NewMeans()
		h.l.Classes.Enter(Key{Model: "llama", Price: market.Price{Out: market.Credits(i / 4)}}, m)
		h.l.Agents = append(h.l.Agents, Learner{fmt.Sprint("a-", i), "llama", m})
	}
	h.l.Classes.Leave(h.l.Agents[5].Means)
	return h
}

// written returns the bytes of the file.
func written(l *Learned) ([]byte, error) {
	s, err := l.Saved()
	if err != nil {
		return nil, err
	}
	data, err := learned.Append(nil, s)
	if err != nil {
		return nil, err
	}
	return learned.Sealed(data)
}

// readLearned reads it.
func readLearned(data []byte) (*Learned, error) {
	var s Saved
	if err := learned.Read(data, &s); err != nil {
		return nil, err
	}
	return s.Restore(trees)
}

// goes on and says what is forecast.
func (h *history) goes(tasks int) string {
	out := sha256.New()
	for range tasks {
		m := h.l.Agents[h.IntN(len(h.l.Agents))].Means
		f := Features{Prompt: 1 + h.IntN(4000), Cached: h.IntN(3000), MaxTokens: 1 + h.IntN(1000),
			Load: Load{Left: time.Duration(h.IntN(1e9)), Decoding: h.IntN(16), Resident: h.IntN(50_000)}}
		o := Observation{Prompt: f.Prompt, Cached: h.IntN(f.Prompt), Output: h.IntN(1000),
			Cut: h.IntN(6) == 0, TTFT: time.Duration(h.Int64N(1e8)), ITL: time.Duration(h.Int64N(25e7))}
		f.Cached = o.Cached
		if u := o.Prompt - o.Cached; u > 1500 { // which no line says
			o.TTFT += 2 * time.Second
		}
		if h.IntN(400) < 8 { // for a while all take longer
			o.TTFT *= 20
		}
		m.Learn(f, o)
		s := Source{Client: fmt.Sprint(h.IntN(5)), Role: fmt.Sprint(h.IntN(2)),
			Session: uint64(h.IntN(9))}
		if s.Prompt, s.Most = f.Prompt, f.MaxTokens; s.Prompt > 2000 {
			h.l.Outputs.Learn(s, 400+h.IntN(50), 400)
		} else {
			h.l.Outputs.Learn(s, h.IntN(50), 400)
		}
		line := m.Line()
		fmt.Fprintln(out, m.Forecast(f), line.Tokens(f.Prompt), m.SlowestITL(), m.OwnITL(),
			h.l.Outputs.Expect(s, 400))
	}
	return fmt.Sprintf("%x", out.Sum(nil))
}

// What was learned is written down and read again whole: from there on the same history gives the same
// forecasts, to the last bit, as where nothing was written down.
func TestTheSameForecastsRestoredOrNot(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	openings, lengths := 0, 0
	for n := range uint64(5) {
		through, broken := newHistory(seed+n), newHistory(seed+n)
		for part := range 4 {
			if a, b := through.goes(600), broken.goes(600); a != b {
				t.Fatalf("part %d: forecasts differ", part)
			}
			data, err := written(&broken.l)
			if err != nil {
				t.Fatal(err)
			}
			l, err := readLearned(data)
			if err != nil {
				t.Fatal(err)
			}
			again, err := written(l)
			if err != nil || !bytes.Equal(again, data) {
				t.Fatalf("what was read is written as something else: %v", err)
			}
			broken.l = *l
			openings += l.Classes.open()
			if l.Outputs.rest.Open() {
				lengths++
			}
		}
	}
	if openings == 0 || lengths == 0 {
		t.Errorf("gates were open %d and %d times: what they add was not looked at", openings, lengths)
	}
}

// A file that is cut, damaged or of another version is refused, and an empty one is.
func TestDamagedLearnedIsRefused(t *testing.T) {
	h := newHistory(1)
	h.goes(300)
	data, err := written(&h.l)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(data); i += 1 + len(data)/200 {
		other := bytes.Clone(data)
		other[i] ^= 4
		for what, bad := range map[string][]byte{"damaged": other, "cut": data[:i]} {
			if _, err := readLearned(bad); err == nil {
				t.Errorf("%s at %d of %d bytes, it was read", what, i, len(data))
			}
		}
	}
}

// However many clients there are, and whatever names their roles have, what is written can be read, and says
// of those most that were heard of last.
func TestManyClientsFit(t *testing.T) {
	o := NewOutputs(trees)
	long := strings.Repeat("x", 1000)
	for i := range 2500 {
		for r := range rolesEach {
			o.Learn(Source{Client: fmt.Sprint("c", i), Role: fmt.Sprint(long, r), Session: 1}, 100, 400)
		}
	}
	l := Learned{Classes: NewClasses(trees), Outputs: o}
	data, err := written(&l)
	if err != nil || len(data) > mostClients+2<<20 {
		t.Fatalf("%d bytes: %v", len(data), err)
	}
	again, err := readLearned(data)
	if err != nil {
		t.Fatal(err)
	}
	last := Source{Client: "c2499", Session: 1}
	if n := again.Outputs.clients.Len(); n < 1000 || n == 2500 ||
		again.Outputs.Expect(last, 400) != o.Expect(last, 400) {
		t.Errorf("%d clients were read, of the last %d tokens are expected, want %d", n,
			again.Outputs.Expect(last, 400), o.Expect(last, 400))
	}
	if _, err := learned.Sealed(make([]byte, learned.Most)); err == nil {
		t.Error("more is sealed than is read")
	}
}

// Whatever a file has, it is refused, or is what was written.
func FuzzReadLearned(f *testing.F) {
	h := newHistory(2)
	h.goes(60)
	data, err := written(&h.l)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Add([]byte("souk learned\n"))
	f.Fuzz(func(t *testing.T, other []byte) {
		if _, err := readLearned(other); (err == nil) != bytes.Equal(other, data) {
			t.Errorf("%d bytes: %v", len(other), err)
		}
	})
}
