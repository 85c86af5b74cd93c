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
	Size  int64               // of the file
	open  map[string]*spooled // by hold
	done  []byte              // acknowledgements, which are written along with the next completion
	next  string              // hold of the completion that is being written
	entry []byte              // its entry
}

// spooled is a completion that is written down.
type spooled struct {
	entry  []byte
	seen   bool // at a look
	synced bool // since then
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
	s := &Spool{agent: agent, open: map[string]*spooled{}}
	for i := range left {
		entry, err := appendReport(nil, &left[i])
		if err != nil {
			return nil, err
		}
		s.open[left[i].Completion.Hold] = &spooled{entry, true, true} // when the file is begun
	}
	return s, nil
}

// Full reports whether the file is to be begun anew before the next completion.
func (s *Spool) Full() bool { return s.Size > SpoolMost || s.Size > spoolSpare && len(s.open) == 0 }

// Text is the new file, with what is pending; none says that nothing is.
func (s *Spool) Text() (text []byte, none bool) {
	text = []byte(spoolHead(s.agent))
	for _, hold := range slices.Sorted(maps.Keys(s.open)) {
		text = append(text, s.open[hold].entry...)
	}
	return text, len(s.open) == 0
}

// Renewed says that text is the file now.
func (s *Spool) Renewed(text []byte) { s.Size, s.done = int64(len(text)), nil }

// Add returns what is to be written at the end of the file for a completion, to be followed by Added or Torn
// before anything else.
func (s *Spool) Add(r *Report) (text []byte, err error) {
	s.next = r.Completion.Hold
	s.entry, err = appendReport(nil, r)
	return append(slices.Clip(s.done), s.entry...), err
}

// Added says that all of it was written.
func (s *Spool) Added() {
	s.open[s.next] = &spooled{entry: s.entry}
	s.Size += int64(len(s.done) + len(s.entry))
	s.done = nil
}

// Torn says that not all of it was written. left says that a part stayed in the file: since nothing after a
// torn entry is read, the file is begun anew next.
func (s *Spool) Torn(left bool) {
	if left {
		s.Size = SpoolMost + 1
	}
}

// Done says that a completion need not be repeated.
func (s *Spool) Done(hold string) {
	if _, ok := s.open[hold]; ok {
		delete(s.open, hold)
		s.done = appendDone(s.done, hold)
	}
}

// Has reports whether a completion is written down and not acknowledged.
func (s *Spool) Has(hold string) bool { return s.open[hold] != nil }

// Look reports whether the file is to be synced, since a completion of the last look is still pending, and
// whether any waits for a sync.
func (s *Spool) Look() (sync, waiting bool) {
	for _, x := range s.open {
		sync, waiting = sync || x.seen && !x.synced, waiting || !x.synced
		x.seen = true
	}
	return sync, waiting
}

// Synced says that a sync has ended that began after the last look.
func (s *Spool) Synced() {
	for _, x := range s.open {
		x.synced = x.seen
	}
}

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
