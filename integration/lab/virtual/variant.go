package virtual

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"souk/cmd/choices"
	"souk/hub"
)

// MarketName is the market's among those of rules. Behind it, each after a colon, stands what differs from
// the market as it is delivered: a setting of the hub by its path in the hub's file, as in
// market:terms.multiple=20; or named, where callers tell the names of their sessions, or ends, where they
// tell with the last turn that it is the last, or events, where engines publish what becomes of their blocks.
const MarketName = "market"

const (
	named  = "named"
	ends   = "ends"
	events = "events"
)

// variant is the market that a rule's name asks for; false if it asks for another rule.
func variant(rule string) (o MarketOptions, ok bool, err error) {
	settings := strings.Split(rule, ":")
	if settings[0] != MarketName {
		return o, false, nil
	}
	o.Hub = choices.Hub()
	for _, s := range settings[1:] {
		switch s {
		case named:
			o.Named = true
		case ends:
			o.Ends = true
		case events:
			o.Events = true
		default:
			if err := set(&o.Hub, s); err != nil {
				return o, true, fmt.Errorf("%s: %w", rule, err)
			}
		}
	}
	complete(&o.Hub)
	if err := o.Hub.Validate(); err != nil {
		return o, true, fmt.Errorf("%s: %w", rule, err)
	}
	return o, true, nil
}

// set changes a setting: a.b=v sets b in block a of the hub's file.
func set(cfg *hub.Config, setting string) error {
	path, value, ok := strings.Cut(setting, "=")
	if !ok {
		return fmt.Errorf("%q is neither PATH=VALUE nor %s, %s or %s", setting, named, ends, events)
	}
	var file strings.Builder
	keys := strings.Split(path, ".")
	for depth, key := range keys {
		fmt.Fprintf(&file, "%s%s:", strings.Repeat("  ", depth), key)
		if depth < len(keys)-1 {
			file.WriteString("\n")
		}
	}
	fmt.Fprintf(&file, " %s\n", value)
	if err := yaml.UnmarshalWithOptions([]byte(file.String()), cfg, yaml.Strict()); err != nil {
		return fmt.Errorf("%q is no setting of a hub: %s", setting, yaml.FormatError(err, false, false))
	}
	return nil
}
