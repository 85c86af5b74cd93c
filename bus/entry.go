package bus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// MaxEntry is the largest value in the registry, in bytes: four times what the largest of ours has, an API
// key that names all the models that it may. Drivers write no larger one, readers take none, and an etcd of
// ours (bus/embedded) lets nobody write one.
const MaxEntry = 64 << 10

// CheckValue judges the length of a value before it is written.
func CheckValue(value []byte) error {
	if len(value) > MaxEntry {
		return fmt.Errorf("a value of %d bytes, at most %d: %w", len(value), MaxEntry, ErrTooLarge)
	}
	return nil
}

// Entry is a value of the registry, kept as JSON.
type Entry interface {
	*Registration | *Claim | *HubEntry | *TreasuryEntry | *MarketConfig | *APIKey | *MarkKeys | *CacheGroup |
		*VouchKeys
	Validate() error
}

// EncodeEntry returns a registry value as JSON.
func EncodeEntry[E Entry](e E) ([]byte, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	value, err := json.Marshal(e)
	if err == nil {
		err = CheckValue(value)
	}
	return value, err
}

// DecodeEntry reads a registry value and judges it. Members that e does not have are ignored, for a process
// of a later version may have written them; but not in the settings that an operator writes by hand, where
// one is a slip that would change nothing unnoticed, and not in a key, where one may be a limit.
func DecodeEntry[E Entry](value []byte, e E) error {
	if len(value) > MaxEntry {
		return &Error{Code: CodeTooLarge,
			Message: fmt.Sprintf("registry value of %d bytes: at most %d are taken", len(value), MaxEntry)}
	}
	strict := false
	switch any(e).(type) {
	case *MarketConfig, *APIKey, *CacheGroup:
		strict = true
	}
	if err := decodeJSON(value, e, strict); err != nil {
		return err
	}
	return e.Validate()
}

// decodeJSON reads exactly one JSON value; a strict one has no member that v does not have.
func decodeJSON(data []byte, v any, strict bool) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(v); err != nil {
		return &Error{Code: CodeBadRequest, Message: "JSON: " + err.Error()}
	}
	if rest := bytes.TrimSpace(data[d.InputOffset():]); len(rest) > 0 {
		return &Error{Code: CodeBadRequest,
			Message: fmt.Sprintf("JSON: %d bytes behind the end of the value", len(rest))}
	}
	return nil
}

func (r *Registration) Validate() error {
	var p problems
	p.id("agent", r.Agent)
	p.epoch("boot", r.Boot)
	p.name("node", r.Node, MaxName)
	if r.Model == "" {
		p.add("model: a registration names the model that the engine serves")
	}
	p.name("model", r.Model, MaxName)
	if !(r.Scale >= 0 && r.Scale <= 1e6) || math.IsInf(r.Scale, 0) {
		p.add("scale: %v billion parameters is not within 0 and 1e6", r.Scale)
	}
	if len(r.Domains) == 0 {
		p.add("domains: a registration names at least one domain; the first decides which hub the " +
			"agent joins")
	}
	p.list("domains", len(r.Domains), maxEntries)
	for i, d := range r.Domains {
		p.id("domains.domain", d.Domain)
		p.share("domains.score", d.Score)
		for _, earlier := range r.Domains[:i] {
			if earlier.Domain == d.Domain {
				p.add("domains: %s stands twice", d.Domain)
			}
		}
	}
	p.count("max_model_len", r.MaxModelLen)
	p.count("block_size", r.BlockSize)
	p.within("kv_tokens", int64(r.KVTokens), 0, 1<<32)
	p.within("slots", int64(r.Slots), 0, MaxSlots)
	p.tiers(r.Tiers, r.Slots)
	p.price("price", r.Price)
	p.name("owner", r.Owner, MaxName)
	p.name("class", r.Class, MaxName)
	p.list("features", len(r.Features), maxEntries)
	for _, f := range r.Features {
		p.name("features", f, MaxName)
	}
	p.oneOf("state", r.State, StateReady, StateDraining, StateUnhealthy)
	p.name("engine", r.Engine, MaxName)
	if t := r.Template; t != nil {
		p.count("template.fixed", t.Fixed)
		p.count("template.each", t.Each)
		p.within("template.tools", int64(t.Tools), -1, MaxTokens)
		p.within("template.wide", int64(t.Wide), 1, maxWide)
	}
	p.name("life", r.Life, MaxName)
	p.list("former", len(r.Former), maxEntries)
	for _, boot := range r.Former {
		p.epoch("former", boot)
	}
	return p.err
}

func (c *Claim) Validate() error {
	var p problems
	p.id("agent", c.Agent)
	p.id("domain", c.Domain)
	p.name("hub", c.Hub, MaxName)
	p.epoch("epoch", c.Epoch)
	return p.err
}

func (h *HubEntry) Validate() error {
	var p problems
	p.id("domain", h.Domain)
	p.labels(h.Labels)
	p.name("hub", h.Hub, MaxName)
	p.name("journal", h.Journal, MaxName)
	p.name("life", h.Life, MaxName)
	return p.err
}

func (e *TreasuryEntry) Validate() error {
	var p problems
	p.id("journal", e.Journal)
	p.name("host", e.Host, MaxName)
	p.within("pid", int64(e.PID), 0, math.MaxInt32)
	p.name("life", e.Life, MaxName)
	return p.err
}

func (m *MarketConfig) Validate() error {
	var p problems
	p.id("domain", m.Domain)
	p.within("max_batch", int64(m.MaxBatch), 0, MaxSlots)
	if m.MaxWaitMS != nil {
		p.within("max_wait_ms", *m.MaxWaitMS, 0, 60_000)
	}
	p.oneOf("pricing", m.Pricing, "", "vcg", "tariff", "posted")
	p.oneOf("settle", m.Settle, "", "metered", "quoted")
	p.oneOf("clarke", m.Clarke, "", "client", "task")
	if m.Ceiling != nil {
		p.credits("ceiling", *m.Ceiling)
	}
	p.amounts("tariffs", m.Tariffs)
	p.amounts("ceilings", m.Ceilings)
	return p.err
}
