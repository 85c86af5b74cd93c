package main

import (
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/membus"
	"souk/cmd/local"
)

// A client whose last key is revoked stays in the cache group that an operator put it into, and the command
// says so.
func TestARevokedKeysClientStaysInItsGroup(t *testing.T) {
	r := membus.New(1).Registry()
	k := bus.APIKey{ID: "k1", Client: "ann"}
	if _, err := local.NewKeyIn(t.Context(), r, nil, k, "team"); err != nil {
		t.Fatal(err)
	}
	c := revokeKey(func(c *cobra.Command, f func(context.Context, bus.Registry) error) error {
		return f(c.Context(), r)
	}, nil)
	var out strings.Builder
	c.SetErr(&out)
	c.SetArgs([]string{"k1"})
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	of, err := local.Groups(t.Context(), r)
	if err != nil || of["ann"] != "team" {
		t.Errorf("groups are %v, %v", of, err)
	}
	if keys, err := local.Keys(t.Context(), r); err != nil || len(keys) > 0 {
		t.Errorf("keys are %v, %v", keys, err)
	}
	if want := "ann shares its cache with cache group team"; !strings.Contains(out.String(), want) {
		t.Errorf("it says %q, want %q", out.String(), want)
	}
}
