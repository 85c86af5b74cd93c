package virtual

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"souk/cmd/choices"
	"souk/hub"
)

// MarketName is the market's among those of rules. Behind it, each after a colon, stands what differs from
// the market as it is delivered: a setting of the hub by its path in the hub's file, as in
// market:terms.worth=20; or named, where callers tell the names of their sessions, or ends, where they tell
// with the last turn that it is the last, or events, where engines publish what becomes of their blocks, or
// unsized, where agents do not say how many these are, or room=0.8, where they say that there are so many of
// each; or a word for several settings.
const MarketName = "market"

const (
	named   = "named"
	ends    = "ends"
	events  = "events"
	unsized = "unsized"
	room    = "room="
)

// words stand for several settings.
var words = map[string][]string{
	"seats":    {"seats.sessions=true"},
	"depth":    {"seats.depth=1s"},
	"untolled": {"crowd.compute=0", "crowd.age=0"},
}

// variant is the market that a rule's name asks for; false if it asks for another rule.
func variant(rule string) (o MarketOptions, ok bool, err error) {
	settings := strings.Split(rule, ":")
	if settings[0] != MarketName {
		return o, false, nil
	}
	o.Hub = choices.Hub()
	for _, s := range settings[1:] {
		switch all, word := words[s]; {
		case s == named:
			o.Named = true
		case s == ends:
			o.Ends = true
		case s == events:
			o.Events = true
		case s == unsized:
			o.Room = -1
		case strings.HasPrefix(s, room):
			o.Room, err = strconv.ParseFloat(s[len(room):], 64)
			if err != nil || !(o.Room > 0 && o.Room <= 100) {
				return o, true, fmt.Errorf("%s: %q: a share of an engine's blocks, as 0.8", rule, s)
			}
		case word:
			for _, s := range all {
				if err := set(&o.Hub, s); err != nil {
					return o, true, fmt.Errorf("%s: %w", rule, err)
				}
			}
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
		return fmt.Errorf("%q is neither PATH=VALUE nor %s, %s, %s, %s, %s0.8, seats, depth, untolled",
			setting,
			named, ends, events, unsized, room)
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
