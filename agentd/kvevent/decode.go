package kvevent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"souk/bus/packed"
)

// MaxPayload is the largest batch that is read, in bytes: some 100,000 blocks.
const MaxPayload = 16 << 20

// An event that is told apart into many has fewer than one for so many bytes of the payload, beside a few.
const (
	perEvent  = 32
	fewEvents = 1 << 10
)

// Decoder reads one batch of a server after another: it remembers which of the engine's groups of layers is
// which, since a removal does not say.
type Decoder struct {
	one   int64           // one more than the group that is followed; 0: none yet
	other map[uint64]bool // groups of layers that see only part of a prompt
}

// maxGroups bounds what is remembered of groups that are not followed.
const maxGroups = 64

// Decode reads the next batch: an array of a time, a list of events, and more that is of no use here. An
// event is a map, or, of a server from before mid-2026, an array; both with members that are unknown, and
// without those that have their default. It fails where the payload is no msgpack or no batch. An event that
// makes no sense is counted and the others are read. Whatever is given, it takes memory of a few times its
// size.
func (d *Decoder) Decode(payload []byte) (b Batch, err error) {
	if len(payload) > MaxPayload {
		return b, fmt.Errorf("a batch of %d bytes: at most %d are taken", len(payload), MaxPayload)
	}
	c := cursorAt(payload, 0)
	if h := c.head(); h.Kind != packed.List || h.N < 2 {
		return b, errors.New("a batch of events is not an array of a time and events")
	}
	c.skip()
	h := c.head()
	if h.Kind != packed.List {
		return b, errors.New("a batch of events has no list of events")
	}
	for range h.N {
		at := c.At
		c.skip()
		if c.bad {
			return Batch{}, fmt.Errorf("a batch of events breaks off or is no msgpack at byte %d", c.At)
		}
		d.event(&b, cursorAt(payload[:c.At], at))
	}
	return b, nil
}

// field is a member of an event that is read.
type field uint8

const (
	none field = iota
	typ
	hashes
	parent
	tokens
	size
	loraID
	medium
	loraName
	extra
	group
	spec
	locality
	fields // their number
)

// The members of an event that is an array, in order.
var (
	storedFields = []field{typ, hashes, parent, tokens, size, loraID, medium, loraName, extra, group, spec,
		none, locality}
	removedFields = []field{typ, hashes, medium, group, locality}
)

// named are the members by name.
var named = map[string]field{"type": typ, "block_hashes": hashes, "parent_block_hash": parent,
	"token_ids": tokens, "block_size": size, "lora_id": loraID, "medium": medium, "lora_name": loraName,
	"extra_keys": extra, "group_idx": group, "kv_cache_spec_kind": spec, "locality": locality}

// members holds the offsets of an event's members in the payload; 0 for absent ones.
type members struct {
	c  cursor
	at [fields]int
}

// to is a cursor before a member; false if it is absent or nil.
func (m *members) to(f field) (cursor, bool) {
	c := m.c
	if c.At = m.at[f]; c.At == 0 || c.Data[c.At] == 0xc0 {
		return c, false
	}
	return c, true
}

// event reads one event, whose bytes are well-formed msgpack, into b.
func (d *Decoder) event(b *Batch, c cursor) {
	m := members{c: c}
	switch h := c.head(); h.Kind {
	case packed.Table:
		for range h.N {
			var name []byte
			if name = c.text(); name == nil {
				c.skip()
			}
			m.at[named[string(name)]] = c.At
			c.skip()
		}
	case packed.List:
		order := storedFields
		for i := range h.N {
			if i == 1 {
				if t, _ := m.to(typ); string(t.text()) == "BlockRemoved" {
					order = removedFields
				}
			}
			if i < len(order) {
				m.at[order[i]] = c.At
			}
			c.skip()
		}
	}
	var kind []byte
	if t, ok := m.to(typ); ok {
		kind = t.text()
	}
	switch string(kind) {
	case "BlockStored":
		if !d.follows(&m) {
			b.Unknown++
		} else if !m.stored(b) {
			b.Bad++
		}
	case "BlockRemoved":
		e := Event{Kind: Removed, Host: m.host()}
		switch ok := m.keys(&e); {
		case !ok:
			b.Bad++
			b.Lost = true
		case !d.follows(&m):
			b.Unknown++
		default:
			b.Events = append(b.Events, e)
		}
	case "AllBlocksCleared":
		b.Events = append(b.Events, Event{Kind: Cleared})
	case "":
		b.Bad++
		b.Lost = true
	default:
		b.Unknown++
	}
}

// follows reports whether an event's group of layers is the one that is followed: the first that sees whole
// prompts, or that does not say what it sees. A block of a prompt is as good as lost once any group lost it,
// but most engines have one group, and of the others one is the better guess than a sum of all.
func (d *Decoder) follows(m *members) bool {
	whole := true
	if c, ok := m.to(spec); ok {
		switch string(c.text()) {
		case "full_attention", "mla_attention", "sink_full_attention":
		default:
			whole = false
		}
	}
	c, ok := m.to(group)
	if !ok {
		return whole
	}
	n, ok := c.number()
	if !ok || n >= 1<<31 {
		return false
	}
	switch {
	case !whole:
		if d.other == nil {
			d.other = map[uint64]bool{}
		}
		if len(d.other) < maxGroups {
			d.other[n] = true
		}
		return false
	case d.one == 0 && !d.other[n]:
		if m.at[tokens] != 0 { // a removal does not say what its group is
			d.one = int64(n) + 1
		}
		return true
	}
	return d.one == int64(n)+1
}

// host reports whether an event is of another memory than the GPU's.
func (m *members) host() bool {
	c, ok := m.to(medium)
	if ok && string(c.text()) != "GPU" {
		return true
	}
	c, ok = m.to(locality)
	return ok && string(c.text()) == "REMOTE"
}

// keys reads the hashes of an event's blocks.
func (m *members) keys(e *Event) bool {
	c, ok := m.to(hashes)
	h := c.head()
	if !ok || h.Kind != packed.List {
		return false
	}
	e.Blocks = make([]Key, h.N) // so many elements follow, of a byte or more each: skip has been past them
	for i := range e.Blocks {
		if e.Blocks[i], ok = c.key(); !ok {
			return false
		}
	}
	return true
}

// stored appends the blocks that an event stored: one Event for each run of blocks of one Space.
func (m *members) stored(b *Batch) (ok bool) {
	e := Event{Kind: Stored, Host: m.host()}
	if !m.keys(&e) {
		return false
	}
	if c, ok := m.to(parent); ok {
		if e.Parent, e.HasParent = c.key(); !e.HasParent {
			return false
		}
	}
	c, ok := m.to(size)
	n, number := c.number()
	if !ok || !number || n == 0 || n > MaxPayload {
		return false
	}
	e.BlockSize = int(n)
	if e.Tokens, ok = m.ids(); !ok || len(e.Tokens) != len(e.Blocks)*e.BlockSize {
		return false
	}
	if len(e.Blocks) == 0 {
		return true
	}
	lora, name := m.lora()
	spaces, ok := m.to(extra)
	if !ok {
		e.Space = lora
		b.Events = append(b.Events, e)
		return true
	}
	if h := spaces.head(); h.Kind != packed.List || h.N != len(e.Blocks) {
		return false
	}
	all, from, before := e, 0, len(b.Events)
	var entry []byte
	for i := range all.Blocks {
		at := spaces.At
		spaces.skip()
		space := e.Space
		if next := spaces.Data[at:spaces.At]; i == 0 || !bytes.Equal(next, entry) {
			entry, space = next, lora.of(next, name)
		}
		if i > from && space != e.Space {
			if len(b.Events) >= fewEvents+len(m.c.Data)/perEvent {
				clear(b.Events[before:])
				b.Events = b.Events[:before]
				return false
			}
			b.Events = append(b.Events, all.part(from, i, e.Space))
			from = i
		}
		e.Space = space
	}
	b.Events = append(b.Events, all.part(from, len(all.Blocks), e.Space))
	return true
}

// part is the event of some of its blocks.
func (e Event) part(from, to int, space Space) Event {
	if from > 0 {
		e.Parent, e.HasParent = e.Blocks[from-1], true
	}
	e.Blocks, e.Tokens = e.Blocks[from:to:to], e.Tokens[from*e.BlockSize:to*e.BlockSize:to*e.BlockSize]
	e.Space = space
	return e
}

// lora is the Space of the adapter that blocks were made with, and its name: none, where there is none.
func (m *members) lora() (s Space, name []byte) {
	if c, ok := m.to(loraName); ok {
		if name = c.text(); name != nil {
			return adapterSpace(appendText(nil, string(name))), name
		}
	}
	for _, f := range []field{loraName, loraID} {
		if c, ok := m.to(f); ok {
			at := c.At
			c.skip()
			return adapterSpace(c.Data[at:c.At]), nil
		}
	}
	return s, nil
}

// of is the Space of a block with these extra keys, of an adapter with a name. The server says the adapter
// here once more, which tells the block from no other of the adapter's.
func (s Space) of(entry, name []byte) Space {
	c := cursorAt(entry, 0)
	h := c.head()
	if h.Kind == packed.Nothing {
		return s
	}
	if h.Kind != packed.List {
		return s.with(entry)
	}
	var rest []byte
	for i := range h.N {
		at, element := c.At, c
		c.skip()
		said := element.text()
		switch {
		case i == 0 && name != nil && bytes.Equal(said, name):
		case said != nil:
			rest = appendText(rest, string(said))
		default:
			rest = append(rest, entry[at:c.At]...)
		}
	}
	if len(rest) == 0 {
		return s
	}
	return s.with(rest)
}

// ids reads the tokens of an event's blocks.
func (m *members) ids() ([]uint32, bool) {
	c, ok := m.to(tokens)
	h := c.head()
	if !ok || h.Kind != packed.List {
		return nil, false
	}
	out := make([]uint32, h.N)
	for i := range out {
		if x := c.Data[c.At]; x < 0x80 { // nearly all are short
			out[i] = uint32(x)
			c.At++
		} else if x == 0xcd {
			out[i] = uint32(binary.BigEndian.Uint16(c.Data[c.At+1:]))
			c.At += 3
		} else {
			n, ok := c.number()
			if !ok || n > math.MaxUint32 {
				return nil, false
			}
			out[i] = uint32(n)
		}
	}
	return out, true
}
