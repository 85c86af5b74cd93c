package hub

import "souk/hub/prefix"

// Forget has nothing kept of what was looked up for those who wait.
func (n *Node) Forget() {
	for _, t := range n.admission.Known() {
		t.Asks.Held = prefix.Lookup{}
	}
}
