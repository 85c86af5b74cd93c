package hub

// deep is how much of a task's prompt each agent is believed to hold, as far as it was asked last: the agents
// are asked for one task after the other.
type deep struct {
	task    *task
	version uint64
	marks   []int32 // by the place of the agent's belief
}

// depths are how many marks of a task's prompt each agent is believed to hold, by the place of its belief,
// whoever sent the text before.
func (n *Node) depths(t *task) []int32 {
	d := &n.deep
	if d.task != t || d.version != n.prefixes.Version() {
		d.task, d.version = t, n.prefixes.Version()
		d.marks = n.prefixes.Depths(d.marks, t.msg.Prompt.Marks)
	}
	return d.marks
}
