package hostile

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"souk/bus"
)

var update = flag.Bool("update", false, "write the fields of this version to "+beforeFile)

// beforeFile has what the version before this one says and reads: for each message, each entry of the
// registry and each struct in them the names of its fields, in each form in which it travels.
const beforeFile = "testdata/before.txt"

// spoken is all that parts say to one another: messages, and entries of the registry.
var spoken = []any{
	bus.Task{}, bus.Accepted{}, bus.Answer{}, bus.Dispatch{}, bus.DispatchReply{}, bus.Chunk{}, bus.Result{},
	bus.Completion{}, bus.CompletionAck{}, bus.Cancel{}, bus.StreamControl{}, bus.HoldControl{},
	bus.Feedback{}, bus.Summary{}, bus.Status{}, bus.Call{}, bus.Ask{}, bus.FundsRequest{},
	bus.FundsReply{}, bus.Recall{},
	bus.RecallReply{}, bus.Quote{}, bus.HubQuote{}, bus.SessionEnd{}, bus.SessionEnded{}, bus.Holdings{},
	bus.Registration{}, bus.Claim{}, bus.HubEntry{}, bus.MarketConfig{}, bus.APIKey{}, bus.MarkKeys{},
	bus.CacheGroup{}, bus.VouchKeys{},
}

// added is what the version before does not know: it reads past these fields, and leaves them out. A message
// that is new as a whole has no names here; nobody of that version says it or hears it.
var added = map[string]string{
	"bus.Prompt msgpack":       "text wide pieces tools loose anchor former next",
	"bus.Task msgpack":         "token again session_end back_ms parent next declared heard whole tail salt",
	"bus.Task json":            "reply_token session_end back_ms parent next",
	"bus.Answer msgpack":       "look alone",
	"bus.Dispatch msgpack":     "fence prompt_most cached first_ms crowd claimed k tokens sketch watch_ms",
	"bus.FundsRequest msgpack": "returned distributed domain ahead hubs to every at_ms needs",
	"bus.FundsRequest json":    "returned distributed domain ahead hubs to every at_ms needs",
	"bus.FundsReply msgpack":   "retry_ms number surplus hubs ended unmade",
	"bus.FundsReply json":      "retry_ms number surplus hubs ended unmade",
	"bus.Accepted msgpack":     "attempt",
	"bus.Accepted json":        "attempt",
	"bus.Chunk msgpack":        "o",
	"bus.Chunk json":           "gone",
	"bus.Result msgpack":       "crowd thought",
	"bus.Result json":          "crowd reasoning_tokens",
	"bus.APIKey json":          "",
	"bus.MarkKeys json":        "",
	"bus.CacheGroup json":      "",
	"bus.ModelStatus msgpack":  "cards heard",
	"bus.ModelStatus json":     "cards heard",
	"bus.Feedback msgpack":     "gold",
	"bus.Feedback json":        "gold",
	"bus.Registration json":    "template measured",
	"bus.Recall msgpack":       "",
	"bus.RecallReply msgpack":  "",
	"bus.Quote msgpack":        "",
	"bus.Quote json":           "",
	"bus.HubQuote msgpack":     "",
	"bus.HubQuote json":        "",
	"bus.StreamControl json":   "",
	"bus.SessionEnd msgpack":   "",
	"bus.SessionEnd json":      "",
	"bus.SessionEnded msgpack": "",
	"bus.SessionEnded json":    "",
	"bus.Holdings msgpack":     "",
	"bus.HoldControl msgpack":  "holdings late",
	"bus.Completion msgpack":   "claimed form tool sketch thought",
	"bus.Status msgpack":       "policies seats hedged hedged_false closed closed_ms",
	"bus.Status json":          "policies seats hedged hedged_false closed closed_ms",
	"bus.Summary msgpack":      "prefills ahead measured late held",
}

// elsewhere are new fields that nobody says in the plays of TestMixedVersions, and the test that has them.
var elsewhere = map[string]string{
	// without it a hub goes on as that of before
	"bus.FundsReply msgpack ended": "hub: TestAHubThatTheTreasuryEnded",
	// without it who asked does not know whether it was made, as before
	"bus.FundsReply msgpack unmade": "ledger/treasury: TestAFullDiskIsNoDoubt",
	"bus.FundsReply json unmade":    "ledger/treasury: TestAFullDiskIsNoDoubt",
	// they stand there for two hours a day alone; whoever reads past them believes less for that long
	"bus.Prompt msgpack former": "integration/knowing: TestAKeyThatTurnsLosesNoBelief",
	"bus.Prompt msgpack next":   "integration/knowing: TestAKeyThatTurnsLosesNoBelief",
	// an agent of the version before never said what it holds, so it is never asked, and billed by nothing
	// a hub of the version before keeps nothing for a session's next turn
	"bus.Task msgpack session_end":     "hub: TestASessionThatHasEnded",
	"bus.HoldControl msgpack holdings": "hub: TestAHubThatMissedSomethingAsks",
	"bus.Dispatch msgpack claimed":     "hub: TestAClaimIsBilled",
	"bus.Completion msgpack claimed":   "hub: TestAClaimIsBilled",
	// a hub of the version before is never unsure, and a door of it is believed
	"bus.Answer msgpack look": "hub: TestADoorThatIsOutOfStep",
	// without it a door asks all hubs, as it did
	"bus.Answer msgpack alone": "classifier/serve: TestATaskThatWaitedGoesOn",
	// an agent of the version before has not the feature for which touches are dispatched
	"bus.Dispatch msgpack k":      "hub: TestNothingIsTouchedWhere",
	"bus.Dispatch msgpack tokens": "hub: TestNothingIsTouchedWhere",
	// without them the registered score stands
	"bus.Completion msgpack form": "hub: TestABrokenFormLowersQuality",
	// of an agent that sends none nothing is compared
	"bus.Dispatch msgpack sketch":   "hub: TestTasksAreAskedAgain",
	"bus.Completion msgpack sketch": "hub: TestTasksAreAskedAgain",
	"bus.Feedback msgpack gold":     "hub: TestGoldIsTheWordOfJudges",
	"bus.Feedback json gold":        "hub: TestGoldIsTheWordOfJudges",
	// hints change nothing where no policy is on, and none is by default
	"bus.Task msgpack back_ms": "hub: TestHintsReachPolicies",
	"bus.Task msgpack parent":  "hub: TestHintsReachPolicies",
	"bus.Task msgpack next":    "hub: TestHintsReachPolicies",
	// without it a reader takes what the same agent says of an attempt that was given up
	"bus.Accepted msgpack attempt": "bus/reader: TestScripts/named",
	"bus.Accepted json attempt":    "bus/reader: TestScripts/named",
	// without it a reader finds out by itself that its agent is silent
	"bus.Chunk msgpack o": "hub: TestScripts/absent",
	"bus.Chunk json gone": "hub: TestScripts/absent",
	// of an engine that does not say what it holds nobody knows it, as of those in these plays
	"bus.Summary msgpack ahead": "agentd: TestSummariesSayWhatIsAhead",
	// likewise; and who has not heard it asks a minute later
	"bus.Summary msgpack held":    "hub: TestAHubThatMissedTheLastAsks",
	"bus.Task msgpack declared":   "hub: TestHintsReachPolicies",
	"bus.Completion msgpack tool": "agentd: TestTheToolThatAnAnswerCalls",
	"bus.Status msgpack policies": "hub: TestAPolicyThatPanicsIsNamed",
	"bus.Status json policies":    "hub: TestAPolicyThatPanicsIsNamed",
	// an agent of the version before never says that a task is late, so it is never asked for one
	"bus.Summary msgpack late":        "agentd/serve: TestALateFirstToken",
	"bus.HoldControl msgpack late":    "agentd/serve: TestALateFirstToken",
	"bus.Status msgpack hedged":       "hub: TestATaskLeavesASilentEngine",
	"bus.Status json hedged":          "hub: TestATaskLeavesASilentEngine",
	"bus.Status msgpack hedged_false": "hub: TestAFalseMoveIsCounted",
	"bus.Status json hedged_false":    "hub: TestAFalseMoveIsCounted",
	"bus.Status msgpack closed":       "hub: TestStatusSaysWhyAHubTakesNoTask",
	"bus.Status msgpack closed_ms":    "hub: TestStatusSaysWhyAHubTakesNoTask",
	"bus.Status json closed":          "hub: TestStatusSaysWhyAHubTakesNoTask",
	"bus.Status json closed_ms":       "hub: TestStatusSaysWhyAHubTakesNoTask",
	"bus.Status msgpack seats":        "hub: TestStatusSaysHowAHubIsSeated",
	"bus.Status json seats":           "hub: TestStatusSaysHowAHubIsSeated",
	// where no policy is on that has texts computed ahead, nobody reads it
	"bus.Completion msgpack thought": "agentd: TestReasoningIsLeftOut",
	// nobody thinks in these plays
	"bus.Result msgpack thought":       "agentd: TestReasoningIsCounted",
	"bus.Result json reasoning_tokens": "agentd: TestReasoningIsCounted",
}

// gone is what the version before says and nobody of it reads but to check its bounds, where absent is in
// bounds: parts of this version leave it out and pass over it.
var gone = map[string]string{
	"bus.Completion msgpack":    "free",
	"bus.Dispatch msgpack":      "prev_agent prev_role",
	"bus.Grant json":            "id",
	"bus.Grant msgpack":         "id",
	"bus.Result json":           "wait_us",
	"bus.Result msgpack":        "wait_us",
	"bus.Status json":           "round",
	"bus.Status msgpack":        "round",
	"bus.StreamControl msgpack": "client recall",
	"bus.Summary msgpack":       "engine free itl_us",
}

// within are structs that have new names as a whole, in fields that are new themselves.
var within = []string{"bus.HubFunds msgpack", "bus.HubFunds json", "bus.Template json", "market.Toll msgpack",
	"market.Toll json", "bus.KeyHash json", "bus.KeyBudget json", "bus.MarkKey json",
	"bus.Cards msgpack", "bus.Cards json", "bus.ModelQuote msgpack", "bus.ModelQuote json",
	"bus.Heard msgpack", "bus.Heard json", "bus.PolicyStatus msgpack", "bus.PolicyStatus json",
	"bus.SeatStatus msgpack", "bus.SeatStatus json", "bus.HeardStatus msgpack"}

// form is how a struct travels: as msgpack or as JSON.
type form struct {
	of  reflect.Type
	tag string
}

func (f form) String() string { return f.of.String() + " " + f.tag }

// member is a field of a form by its name.
type member struct {
	name  string
	of    reflect.Type // the struct in it, if it is ours
	empty bool         // it is left out where it says nothing
}

// members are the fields of a form; nil where it does not travel so.
func (f form) members() (all []member) {
	tagged := false
	for i := range f.of.NumField() {
		field := f.of.Field(i)
		tag, ok := field.Tag.Lookup(f.tag)
		name, options, _ := strings.Cut(tag, ",")
		if !field.IsExported() || name == "-" {
			continue
		}
		tagged = tagged || ok
		if name == "" {
			name = field.Name
		}
		m := member{name: name, empty: options == "omitempty" || options == "omitzero"}
		of := field.Type
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && strings.HasPrefix(of.PkgPath(), "souk/") {
			m.of = of
		}
		all = append(all, m)
	}
	if !tagged {
		return nil
	}
	return all
}

// forms are all forms of what is spoken, by their names.
func forms() map[string]form {
	all := map[string]form{}
	var walk func(f form)
	walk = func(f form) {
		members := f.members()
		if _, known := all[f.String()]; known || members == nil {
			return
		}
		all[f.String()] = f
		for _, m := range members {
			if m.of != nil {
				walk(form{m.of, f.tag})
			}
		}
	}
	for _, v := range spoken {
		walk(form{reflect.TypeOf(v), "msgpack"})
		walk(form{reflect.TypeOf(v), "json"})
	}
	return all
}

// line is a form as beforeFile has it.
func (f form) line() string {
	s := f.String()
	for _, m := range f.members() {
		s += " " + m.name
	}
	return s
}

// readBefore returns the names of the fields of every form that beforeFile has.
func readBefore(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(beforeFile)
	if err != nil {
		t.Fatal(err)
	}
	before := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		before[words[0]+" "+words[1]] = words[2:]
	}
	return before
}

// unnamed says what neither before nor added has named, and what they name that there is not.
func unnamed(before map[string][]string, added map[string]string, within []string) (all []string) {
	complain := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	now := forms()
	for name, f := range now {
		old, isOld := before[name]
		words, isNew := added[name]
		fresh := strings.Fields(words)
		if !isOld && (isNew && words == "" || slices.Contains(within, name)) {
			continue // as a whole
		}
		if !isOld {
			complain("%s is in neither %s nor fields_test.go: parts of the version before do not know "+
				"it; name "+
				"it in added, with no fields, if it is a message, and in within, if it is a part of one",
				name,
				beforeFile)
			continue
		}
		for _, m := range f.members() {
			is, was := slices.Contains(fresh, m.name), slices.Contains(old, m.name)
			switch {
			case !is && !was:
				complain("%s has a field %s that neither %s nor added in fields_test.go names: parts of the "+
					"version before neither say nor read it; name it in added, and see that "+
					"TestMixedVersions "+
					"has it said", name, m.name, beforeFile)
			case is && was:
				complain("%s: field %s is in %s, so it is not new: take it out of added in fields_test.go",
					name,
					m.name, beforeFile)
			case is && !m.empty:
				complain("%s: field %s is new and always said: let it be left out where it says "+
					"nothing, with "+
					"omitempty, so that what one version writes is what the other would", name, m.name)
			}
			fresh = slices.DeleteFunc(fresh, func(s string) bool { return s == m.name })
			old = slices.DeleteFunc(slices.Clone(old), func(s string) bool { return s == m.name })
		}
		for _, word := range fresh {
			complain("%s has no field %s, which added in fields_test.go names: take it out there", name, word)
		}
		for _, word := range old {
			if slices.Contains(strings.Fields(gone[name]), word) {
				continue
			}
			complain("%s has no field %s any more, which the version before says and reads by %s: keep "+
				"it, at "+
				"least to be ignored; or, where nobody of that version reads it, name it in gone in "+
				"fields_test.go", name, word, beforeFile)
		}
	}
	for _, names := range [][]string{slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(added)),
		within} {
		for _, name := range names {
			if _, ok := now[name]; !ok {
				complain("%s is nothing that is said any more, by %s or fields_test.go: keep it, or take "+
					"it out "+
					"there where it is new", name, beforeFile)
			}
		}
	}
	slices.Sort(all)
	return all
}

// Every field that is said on the bus or in the registry is either one that the version before has, or is
// known for a new one, which TestMixedVersions plays without.
func TestFieldsOfTheVersionBefore(t *testing.T) {
	if *update {
		var text []byte
		now := forms()
		for _, name := range slices.Sorted(maps.Keys(now)) {
			text = append(text, now[name].line()+"\n"...)
		}
		if err := os.WriteFile(beforeFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, complaint := range unnamed(readBefore(t), added, within) {
		t.Error(complaint)
	}
	declared := declaredMessages(t)
	for _, v := range spoken {
		declared = slices.DeleteFunc(declared, func(s string) bool { return s == reflect.TypeOf(v).Name() })
	}
	for _, name := range declared {
		t.Errorf("bus.%s is said by parts, and spoken in fields_test.go does not name it: name it there",
			name)
	}
}

// declaredMessages reads in the source of package bus which types are messages, and which are entries.
func declaredMessages(t *testing.T) (names []string) {
	t.Helper()
	paths, err := filepath.Glob("../../bus/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no source of package bus: %v", err)
	}
	star := func(x ast.Expr) {
		if s, ok := x.(*ast.StarExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok && id.IsExported() {
				names = append(names, id.Name)
			}
		}
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "message" && n.Recv != nil && n.Type.Params.NumFields() == 0 {
					star(n.Recv.List[0].Type)
				}
			case *ast.TypeSpec:
				if n.Name.Name != "Entry" {
					break
				}
				ast.Inspect(n.Type, func(n ast.Node) bool {
					if x, ok := n.(ast.Expr); ok {
						star(x)
					}
					return true
				})
			}
			return true
		})
	}
	if len(names) < 20 || !slices.Contains(names, "Claim") || !slices.Contains(names, "Dispatch") {
		t.Fatalf("messages and entries of package bus are not found in its source: %q", names)
	}
	return names
}

// The list complains of what it does not name.
func TestFieldsComplain(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(before map[string][]string, added map[string]string)
		want   string
	}{
		{"a new field", func(_ map[string][]string, added map[string]string) {
			added["bus.Dispatch msgpack"] = "fence prompt_most cached first_ms claimed"
		}, "bus.Dispatch msgpack has a field crowd that neither testdata/before.txt nor added"},
		{"a new field of a struct within", func(before map[string][]string, _ map[string]string) {
			before["market.Usage msgpack"] = []string{"p", "o"}
		}, "market.Usage msgpack has a field c that neither"},
		{"a field that went", func(before map[string][]string, _ map[string]string) {
			before["bus.Claim json"] = append(before["bus.Claim json"], "nonce")
		}, "bus.Claim json has no field nonce any more"},
		{"a message that went", func(before map[string][]string, _ map[string]string) {
			before["bus.Gossip msgpack"] = []string{"rumour"}
		}, "bus.Gossip msgpack is nothing that is said any more"},
		{"a new message", func(_ map[string][]string, added map[string]string) {
			delete(added, "bus.Recall msgpack")
		}, "bus.Recall msgpack is in neither"},
		{"one that is not new", func(_ map[string][]string, added map[string]string) {
			added["bus.Completion msgpack"] = "relayed claimed"
		}, "bus.Completion msgpack: field relayed is in"},
		{"one that is always said", func(before map[string][]string, added map[string]string) {
			added["bus.Completion msgpack"] = "cost claimed"
			before["bus.Completion msgpack"] = slices.DeleteFunc(before["bus.Completion msgpack"],
				func(s string) bool { return s == "cost" })
		}, "bus.Completion msgpack: field cost is new and always said"},
	} {
		before, fresh := readBefore(t), maps.Clone(added)
		c.change(before, fresh)
		all := unnamed(before, fresh, within)
		if !slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, c.want) }) {
			t.Errorf("%s: nobody complains %q: %q", c.name, c.want, all)
		}
	}
}
