// Package model names the domain of a task from its text.
//
// The model is a softmax regression over hashed n-grams, quantised to one byte a weight, so that a task
// costs microseconds and no network. `lab train` makes it; data/MODEL.md says from what.
package model

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Model is a trained classifier. It never changes and may be used from many goroutines, each with a Scratch
// of its own.
type Model struct {
	Labels      []string // sorted
	Temperature float64  // divides the logits, so that a probability says how often the name is right

	bias [MaxLabels]float64
	step [MaxLabels]float64      // logit of one unit of a quantised weight
	rows [][MaxLabels / 8]uint64 // 16 weights of a bucket, one byte each, 128 above their value
}

// Guess is the answer: the most probable label, and the probability of each in the order of Model.Labels.
type Guess struct {
	Label         string
	Confidence    float64 // 0 to 1: probability of Label
	Probabilities [MaxLabels]float64
}

// Classify names a text. A text without any n-gram gets no label and confidence 0.
func (m *Model) Classify(s *Scratch, system, prompt string) Guess {
	features := s.Extract(system, prompt)
	if len(features) == 0 {
		return Guess{}
	}
	var g Guess
	m.logits(features, &g.Probabilities)
	p := g.Probabilities[:len(m.Labels)]
	Softmax(p, m.Temperature)
	best := 0
	for l := range p {
		if p[l] > p[best] {
			best = l
		}
	}
	g.Label, g.Confidence = m.Labels[best], p[best]
	return g
}

// Renamed says how to read guesses where several labels count as one.
type Renamed struct {
	Labels []string // sorted
	to     [MaxLabels]int
}

// Rename returns a reading in which labels count under other names; those that rename lacks keep theirs.
func (m *Model) Rename(rename map[string]string) *Renamed {
	names := make([]string, len(m.Labels))
	for l, name := range m.Labels {
		names[l] = name
		if to, ok := rename[name]; ok {
			names[l] = to
		}
	}
	r := &Renamed{Labels: slices.Clone(names)}
	slices.Sort(r.Labels)
	r.Labels = slices.Compact(r.Labels)
	for l, name := range names {
		r.to[l], _ = slices.BinarySearch(r.Labels, name)
	}
	return r
}

// Read adds up the probabilities of labels that count as one and returns the most probable name. A text
// without a label gets none, and confidence 0.
func (r *Renamed) Read(g Guess) (label string, confidence float64) {
	if g.Label == "" {
		return "", 0
	}
	var sum [MaxLabels]float64
	for l, p := range g.Probabilities {
		sum[r.to[l]] += p
	}
	best := 0
	for i := range r.Labels {
		if sum[i] > sum[best] {
			best = i
		}
	}
	return r.Labels[best], sum[best]
}

// Bits of a row's two words: every other byte, so that sums of 257 bytes fit in 16 bits.
const (
	evenBytes = 0x00ff00ff00ff00ff
	maxRun    = 257
)

// logits adds up the rows of the features. Four sums share a register, which makes this the cheap half of the
// work.
func (m *Model) logits(features []uint32, out *[MaxLabels]float64) {
	var total [MaxLabels]int32
	n := len(features)
	for len(features) > 0 {
		run := features[:min(maxRun, len(features))]
		features = features[len(run):]
		var a, b, c, d uint64
		for _, f := range run {
			row := &m.rows[f%Buckets]
			a += row[0] & evenBytes
			b += row[0] >> 8 & evenBytes
			c += row[1] & evenBytes
			d += row[1] >> 8 & evenBytes
		}
		for i := range 4 {
			shift := 16 * i
			total[2*i] += int32(a >> shift & 0xffff)
			total[2*i+1] += int32(b >> shift & 0xffff)
			total[8+2*i] += int32(c >> shift & 0xffff)
			total[8+2*i+1] += int32(d >> shift & 0xffff)
		}
	}
	norm := 1 / math.Sqrt(float64(n))
	for l := range m.Labels {
		out[l] = m.bias[l] + float64(total[l]-int32(128*n))*m.step[l]*norm
	}
}

// Magic opens a weights file; its last character is the version of features and layout together.
const Magic = "SOUKDOM1"

// MostBytes bounds a weights file.
const MostBytes = int64(len(Magic)) + 1 + MaxLabels*256 + 4*(1+2*MaxLabels) + Buckets*MaxLabels

// Decode reads a weights file: Magic, number of labels, each label with its length, then little endian
// temperature, biases and steps as float32, then one byte a weight, 128 above its value, label by label of
// each bucket. The model does not refer to data.
func Decode(data []byte) (*Model, error) {
	bad := func(what string) (*Model, error) {
		return nil,
			fmt.Errorf("weights: %s: not a %s file", what, Magic)
	}
	if len(data) < len(Magic)+1 || string(data[:len(Magic)]) != Magic {
		return bad("wrong first bytes")
	}
	n := int(data[len(Magic)])
	data = data[len(Magic)+1:]
	if n < 2 || n > MaxLabels {
		return bad(fmt.Sprintf("%d labels", n))
	}
	m := &Model{rows: make([][2]uint64, Buckets)}
	for range n {
		if len(data) < 1 || data[0] == 0 || len(data) < 1+int(data[0]) {
			return bad("labels cut short")
		}
		m.Labels = append(m.Labels, string(data[1:1+int(data[0])]))
		data = data[1+int(data[0]):]
	}
	if want := 4*(1+2*n) + Buckets*n; len(data) != want {
		return bad(fmt.Sprintf("%d bytes of weights instead of %d", len(data), want))
	}
	finite := true
	float := func() float64 {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
		data = data[4:]
		finite = finite && !math.IsNaN(v) && !math.IsInf(v, 0)
		return v
	}
	m.Temperature = float()
	for l := range n {
		m.bias[l] = float()
	}
	for l := range n {
		m.step[l] = float()
	}
	if !finite || m.Temperature <= 0 {
		return bad("a number that no training yields")
	}
	for f := range m.rows {
		for l := range MaxLabels {
			q := byte(128)
			if l < n {
				q = data[f*n+l]
			}
			m.rows[f][l/8] |= uint64(q) << (8 * (l % 8))
		}
	}
	return m, nil
}

//go:embed domain.weights
var shipped []byte

// Default is the model shipped with this version; see data/MODEL.md for its figures. Each call decodes it
// anew, a megabyte in some milliseconds.
func Default() *Model {
	m, err := Decode(shipped)
	if err != nil {
		panic("model: the embedded weights are broken: " + err.Error())
	}
	return m
}
