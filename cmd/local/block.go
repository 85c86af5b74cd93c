package local

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"souk/agentd"
	"souk/hub"
)

// Block is a block of a market's file that is read when it is known what it is laid over: the settings that a
// part has in a file of its own, as deploy/README.md lists them.
type Block struct{ node ast.Node }

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (b *Block) UnmarshalYAML(node ast.Node) error {
	b.node = node
	return nil
}

// over reads b over what is in v. Unknown fields are errors.
func (b Block) over(v any) error {
	if b.node == nil {
		return nil
	}
	if err := yaml.NodeToValue(b.node, v, yaml.Strict()); err != nil {
		return errors.New(yaml.FormatError(err, false, false))
	}
	return nil
}

// overHub lays what a market's file says of hubs over one, whose names are its domain's.
func (b Block) overHub(h *hub.Config) error {
	was := *h
	if err := b.over(h); err != nil {
		return err
	}
	if h.Domain != was.Domain || h.Hub != was.Hub || h.Journal != was.Journal || h.General != was.General ||
		!slices.Equal(h.Labels, was.Labels) {
		return errors.New("domain, hub, journal, labels and general are those of the domain: leave them out")
	}
	return nil
}

// overAgent lays what a market's file says of an agent over it.
func (b Block) overAgent(a *agentd.AgentConfig) error {
	was := *a
	if err := b.over(a); err != nil {
		return err
	}
	if a.ID != was.ID || a.Model != was.Model || a.Slots != was.Slots || a.Price != was.Price ||
		a.Engine.URL != was.Engine.URL || !slices.Equal(a.Domains, was.Domains) {
		return fmt.Errorf("id, model, slots, price, domains and engine.url stand beside this block: leave " +
			"them out of it")
	}
	return nil
}
