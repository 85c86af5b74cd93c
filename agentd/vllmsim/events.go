package vllmsim

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"souk/agentd/kvevent"
)

// KVEvents is vLLM's --kv-events-config.
type KVEvents struct {
	On          bool   `json:"enable_kv_cache_events"`
	Publisher   string `json:"publisher"` // zmq, the only one
	Endpoint    string `json:"endpoint"`
	Replay      string `json:"replay_endpoint"`
	BufferSteps int    `json:"buffer_steps"` // batches that the replay has; default 10,000
	Topic       string `json:"topic"`
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
	batch []any
	kind  string // kv_cache_spec_kind
}

// fullAttention is the kind of layers that see whole prompts.
const fullAttention = "full_attention"

// newEvents has an engine's cache watched.
func newEvents(cfg KVEvents, e *engine) *events {
	v := &events{KVEvents: cfg, block: e.Cache.Size, kind: fullAttention}
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

// member has the name of a field of an event, and what stands in it.
type member struct {
	name  string
	value any
}

func (v *events) event(members ...member) { v.batch = append(v.batch, named(members)) }

// named is an event as a map, its members in order.
type named []member

// EncodeMsgpack implements msgpack.CustomEncoder.
func (n named) EncodeMsgpack(e *msgpack.Encoder) error {
	err := e.EncodeMapLen(len(n))
	for _, m := range n {
		err = errors.Join(err, e.EncodeString(m.name), e.Encode(m.value))
	}
	return err
}

func (v *events) removed(hash uint64) {
	v.event(member{"type", "BlockRemoved"}, member{"block_hashes", []uint64{hash}},
		member{"medium", "GPU"}, member{"group_idx", 0})
}

// stored adds blocks; a salt is said of the first block of a prompt, an adapter of all.
func (v *events) stored(hashes []uint64, follows bool, parent uint64, tokens []uint32, salt, adapter string,
	number int32) {
	var before, lora, loraName any
	if follows {
		before = parent
	}
	if adapter != "" {
		lora, loraName = number, adapter
	}
	keys := make([]any, len(hashes))
	for i := range keys {
		var of []string
		if adapter != "" {
			of = append(of, adapter)
		}
		if i == 0 && !follows && salt != "" {
			of = append(of, salt)
		}
		if of != nil {
			keys[i] = of
		}
	}
	v.event(member{"type", "BlockStored"}, member{"block_hashes", slices.Clone(hashes)},
		member{"parent_block_hash", before}, member{"token_ids", slices.Clone(tokens)},
		member{"block_size", v.block}, member{"lora_id", lora}, member{"medium", "GPU"},
		member{"lora_name", loraName}, member{"extra_keys", keys}, member{"group_idx", 0},
		member{"kv_cache_spec_kind", v.kind})
}

// take is the batch of a step; nil if nothing happened.
func (v *events) take(now time.Time, fault EventFault) []byte {
	if len(v.batch) == 0 {
		return nil
	}
	switch fault {
	case EventsDouble:
		v.batch = append(v.batch, v.batch...)
	case EventsFalse:
		hash := uint64(now.UnixNano())
		v.stored([]uint64{hash, hash + 1}, false, 0, make([]uint32, 2*v.block), "", "", 0)
	}
	var out bytes.Buffer
	e := msgpack.NewEncoder(&out)
	e.UseCompactInts(true)
	if err := e.Encode([]any{float64(now.UnixNano()) / 1e9, v.batch, 0}); err != nil {
		panic("vllmsim: " + err.Error())
	}
	v.batch = v.batch[:0]
	return out.Bytes()
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
	if v == nil || len(v.batch) == 0 {
		return nil, ""
	}
	if s.eventTimes > 0 {
		fault = s.eventFault
		s.eventTimes--
	}
	batch = v.take(time.Now(), fault)
	if s.eventTimes == 0 {
		v.kind = fullAttention
	}
	return batch, fault
}
