package policies

import "testing"

// Where roles follow one another, tasks wait much less for adapters, as they do by foresight; a policy that
// says always the same does nothing; and the same seed gives the same.
func TestPlayAdapters(t *testing.T) {
	p := AdapterPanels()[0]
	p.plays = 30
	figures := map[string]AdapterFigures{}
	for _, rule := range append(AdapterRules, "none") {
		f, err := PlayAdapters(p, rule, 1)
		if err != nil {
			t.Fatal(rule, err)
		}
		if was, ok := figures[rule]; ok && was != f {
			t.Errorf("%s: %+v, and again %+v", rule, was, f)
		}
		figures[rule] = f
	}
	none := figures["none"]
	if none.Wait <= 0 || figures["next"].Wait > 0.5*none.Wait || figures["told"].Wait > 0.5*none.Wait {
		t.Errorf("%+v", figures)
	}
	if figures["next, constant"] != none {
		t.Errorf("constant %+v, without %+v", figures["next, constant"], none)
	}
}
