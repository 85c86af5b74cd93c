package congest

// Valid reports whether what was written down can be what was seen of an agent.
func (a *Agent) Valid() bool {
	l := &a.Line
	return a.Seen <= enough && min(l.N, l.X, l.XX, l.Y, l.XY, l.Lengths.N, l.Lengths.X) >= 0
}
