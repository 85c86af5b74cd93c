package ahead

import "testing"

// With the policy texts are computed ahead, and more of later prompts is found; without it, or without
// reasoning, nothing is.
func TestPlay(t *testing.T) {
	with := Options{Callers: 4, Thought: 300, Tasks: 150, Seeds: 1}
	rows, err := Compare(with)
	if err != nil {
		t.Fatal(err)
	}
	if off, on := rows[0].Mean, rows[1].Mean; on.Made <= off.Made || on.Cached <= off.Cached ||
		on.Cost <= 0 {
		t.Errorf("without %+v, with %+v", off, on)
	}
	plain := with
	plain.Thought = 0
	rows, err = Compare(plain)
	if err != nil {
		t.Fatal(err)
	}
	if rows[0].Mean != rows[1].Mean {
		t.Errorf("without reasoning: %+v, and with the policy %+v", rows[0].Mean, rows[1].Mean)
	}
}
