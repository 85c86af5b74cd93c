package prefix

// Idle shows the sessions that no task needs which runs, with how many tokens the agent is believed to hold
// of each: what is used least recently first, as that goes first when room is needed. A session of whose text
// the end is gone already, by what was served or by what the agent says, is not among them.
func (b *Belief) Idle(show func(session uint64, tokens int) bool) {
	for e := b.recent.Back(); e != nil; e = e.Prev() {
		s := e.Value.(*session)
		if !b.alive(s) || b.nodes[s.end].runs > 0 || b.told.rules && !b.says(b.nodes[s.end].hash) {
			continue
		}
		if n := &b.nodes[s.end]; !show(s.key, int(n.upto)+int(n.answer)) {
			return
		}
	}
}

// Session is how many tokens of a session the agent is believed to hold: all of them, or none where the end
// of its text is gone.
func (b *Belief) Session(key uint64) int {
	e, ok := b.sessions[key]
	if !ok {
		return 0
	}
	s := e.Value.(*session)
	if !b.alive(s) {
		return 0
	}
	n := &b.nodes[s.end]
	if !n.held || b.told.rules && n.until != old && !b.says(n.hash) {
		return 0
	}
	return int(n.upto) + int(n.answer)
}

// Room is how many tokens more fit beside what the agent is believed to hold.
func (b *Belief) Room() int { return max(0, b.capacity-b.tokens) }

// Used says that the engine has used what it holds of a session's last prompt, and nothing else: so that goes
// last when room is needed.
func (b *Belief) Used(key uint64) {
	e, ok := b.sessions[key]
	if !ok {
		return
	}
	b.recent.MoveToFront(e)
	s := e.Value.(*session)
	if !b.alive(s) {
		return
	}
	b.clock++
	s.used = b.clock
	for i := s.end; i != none; i = b.nodes[i].parent {
		if n := &b.nodes[i]; n.held && n.runs == 0 {
			b.unlink(i)
			b.push(i)
		}
	}
}
