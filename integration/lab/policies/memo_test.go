package policies

import "testing"

// Of the calls that tau-bench's agent makes in the recorded conversations a few are made again within the
// same conversation, and answered without the tool: far fewer than a tenth, so it is off unless a program
// asks for it. None of these answers is old.
func TestAMemoOnTauBench(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	sum := map[string]MemoFigures{}
	for _, rule := range MemoRules {
		for rest := range 5 {
			f, err := PlayMemo(rule, rest)
			if err != nil {
				t.Fatal(err)
			}
			s := sum[rule]
			sum[rule] = MemoFigures{s.Calls + f.Calls, s.Hits + f.Hits, s.Old + f.Old}
		}
	}
	memo := sum["memo"]
	if memo.Calls < 100 || memo.Hits == 0 || memo.Hits*10 > memo.Calls || memo.Old > 0 {
		t.Errorf("%+v", memo)
	}
	t.Logf("%+v", sum)
	if sum["none"].Hits+sum["memo, constant"].Hits > 0 {
		t.Errorf("%+v", sum)
	}
}

// What is planted is found, and nothing else is cut; simpler rules let something through.
func TestPlayGuard(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for _, rule := range GuardRules {
		f, err := PlayGuard(rule, 1)
		if err != nil {
			t.Fatal(err)
		}
		if all := f.Found == f.Texts && f.Leaked == 0; all != (rule == "patterns") || f.False > 0 ||
			f.Texts < 1000 {
			t.Errorf("%s: %+v", rule, f)
		}
	}
}
