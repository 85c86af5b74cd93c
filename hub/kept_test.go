package hub

// Forget has nothing kept of what was quoted and looked up for those who wait.
func (n *Node) Forget() {
	for _, t := range n.known {
		if k := t.notes; k != nil {
			clear(k.quotes[:])
			k.looked = false
		}
	}
}
