package virtual

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

// inGroups plays tau, whose dialogues all begin with one system prompt, in cache groups.
func inGroups(t *testing.T, groups, rule string) (Setting, []*Request, Measures) {
	t.Helper()
	of, _, err := traceNamed("tau" + groups)
	if err != nil {
		t.Fatal(err)
	}
	s, err := of.setting(4)
	if err != nil {
		t.Fatal(err)
	}
	s.Tasks, s.Seed = 400, 5
	var all []*Request
	if rule == MarketName {
		all, _, _, err = playMarket(s, NewMarketOptions(s))
		if err != nil {
			t.Fatal(err)
		}
	} else {
		all, _ = routed(t, s, rule)
	}
	return s, all, s.Measure(all)
}

// Nobody finds, and nobody is believed to find, what another group alone has sent, under the market and under
// rules; who shares a group does. The more groups there are behind one system prompt, the less is cached.
func TestGroupsShareNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for _, rule := range []string{MarketName, "two-block", "dynamo", "sglang", "lmetric", "sticky"} {
		last := 1.0
		for _, groups := range []string{"@1", "@4", "@own"} {
			s, all, f := inGroups(t, groups, rule)
			t.Logf("%s, tau%s: share %.4f, bound %.4f", rule, groups, f.Share, f.Bound)
			if f.Share > f.Bound || f.Share >= last {
				t.Errorf("%s, tau%s: %.4f of the prompts' tokens are cached, at most %.4f can be, and in fewer "+
					"groups %.4f were", rule, groups, f.Share, f.Bound, last)
			}
			last = f.Share
			begun := map[int]bool{} // groups of which something was sent
			members := map[int]map[int]bool{}
			strangers, found := 0, 0
			slices.SortStableFunc(all, func(a, b *Request) int { return cmp.Compare(a.First, b.First) })
			for _, r := range all {
				if r.Group != s.group(r.Caller) {
					t.Fatalf("caller %d is in group %d, and asks in %d", r.Caller, s.group(r.Caller), r.Group)
				}
				if members[r.Group] == nil {
					members[r.Group] = map[int]bool{}
				}
				if r.Turn == 0 && !members[r.Group][r.Caller] && begun[r.Group] {
					strangers++
					if r.Cached > 0 {
						found++
					}
				}
				if !begun[r.Group] && (r.Cached > 0 || r.believed > 0) {
					t.Errorf("%s, tau%s: the first of group %d finds %d tokens, and is believed to find %d", rule,
						groups, r.Group, r.Cached, r.believed)
				}
				begun[r.Group], members[r.Group][r.Caller] = true, true
			}
			if groups == "@own" && strangers > 0 {
				t.Errorf("%s: %d callers came into a group of another's", rule, strangers)
			}
			if groups == "@1" && found == 0 {
				t.Errorf("%s: of %d callers in a group of others none found what those had sent", rule, strangers)
			}
		}
	}
}

// One group is what all pages play where they say nothing of groups.
func TestOneGroupIsNone(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for _, rule := range []string{MarketName, "two-block"} {
		_, none, _ := inGroups(t, "", rule)
		_, one, _ := inGroups(t, "@1", rule)
		if digest(t, none) != digest(t, one) {
			t.Errorf("%s: all in one group are not as without groups", rule)
		}
	}
}

// What stands behind a trace's name is a number of groups, or own.
func TestNamesOfGroups(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for name, groups := range map[string]int{"tau": 0, "tau@1": 1, "rag@16": 16, "agents@own": Own} {
		of, _, err := traceNamed(name)
		if err != nil {
			t.Fatal(name, err)
		}
		if s, err := of.setting(8); err != nil || s.Groups != groups || of.Name != name {
			t.Errorf("%s: %s in %d groups, %v", name, of.Name, s.Groups, err)
		}
	}
	for _, name := range []string{"tau@", "tau@0", "tau@-1", "tau@each", "tau@1e3", "tau@10001", "tau@4@4",
		"none@4", "@4"} {
		if _, _, err := traceNamed(name); err == nil || !strings.Contains(err.Error(), "trace ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
