package quality

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// What was learned is written down as it is: the same judgements give the same Q, whether the hub was started
// anew in between or not.

// mostName bounds a name that is read, in bytes.
const mostName = 256

// Append appends what was said of an agent.
func (a *Agent) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(a.domains)))
	for i := range a.domains {
		d := &a.domains[i]
		dst = appendName(dst, d.domain)
		for k := range d.said {
			t := &d.said[k]
			dst = binary.AppendUvarint(appendFloats(dst, t.weight, t.sum), t.count)
		}
		dst = binary.AppendUvarint(dst, uint64(len(d.voices)))
		for k := range d.voices {
			v := &d.voices[k]
			dst = appendFloats(appendName(dst, v.client), v.paid, v.weight, v.sum)
		}
	}
	return dst
}

func appendName(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendFloats(dst []byte, of ...float64) []byte {
	for _, x := range of {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
	}
	return dst
}

// Read reads what Append wrote at the beginning of data, and returns the rest. On an error nothing was read.
func Read(data []byte) (Agent, []byte, error) {
	r := reader{data: data}
	var a Agent
	for last, i := "", r.count(domainsKept); i > 0 && r.err == nil; i-- {
		d := inDomain{domain: r.name(last)}
		last = d.domain
		for k := range d.said {
			t := &d.said[k]
			t.weight, t.sum = r.share(memory[k])
			t.count = r.uvarint()
		}
		for voice, k := "", r.count(voicesKept); k > 0 && r.err == nil; k-- {
			v := voiceOf(&r, voice)
			voice = v.client
			d.voices = append(d.voices, v)
		}
		a.domains = append(a.domains, d)
	}
	if r.err != nil {
		return Agent{}, data, fmt.Errorf("what is known of an agent's answers: %w", r.err)
	}
	return a, r.data, nil
}

func voiceOf(r *reader, after string) (v voice) {
	v.client = r.name(after)
	v.paid = r.float(1e30)
	v.weight, v.sum = r.share(1e9)
	return v
}

// reader reads until its first error.
type reader struct {
	data []byte
	err  error
}

var errShort = errors.New("it ends too early")

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.data)
	if size <= 0 {
		r.fail(errShort)
		r.data = nil
		return 0
	}
	r.data = r.data[size:]
	return n
}

func (r *reader) count(most uint64) uint64 {
	n := r.uvarint()
	if n > most {
		r.fail(fmt.Errorf("%d is more than %d", n, most))
		return 0
	}
	return n
}

// name is one that comes after another.
func (r *reader) name(after string) string {
	n := r.count(mostName)
	if n > uint64(len(r.data)) {
		r.fail(errShort)
		return ""
	}
	s := string(r.data[:n])
	r.data = r.data[n:]
	if s <= after || !utf8.ValidString(s) {
		r.fail(fmt.Errorf("%q after %q: names are not in order", s, after))
	}
	return s
}

// float is a number from 0 to most.
func (r *reader) float(most float64) float64 {
	if len(r.data) < 8 {
		r.fail(errShort)
		r.data = nil
		return 0
	}
	x := math.Float64frombits(binary.LittleEndian.Uint64(r.data))
	r.data = r.data[8:]
	if !(x >= 0 && x <= most) {
		r.fail(fmt.Errorf("%v is not from 0 to %v", x, most))
		return 0
	}
	return x
}

// share is a weight and a sum of as many shares.
func (r *reader) share(most float64) (weight, sum float64) {
	weight = r.float(float64(most * (1 + 1e-9)))
	return weight, r.float(float64(weight * (1 + 1e-9)))
}
