package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	*Registration | *Claim | *HubEntry | *TreasuryEntry | *MarketConfig | *APIKey | *PrefixKeys |
		*CacheGroup |
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
	if err := judge(r); err != nil {
		return err
	}
	if !(r.Scale >= 0 && r.Scale <= 1e6) {
		return fmt.Errorf("scale: %v billion parameters is not within 0 and 1e6", r.Scale)
	}
	if len(r.Domains) == 0 {
		return errors.New("domains: a registration names at least one domain; the first decides which hub " +
			"the agent joins")
	}
	for i, d := range r.Domains {
		if slices.ContainsFunc(r.Domains[:i], func(e DomainScore) bool { return e.Domain == d.Domain }) {
			return fmt.Errorf("domains: %s stands twice", d.Domain)
		}
	}
	return nil
}

// Validate: tools below 0 were not measured.
func (t *Template) Validate() error {
	switch {
	case min(t.Fixed, t.Each, t.Tools+1) < 0 || max(t.Fixed, t.Each, t.Tools) > MaxTokens:
		return fmt.Errorf("fixed %d, each %d, tools %d: not within 0 and %d tokens", t.Fixed, t.Each, t.Tools,
			MaxTokens)
	case t.Wide < 1 || t.Wide > maxWide:
		return fmt.Errorf("wide: %d is not within 1 and %d", t.Wide, maxWide)
	}
	return nil
}
