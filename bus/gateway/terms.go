package gateway

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"souk/bus"
	"souk/bus/openai"
	"souk/market"
)

// resumeHeader asks for a stream that can be gone on with.
const resumeHeader = "X-Souk-Resume"

// terms are the headers that say on which terms a task is asked, and whether its stream is to be kept.
func terms(h http.Header) (header bus.Header, resume bool, err error) {
	for name, values := range h {
		if !begins(name, "x-souk-") && !begins(name, "x-iemas-") {
			continue
		}
		if strings.EqualFold(name, resumeHeader) {
			if len(values) > 1 {
				return nil, false, twice(resumeHeader, values)
			}
			if resume = strings.EqualFold(values[0], "on"); !resume && !strings.EqualFold(values[0], "off") {
				return nil, false, refuse(bus.CodeBadRequest, "header %s: %.40q is neither on nor off",
					resumeHeader, values[0])
			}
			continue
		}
		if header == nil {
			header = bus.Header{}
		}
		header[name] = values
	}
	return header, resume, nil
}

// twice refuses a header of which it is not known what was meant.
func twice(name string, values []string) *refusal {
	return refuse(bus.CodeBadRequest, "header %s: given %d times: send it once", name, len(values))
}

func begins(name, with string) bool {
	return len(name) > len(with) && strings.EqualFold(name[:len(with)], with)
}

// mayAsk refuses a model, "" for any, that a key may not ask for.
func mayAsk(k *bus.APIKey, model string) error {
	if len(k.Models) > 0 && !slices.Contains(k.Models, cmp.Or(model, openai.Auto)) {
		return refuse(bus.CodeUnknownModel, "model: this key may ask for %s", strings.Join(k.Models, ", "))
	}
	return nil
}

// limit applies what a key says of terms, prices and models.
func limit(asked *openai.Asked, k *bus.APIKey) error {
	if err := mayAsk(k, asked.Model); err != nil {
		return err
	}
	n := market.Credits(len(asked.Tasks))
	for i := range asked.Tasks {
		t := &asked.Tasks[i].Terms
		t.Worth = cmp.Or(t.Worth, k.Terms.Worth)
		if t.Delta == nil {
			t.Delta = k.Terms.Delta
		}
		t.PatienceMS = cmp.Or(t.PatienceMS, k.Terms.PatienceMS)
		for _, most := range []struct {
			c    *market.Credits
			caps bool
		}{{k.Terms.MaxPrice, false}, {k.MaxPrice, true}} {
			if most.c == nil || t.MaxPrice != nil && (!most.caps || *t.MaxPrice <= *most.c/n) {
				continue
			}
			each := *most.c / n
			if each == 0 {
				return refuse(bus.CodeBadTerms,
					"max_price: the key's %s leaves nothing for one of %d answers",
					*most.c, n)
			}
			t.MaxPrice = &each
		}
	}
	return nil
}
