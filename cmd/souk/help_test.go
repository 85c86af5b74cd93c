package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Help of every command is text alone: nothing of the code in which it is written stands in it.
func TestHelpIsText(t *testing.T) {
	commands := 0
	var each func(*cobra.Command)
	each = func(c *cobra.Command) {
		commands++
		for _, text := range []string{c.Short, c.Long, c.Example} {
			for line := range strings.Lines(text) {
				if strings.Contains(line, "\t") || strings.Contains(line, `" +`) {
					t.Errorf("%s: %q", c.CommandPath(), line)
				}
			}
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(root())
	if commands < 25 {
		t.Errorf("%d commands", commands)
	}
}
