package main

import (
	"testing"

	"souk/bus"
)

// What is measured is what clients of OpenAI's API see, who name no terms; the clients of souk run do.
func TestWhoLoads(t *testing.T) {
	for _, mixed := range []bool{false, true} {
		f := loadFlags{clients: 5, mixed: mixed}
		names := map[string]bool{}
		for _, c := range f.payers() {
			if names[c.ID] = true; !bus.ValidID(c.ID) || (c.Terms == bus.Terms{}) == mixed {
				t.Errorf("mixed %v: %+v", mixed, c)
			}
		}
		if len(names) != f.clients {
			t.Errorf("mixed %v: %d clients", mixed, len(names))
		}
	}
}
