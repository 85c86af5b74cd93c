package agentd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"souk/bus"
)

// A spool is a file with the completions of one agent that no hub has acknowledged: what was served is paid even if the agent is killed
// before its hub has heard of it. It begins with SpoolHead; then come entries, each with its length and CRC-32C: a completion and the
// domain that it is for, or the hold of one that was acknowledged. A tail that was cut off by a kill ends it.

const (
	spoolReport = 1
	spoolDone   = 2

	maxSpoolEntry = 1 << 16 // bytes: a completion has some hundred
	spoolPrefix   = 8       // length and sum before each entry
)

var spoolSum = crc32.MakeTable(crc32.Castagnoli)

// ErrForeign says that a file is no spool, or another agent's.
var ErrForeign = errors.New("not a spool of this agent")

// SpoolHead begins a spool.
func SpoolHead(agent string) string { return "souk completions 1 " + agent + "\n" }

// AppendReport adds the entry of a completion.
func AppendReport(dst []byte, r *Report) ([]byte, error) {
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

// AppendDone adds the entry of an acknowledgement.
func AppendDone(dst []byte, hold string) []byte {
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

// ReadSpool returns the completions of a spool that are not acknowledged, in their order, at most so many, and how many of its bytes are
// whole. Its error is ErrForeign, or says at which byte the rest is damaged; what came before that is good.
func ReadSpool(data []byte, agent string, most int) (open []Report, whole int, err error) {
	head := SpoolHead(agent)
	if !strings.HasPrefix(string(data[:min(len(data), len(head))]), head) {
		return nil, 0, ErrForeign
	}
	at := map[string]int{} // place in open, by hold
	var gone int
	for whole = len(head); whole < len(data); {
		entry, err := spoolEntry(data[whole:])
		if err == nil {
			err = takeEntry(entry, agent, &open, at, &gone, most)
		}
		if err != nil {
			return compact(open, gone), whole, fmt.Errorf("byte %d: %w", whole, err)
		}
		whole += spoolPrefix + len(entry)
	}
	return compact(open, gone), whole, nil
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

func takeEntry(entry []byte, agent string, open *[]Report, at map[string]int, gone *int, most int) error {
	switch kind, rest := entry[0], entry[1:]; kind {
	case spoolDone:
		if i, ok := at[string(rest)]; ok {
			delete(at, string(rest))
			(*open)[i] = Report{}
			*gone++
		}
		return nil
	case spoolReport:
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return errors.New("an entry without its domain")
		}
		r := Report{Domain: string(rest[1 : 1+rest[0]])}
		if !bus.ValidID(r.Domain) {
			return fmt.Errorf("domain: %.80q is not an id", r.Domain)
		}
		c := &r.Completion
		if err := bus.Decode(rest[1+rest[0]:], c); err != nil {
			return err
		}
		if c.Agent != agent || c.Outcome == bus.OutcomeFailed {
			return fmt.Errorf("a completion of %s, %s: none that is kept here", c.Agent, c.Outcome)
		}
		if _, twice := at[c.Hold]; twice {
			return nil
		}
		if len(at) >= most {
			return fmt.Errorf("more than %d completions", most)
		}
		at[c.Hold] = len(*open)
		*open = append(*open, r)
		return nil
	default:
		return fmt.Errorf("an entry of kind %d", kind)
	}
}

func compact(open []Report, gone int) []Report {
	if gone == 0 {
		return open
	}
	out := make([]Report, 0, len(open)-gone)
	for _, r := range open {
		if r.Domain != "" {
			out = append(out, r)
		}
	}
	return out
}
