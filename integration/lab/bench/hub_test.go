package bench

import "testing"

// A hub without wires serves whoever is alone at once, and a crowd gets as many seats as come free.
func TestDesk(t *testing.T) {
	d, err := newDesk(3, 2)
	if err != nil {
		t.Fatal(err)
	}
	us, bytes, err := d.lives(20)
	if err != nil || us <= 0 || bytes < 100 {
		t.Errorf("a task takes %v us and %v bytes: %v", us, bytes, err)
	}
	asked, err := d.quoteRequests(1)
	if err == nil {
		err = d.quote(asked[0])
	}
	if err != nil {
		t.Error(err)
	}
	c, err := newCrowd(2, 3, 20, 4)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		used, awards, err := c.round()
		if err != nil || awards != 6 || used <= 0 {
			t.Errorf("%d of 6 seats were given away in %v: %v", awards, used, err)
		}
		if waiting := c.node.Stats().Waiting; waiting != 14 {
			t.Errorf("%d tasks wait, want 14", waiting)
		}
	}
	if c, err = newCrowd(16, 1, 20, 4); err != nil {
		t.Fatal(err)
	}
	if bytes, err := c.journal(3); err != nil || bytes < 100 || bytes > 10_000 {
		t.Errorf("records of %.0f bytes for a task of a crowd: %v", bytes, err)
	}
}
