package predict

import "time"

// OwnITL is the mean time between tokens of the agent alone; 0 while none was measured.
func (m *Means) OwnITL() time.Duration {
	if m.Seen.ITL.Weight == 0 {
		return 0
	}
	return span(m.Seen.ITL.value())
}

// ITL is the mean time between tokens of the class; 0 while none was measured.
func (l Line) ITL() time.Duration { return span(l.class.ITL) }

// LatestFirst returns the time by which 999 in 1000 first tokens with such a forecast have come, once two
// hundred of about that size were seen.
func (m *Means) LatestFirst(forecast time.Duration) (time.Duration, bool) {
	_, most, seen := m.ranges().most()
	return span(forecast.Seconds() * max(1, most)), seen >= ratiosOf
}
