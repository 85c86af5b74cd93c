package vllmsim

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"souk/agentd/kvevent"
)

// KVEvents is vLLM's --kv-events-config, and how the stand-in says what a real server says in one way only.
type KVEvents struct {
	On          bool   `json:"enable_kv_cache_events"`
	Publisher   string `json:"publisher"` // zmq, the only one
	Endpoint    string `json:"endpoint"`
	Replay      string `json:"replay_endpoint"`
	BufferSteps int    `json:"buffer_steps"` // batches that the replay has; default 10,000
	Topic       string `json:"topic"`

	Arrays   bool   `json:"arrays,omitempty"`    // events are arrays, as before mid-2026, rather than maps
	Bytes    bool   `json:"bytes,omitempty"`     // hashes are 32 bytes rather than numbers
	SpecKind string `json:"spec_kind,omitempty"` // kv_cache_spec_kind; default full_attention
}

// Validate says what is wrong with them.
func (c KVEvents) Validate() error {
	if !c.On {
		return nil
	}
	if err := (kvevent.Source{Endpoint: c.Endpoint, Replay: c.Replay}).Validate(); err != nil {
		return fmt.Errorf("kv-events-config: %w", err)
	}
	if c.Endpoint == "" || c.BufferSteps < 0 || c.Publisher != "" && c.Publisher != "zmq" {
		return fmt.Errorf("kv-events-config: endpoint %q, buffer_steps %d, publisher %q: want an endpoint, "+
			"no fewer than 0, and zmq", c.Endpoint, c.BufferSteps, c.Publisher)
	}
	return nil
}

// EventFault is something wrong with the next batches of events.
type EventFault string

const (
	EventsSilent EventFault = "silent" // not published, and not missed: the next has their number
	EventsLost   EventFault = "lost"   // lost on the way; the replay has them
	EventsDouble EventFault = "double" // each event stands twice
	EventsFalse  EventFault = "false"  // with blocks that the engine does not hold
	EventsAlien  EventFault = "alien"  // of layers that see part of a prompt: nobody can apply them
)

var eventFaults = []EventFault{EventsSilent, EventsLost, EventsDouble, EventsFalse, EventsAlien}

// events collects what happens to an engine's cache, as it is published: one batch a step.
type events struct {
	KVEvents
	block int
	batch []byte // of events, in msgpack
	n     int
	kind  string // kv_cache_spec_kind
}

// newEvents has an engine's cache watched.
func newEvents(cfg KVEvents, e *engine) *events {
	v := &events{KVEvents: cfg, block: e.Cache.Size(), kind: cfg.SpecKind}
	e.Cache.Forgotten, e.Stored = v.removed, v.filled
	return v
}

// filled adds the blocks of a sequence that can be found from now on.
func (v *events) filled(s *sequence, from, to int) {
	hashes := s.Prefix(to)
	parent := uint64(0)
	if from > 0 {
		parent = hashes[from-1]
	}
	v.stored(hashes[from:to], from > 0, parent, s.tokens[from*v.block:to*v.block], s.salt, s.adapter,
		s.run.Adapter)
}

// field is a member of an event: its name, and its value in msgpack.
type field struct {
	name  string
	value []byte
}

// event adds one: a map, or an array of the values alone.
func (v *events) event(fields ...field) {
	v.n++
	if v.Arrays {
		v.batch = packHead(v.batch, 0x90, len(fields))
	} else {
		v.batch = packHead(v.batch, 0x80, len(fields))
	}
	for _, f := range fields {
		if !v.Arrays {
			v.batch = packText(v.batch, f.name)
		}
		v.batch = append(v.batch, f.value...)
	}
}

var packNil = []byte{0xc0}

func (v *events) removed(hash uint64) {
	v.event(field{"type", packText(nil, "BlockRemoved")}, field{"block_hashes", v.hashes([]uint64{hash})},
		field{"medium", packText(nil, "GPU")}, field{"group_idx", []byte{0}})
}

func (v *events) cleared() { v.event(field{"type", packText(nil, "AllBlocksCleared")}) }

// stored adds blocks; a salt is said of the first block of a prompt, an adapter of all.
func (v *events) stored(hashes []uint64, follows bool, parent uint64, tokens []uint32, salt, adapter string,
	number int32) {
	before := packNil
	if follows {
		before = v.hash(nil, parent)
	}
	ids := packHead(nil, 0x90, len(tokens))
	for _, id := range tokens {
		ids = packUint(ids, uint64(id))
	}
	keys := packHead(nil, 0x90, len(hashes))
	lora, loraName := packNil, packNil
	if adapter != "" {
		lora, loraName = packUint(nil, uint64(number)), packText(nil, adapter)
	}
	for i := range hashes {
		salted := i == 0 && !follows && salt != ""
		switch {
		case adapter != "" && salted:
			keys = packText(packText(packHead(keys, 0x90, 2), adapter), salt)
		case adapter != "":
			keys = packText(packHead(keys, 0x90, 1), adapter)
		case salted:
			keys = packText(packHead(keys, 0x90, 1), salt)
		default:
			keys = append(keys, packNil...)
		}
	}
	kind := v.kind
	if kind == "" {
		kind = "full_attention"
	}
	v.event(field{"type", packText(nil, "BlockStored")}, field{"block_hashes", v.hashes(hashes)},
		field{"parent_block_hash", before}, field{"token_ids", ids},
		field{"block_size", packUint(nil, uint64(v.block))}, field{"lora_id", lora},
		field{"medium", packText(nil, "GPU")}, field{"lora_name", loraName}, field{"extra_keys", keys},
		field{"group_idx", []byte{0}}, field{"kv_cache_spec_kind", packText(nil, kind)})
}

// take is the batch of a step; nil if nothing happened.
func (v *events) take(now time.Time, fault EventFault) []byte {
	if v.n == 0 {
		return nil
	}
	switch fault {
	case EventsDouble:
		v.batch, v.n = append(v.batch, v.batch...), 2*v.n
	case EventsFalse:
		hash := uint64(now.UnixNano())
		v.stored([]uint64{hash, hash + 1}, false, 0, make([]uint32, 2*v.block), "", "", 0)
	}
	out := binary.BigEndian.AppendUint64([]byte{0x93, 0xcb},
		math.Float64bits(float64(now.UnixNano())/1e9))
	out = append(packHead(out, 0x90, v.n), v.batch...)
	v.batch, v.n = v.batch[:0], 0
	return append(out, 0)
}

func (v *events) hashes(list []uint64) []byte {
	b := packHead(nil, 0x90, len(list))
	for _, h := range list {
		b = v.hash(b, h)
	}
	return b
}

func (v *events) hash(b []byte, h uint64) []byte {
	if !v.Bytes {
		return packUint(b, h)
	}
	b = append(b, 0xc4, 32)
	for i := range uint64(4) {
		b = binary.BigEndian.AppendUint64(b, h^(3-i)<<40)
	}
	return b
}

// packHead is the head of an array (0x90) or of a map (0x80).
func packHead(b []byte, fix byte, n int) []byte {
	long := map[byte]byte{0x90: 0xdc, 0x80: 0xde}[fix]
	switch {
	case n < 16:
		return append(b, fix|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, long), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, long+1), uint32(n))
}

func packUint(b []byte, n uint64) []byte {
	switch {
	case n < 1<<7:
		return append(b, byte(n))
	case n < 1<<8:
		return append(b, 0xcc, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
}

func packText(b []byte, s string) []byte {
	if len(s) < 32 {
		b = append(b, 0xa0|byte(len(s)))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(len(s)))
	}
	return append(b, s...)
}

// FaultEvents makes the next batches of events, so many of them, what a fault says.
func (s *Server) FaultEvents(f EventFault, times int) error {
	if !slices.Contains(eventFaults, f) {
		return fmt.Errorf("vllmsim: fault of events %q is none of %v", f, eventFaults)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eventFault, s.eventTimes = f, max(times, 1)
	if s.engine.events != nil && f == EventsAlien {
		s.engine.events.kind = "sliding_window"
	}
	return nil
}

// happened is the batch of the step that has just been scheduled, and what goes wrong with it.
func (s *Server) happened() (batch []byte, fault EventFault) {
	v := s.engine.events
	if v == nil || v.n == 0 {
		return nil, ""
	}
	if s.eventTimes > 0 {
		fault = s.eventFault
		s.eventTimes--
	}
	batch = v.take(time.Now(), fault)
	if s.eventTimes == 0 {
		v.kind = v.SpecKind
	}
	return batch, fault
}
