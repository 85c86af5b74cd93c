package predict

import "time"

// OwnITL is the mean time between tokens of the agent alone; 0 while none was measured.
func (m *Means) OwnITL() time.Duration {
	if m.Seen.ITL.Weight == 0 {
		return 0
	}
	return span(m.Seen.ITL.value())
}
