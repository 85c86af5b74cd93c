package openai

import (
	"bytes"
	"encoding/json"
	"slices"

	"souk/bus"
	"souk/market"
)

// EncodeAnswer returns an answer as JSON, for callers that asked in JSON: Accepted or the Result stands
// alone, and a Result says what was paid. Amounts are whole credits.
func EncodeAnswer(a *bus.Answer) ([]byte, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	if a.Accepted != nil {
		return encodeJSON(a.Accepted)
	}
	r := *a.Result
	r.Extra, r.Stop = soundExtras(r.Extra), soundJSON(r.Stop)
	return encodeJSON(struct {
		*bus.Result
		Paid market.Credits `json:"paid"`
	}{&r, r.Paid()})
}

// EncodeQuote returns a quote as JSON, with a word that it is no more than an estimate.
func EncodeQuote(q *bus.Quote) ([]byte, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	return encodeJSON(struct {
		Estimate bool `json:"estimate"`
		*bus.Quote
	}{true, q})
}

// encodeJSON leaves '<' and '>' as they are: this is read in terminals, not in web pages.
func encodeJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// soundExtras replaces what an engine wrote as JSON but is none by null, so that one bad event does not
// cost the caller the whole answer.
func soundExtras(extras []bus.Extra) []bus.Extra {
	extras = slices.Clone(extras)
	for i := range extras {
		if extras[i].Choice = soundJSON(extras[i].Choice); extras[i].Choice == nil {
			extras[i].Choice = json.RawMessage("null")
		}
	}
	return extras
}

func soundJSON(raw json.RawMessage) json.RawMessage {
	if json.Valid(raw) {
		return raw
	}
	return nil
}
