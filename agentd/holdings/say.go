package holdings

import (
	"encoding/binary"
	"time"

	"github.com/cespare/xxhash/v2"

	"souk/bus"
)

// What an agent says of its holdings, and how often. All in all that is less than 4 KB a second, whatever the
// engine does: what has no room now is said later, and of what is said late the last state alone.
const (
	deltaEvery = 250 * time.Millisecond
	maxDelta   = 4 << 10 // bytes of one message
	wholeEvery = time.Minute
	wholeAgain = 10 * time.Second // where a hub asks for it; the first time at once
	small      = 1000             // bytes that may be said whatever was said before
	maxRate    = 4000             // bytes a second
	overhead   = 200              // bytes of a message beside its prefixes, on the wire
	// MaxSaid bounds the prefixes that a hub is told of: two parts.
	MaxSaid = 1 << 14
)

// say tracks what the hub has been sent, and when to send more.
type say struct {
	seed      uint64
	life      uint64
	seq, base uint64
	newHub    bool // a hub has heard nothing yet
	reset     bool // what it heard no longer counts
	asked     bool // it asks for all
	unasked   bool // a new hub was told all, and has not asked since: it may have been told too soon
	said      time.Time
	next      time.Time // when all is said again
	changed   time.Time // when it was last said what has changed
	room      float64   // bytes that may be said of that
	rate      float64   // and so many more each second
}

// NewHub says that a hub sells the agent that has heard nothing yet.
func (s *State) NewHub() { s.newHub = true }

// Asked says that the hub has missed something.
func (s *State) Asked() { s.asked = true }

// Take returns the messages due now, in order, and when to call again. It leaves sender and receiver unset.
func (s *State) Take(now time.Time) (out []bus.Holdings, wake time.Time) {
	news := s.news()
	switch {
	case s.newHub, s.asked && (s.unasked || now.Sub(s.said) >= wholeAgain), !now.Before(s.next):
		out = s.all(now)
	case !news || now.Sub(s.changed) < deltaEvery:
	case !s.reset:
		out = s.delta(now)
	default: // however often the engine begins anew
		s.refill(now)
		if size := s.prefixes.held * bus.ShortHashBytes; s.room >= 0 || size <= small {
			out = s.all(now)
			s.room -= float64(size + overhead)
		}
	}
	if wake = s.next; s.asked {
		wake = bus.Sooner(wake, s.said.Add(wholeAgain))
	}
	if s.news() {
		wake = bus.Sooner(wake, s.changed.Add(deltaEvery))
	}
	return out, wake
}

// news reports whether there is anything that was not said.
func (s *State) news() bool {
	return s.reset || s.events && (s.prefixes.turned || len(s.prefixes.gone) > 0)
}

// refill lets more be said as time passes.
func (s *State) refill(now time.Time) {
	s.room = min(maxDelta, s.room+s.rate*max(0, now.Sub(s.changed).Seconds()))
	s.changed = now
}

// all says all of it.
func (s *State) all(now time.Time) (out []bus.Holdings) {
	m := &s.prefixes
	var list []byte
	m.said, m.turned, m.gone = 0, false, m.gone[:0]
	for i := range m.all {
		a := &m.all[i]
		a.said = s.events && a.node != none && s.nodes[a.node].whole && m.said < MaxSaid
		if a.said {
			list = bus.AppendShortHash(list, a.short)
			m.said++
		}
	}
	m.full = s.events && m.said < m.held
	const part = bus.MaxPart / bus.ShortHashBytes * bus.ShortHashBytes
	parts := max(1, (len(list)+part-1)/part)
	for i := range parts {
		h := s.message()
		h.Part, h.Parts, h.Add = i, parts, list[i*part:min(len(list), (i+1)*part)]
		h.Base = s.seq - uint64(i)
		s.base = h.Base
		out = append(out, h)
	}
	s.refill(now)
	s.newHub, s.reset, s.asked, s.unasked, s.said = false, false, false, s.newHub, now
	s.seed++
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], s.seed)
	jitter := time.Duration(xxhash.Sum64(b[:]) % uint64(wholeEvery*2/5))
	s.next = now.Add(wholeEvery*4/5 + jitter)
	size := float64(len(list) + parts*overhead)
	s.rate = max(maxRate/4, maxRate-size/(wholeEvery*4/5).Seconds())
	return out
}

// delta says what has changed: first what is held no longer, so that a hub errs to the low side.
func (s *State) delta(now time.Time) []bus.Holdings {
	s.refill(now)
	room := (int(s.room) - overhead) / bus.ShortHashBytes
	if room <= 0 {
		return nil
	}
	m := &s.prefixes
	h := s.message()
	for len(m.gone) > 0 && room > 0 {
		h.Drop = bus.AppendShortHash(h.Drop, m.gone[0])
		m.gone = m.gone[1:]
		room--
	}
	m.turned = false
	for _, held := range []bool{false, true} { // first those that are held no longer
		for i := range m.all {
			switch a := &m.all[i]; {
			case a.node == none || a.said == held || s.nodes[a.node].whole != held:
			case room <= 0:
				m.turned = true
			case !held:
				h.Drop = bus.AppendShortHash(h.Drop, a.short)
				a.said = false
				m.said--
				room--
			case m.said >= MaxSaid: // until all is said anew
				m.full = true
			default:
				h.Add = bus.AppendShortHash(h.Add, a.short)
				a.said = true
				m.said++
				room--
			}
		}
	}
	if len(h.Add)+len(h.Drop) == 0 {
		s.seq-- // nothing was to be said after all
		return nil
	}
	h.Coverage = s.Coverage()
	s.room -= float64(len(h.Add) + len(h.Drop) + overhead)
	return []bus.Holdings{h}
}

// message makes a message that has no prefixes yet.
func (s *State) message() bus.Holdings {
	s.seq++
	return bus.Holdings{Life: s.life, Seq: s.seq, Base: s.base, Coverage: s.Coverage(), Blocks: s.Blocks,
		Evidence: s.Evidence()}
}
