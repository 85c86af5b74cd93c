package agentd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"

	"souk/bus"
)

// Spool is the state of a file with the pending completions of one agent, so that what was served is paid
// even if the agent is killed before its hub has heard of it. The file begins with spoolHead. Then come
// entries, each with its length and CRC-32C: a completion and the domain of its hub, or the hold of a
// completion that was acknowledged. An entry that a kill cut off ends the file.
//
// What was written survives a kill. A completion that stays pending for a while is synced, so that it
// survives a power cut as well. One caller at a time, who also writes the file.
type Spool struct {
	agent string
	Size  int64             // of the file
	open  map[string][]byte // entries by hold
	// acknowledgements, which are written along with the next completion; and that, while it is written
	out   []byte
	next  string   // hold of the completion that is being written
	from  int      // in out
	fresh []string // holds added since the last look at what waits
	waits []string // holds added before it; what is in neither is synced, or acknowledged
}

const (
	spoolReport = 1
	spoolDone   = 2

	maxSpoolEntry = 1 << 16 // bytes: a completion has some hundred
	spoolPrefix   = 8       // length and sum before each entry

	// A file larger than spoolSpare is begun anew if nothing in it is pending; one larger than SpoolMost
	// always.
	spoolSpare = 64 << 10
	SpoolMost  = 4 << 20
)

// NewSpool is a spool with the completions that earlier lives have left.
func NewSpool(agent string, left []Report) (*Spool, error) {
	s := &Spool{agent: agent, open: map[string][]byte{}}
	for i := range left {
		entry, err := appendReport(nil, &left[i])
		if err != nil {
			return nil, err
		}
		s.open[left[i].Completion.Hold] = entry
	}
	return s, nil
}

// Full reports whether the file is to be begun anew before the next completion.
func (s *Spool) Full() bool { return s.Size > SpoolMost || s.Size > spoolSpare && len(s.open) == 0 }

// Text is the new file, with what is pending; none says that nothing is.
func (s *Spool) Text() (text []byte, none bool) {
	text = []byte(spoolHead(s.agent))
	for _, hold := range slices.Sorted(maps.Keys(s.open)) {
		text = append(text, s.open[hold]...)
	}
	return text, len(s.open) == 0
}

// Renewed says that text is the file now.
func (s *Spool) Renewed(text []byte) { s.Size, s.out = int64(len(text)), s.out[:0] }

// Add returns what is to be written at the end of the file for a completion, to be followed by Added or Torn
// before anything else.
func (s *Spool) Add(r *Report) (text []byte, err error) {
	s.next, s.from = r.Completion.Hold, len(s.out)
	s.out, err = appendReport(s.out, r)
	return s.out, err
}

// Added says that all of it was written. It reports whether nothing waited for a sync before, so that the
// caller starts its timer.
func (s *Spool) Added() (first bool) {
	first = s.Waiting() == 0
	s.open[s.next] = slices.Clone(s.out[s.from:])
	s.Size += int64(len(s.out))
	s.out = s.out[:0]
	s.fresh = append(s.fresh, s.next)
	return first
}

// Torn says that not all of it was written. left says that a part stayed in the file: since nothing after a
// torn entry is read, the file is begun anew next.
func (s *Spool) Torn(left bool) {
	s.out = s.out[:s.from]
	if left {
		s.Size = SpoolMost + 1
	}
}

// Done says that a completion need not be repeated.
func (s *Spool) Done(hold string) {
	if _, ok := s.open[hold]; ok {
		delete(s.open, hold)
		s.out = appendDone(s.out, hold)
	}
}

// Has reports whether a completion is written down and not acknowledged.
func (s *Spool) Has(hold string) bool { return s.open[hold] != nil }

// Waiting counts the completions that are neither synced nor acknowledged.
func (s *Spool) Waiting() int { return len(s.fresh) + len(s.waits) }

// Look reports whether the file is to be synced, since a completion of the last look is still pending; and
// how many younger ones a sync that begins now makes durable as well, for [Spool.Synced].
func (s *Spool) Look() (sync bool, young int) {
	done := func(hold string) bool { return s.open[hold] == nil }
	s.fresh, s.waits = slices.DeleteFunc(s.fresh, done), slices.DeleteFunc(s.waits, done)
	if len(s.waits) == 0 {
		s.fresh, s.waits = s.waits, s.fresh
		return false, 0
	}
	return true, len(s.fresh)
}

// Synced says that a sync has ended.
func (s *Spool) Synced(young int) { s.fresh, s.waits = slices.Delete(s.fresh, 0, young), s.waits[:0] }

var spoolSum = crc32.MakeTable(crc32.Castagnoli)

// ErrForeign says that a file is no spool, or another agent's.
var ErrForeign = errors.New("not a spool of this agent")

func spoolHead(agent string) string { return "souk completions 1 " + agent + "\n" }

// appendReport adds the entry of a completion.
func appendReport(dst []byte, r *Report) ([]byte, error) {
	data, err := bus.Encode(&r.Completion)
	if err != nil {
		return dst, err
	}
	from := len(dst)
	dst = append(dst, make([]byte, spoolPrefix)...)
	dst = append(dst, spoolReport, byte(len(r.Domain)))
	dst = append(dst, r.Domain...)
	return sealEntry(append(dst, data...), from), nil
}

// appendDone adds the entry of an acknowledgement.
func appendDone(dst []byte, hold string) []byte {
	from := len(dst)
	dst = append(dst, make([]byte, spoolPrefix)...)
	dst = append(dst, spoolDone)
	return sealEntry(append(dst, hold...), from)
}

func sealEntry(dst []byte, from int) []byte {
	entry := dst[from+spoolPrefix:]
	binary.LittleEndian.PutUint32(dst[from:], uint32(len(entry)))
	binary.LittleEndian.PutUint32(dst[from+4:], crc32.Checksum(entry, spoolSum))
	return dst
}

// ReadSpool returns the pending completions of a spool in their order, at most so many, and how many of its
// bytes are whole. Its error is ErrForeign, or says at which byte the damage begins; what is before that is
// good.
func ReadSpool(data []byte, agent string, most int) (open []Report, whole int, err error) {
	head := spoolHead(agent)
	if !strings.HasPrefix(string(data[:min(len(data), len(head))]), head) {
		return nil, 0, ErrForeign
	}
	for whole = len(head); whole < len(data); {
		entry, err := spoolEntry(data[whole:])
		if err == nil {
			open, err = takeEntry(open, entry, agent, most)
		}
		if err != nil {
			return open, whole, fmt.Errorf("byte %d: %w", whole, err)
		}
		whole += spoolPrefix + len(entry)
	}
	return open, whole, nil
}

func spoolEntry(data []byte) ([]byte, error) {
	if len(data) < spoolPrefix {
		return nil, errors.New("an entry is cut off")
	}
	n := binary.LittleEndian.Uint32(data)
	if n == 0 || n > maxSpoolEntry {
		return nil, fmt.Errorf("an entry of %d bytes, want 1 to %d", n, maxSpoolEntry)
	}
	if uint64(len(data)) < spoolPrefix+uint64(n) {
		return nil, errors.New("an entry is cut off")
	}
	entry := data[spoolPrefix : spoolPrefix+n]
	if crc32.Checksum(entry, spoolSum) != binary.LittleEndian.Uint32(data[4:]) {
		return nil, errors.New("an entry's sum does not match it")
	}
	return entry, nil
}

// takeEntry adds the completion of an entry to those that are pending, or takes one away.
func takeEntry(open []Report, entry []byte, agent string, most int) ([]Report, error) {
	of := func(hold string) func(Report) bool {
		return func(r Report) bool { return r.Completion.Hold == hold }
	}
	switch kind, rest := entry[0], entry[1:]; kind {
	case spoolDone:
		return slices.DeleteFunc(open, of(string(rest))), nil
	case spoolReport:
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return open, errors.New("an entry without its domain")
		}
		r := Report{Domain: string(rest[1 : 1+rest[0]])}
		if !bus.ValidID(r.Domain) {
			return open, fmt.Errorf("domain: %.80q is not an id", r.Domain)
		}
		c := &r.Completion
		if err := bus.Decode(rest[1+rest[0]:], c); err != nil {
			return open, err
		}
		switch {
		case c.Agent != agent || c.Outcome == bus.OutcomeFailed:
			return open, fmt.Errorf("a completion of %s, %s: none that is kept here", c.Agent, c.Outcome)
		case slices.ContainsFunc(open, of(c.Hold)):
			return open, nil
		case len(open) >= most:
			return open, fmt.Errorf("more than %d completions", most)
		}
		return append(open, r), nil
	default:
		return open, fmt.Errorf("an entry of kind %d", kind)
	}
}
