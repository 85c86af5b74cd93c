package virtual

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"souk/hub"
)

// MarketName is the name that stands for the market among those of rules. It may be followed by changes to
// its default settings, each after a colon: a setting of the hub, by its path in the hub's file, as in
// market:terms.worth=20; or the word named, for callers that name their sessions.
const MarketName = "market"

const named = "named"

// variant is the market that a rule's name stands for; ok is false if it is not MarketName.
func variant(rule string) (cfg hub.Config, names, ok bool, err error) {
	settings := strings.Split(rule, ":")
	if settings[0] != MarketName {
		return cfg, false, false, nil
	}
	cfg = hub.Default()
	for _, s := range settings[1:] {
		if s == named {
			names = true
			continue
		}
		if err := set(&cfg, s); err != nil {
			return cfg, false, true, fmt.Errorf("%s: %w", rule, err)
		}
	}
	complete(&cfg)
	if err := cfg.Validate(); err != nil {
		return cfg, false, true, fmt.Errorf("%s: %w", rule, err)
	}
	return cfg, names, true, nil
}

// set changes a setting: a.b=v sets b in block a of the hub's file.
func set(cfg *hub.Config, setting string) error {
	path, value, ok := strings.Cut(setting, "=")
	if !ok {
		return fmt.Errorf("%q is neither PATH=VALUE nor %s", setting, named)
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
