package replay

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// One row of each public set, as the set writes it, and the dialogue it becomes.
var rows = []struct {
	format Format
	row    string
	want   Dialogue
}{
	{Souk, `{"turns":["Who wrote Emma?"]}`, Dialogue{ID: "line-1", Turns: []Turn{{User: "Who wrote Emma?"}}}},
	// as editors on Windows begin a file
	{Souk, "\ufeff" + `{"turns":["Who wrote Emma?"]}`,
		Dialogue{ID: "line-1", Turns: []Turn{{User: "Who wrote Emma?"}}}},
	{Souk, `{"id":"a","domain":"law","system":"Be brief.","turns":["One?",{"user":"Two?","answer":"2"}]}`,
		Dialogue{ID: "a", Domain: "law", System: "Be brief.", Turns: []Turn{{User: "One?"}, {"Two?", "2"}}}},
	{CoQA, `{"id":"c1","source":"wikipedia","story":"A cat sat.","turns":[{"turn":1,"question":"Who sat?","answer":"A cat","span":"A cat"}]}`,
		Dialogue{ID: "c1", Domain: "reading", System: readingTask + "A cat sat.",
			Turns: []Turn{{"Who sat?", "A cat"}}}},
	{QuAC, `{"id":"q1","title":"Ira Hayes","section_title":"Later","context":"He farmed.","turns":[{"question":"Any family?","answer":"CANNOTANSWER","yesno":"x"}]}`,
		Dialogue{ID: "q1", Domain: "reading", System: readingTask + "Ira Hayes: Later\n\nHe farmed.",
			Turns: []Turn{{"Any family?", "I cannot answer that from the passage."}}}},
	{HotpotQA, `{"_id":"h1","question":"When?","answer":"2017","level":"easy","context":[["Song",["It is a song."," From 2017."]]]}`,
		Dialogue{ID: "h1", Domain: "multi-hop",
			System: "Answer the question from the following paragraphs. Name the facts you " +
				"use.\n\nSong\nIt is a song. From 2017.\n", Turns: []Turn{{"When?", "2017"}}}},
	{MTRAG, `{"conversation_id":"m1","collection":"fiqa","turn":"2","input":[{"speaker":"user","text":"One?"},{"speaker":"agent","text":"Yes."},{"speaker":"user","text":"Two?"}],"contexts":[{"document_id":"d","text":"A passage."}],"target":["No."]}`,
		Dialogue{ID: "m1", Domain: "fiqa",
			System: "Answer from the following passages. Say so where they do not hold the answer.\n\nA " +
				"passage.\n", Turns: []Turn{{"One?", "Yes."}, {"Two?", "No."}}}},
	{TauBench, `{"task_id":3,"trial":1,"traj":[{"role":"system","content":"Rules."},{"role":"user","content":"Book."},{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]},{"role":"tool","content":"Done."},{"role":"assistant","content":"Booked."},{"role":"user","content":"Bye."}]}`,
		Dialogue{ID: "tau-3-1", Domain: "tools", System: "Rules.",
			Turns: []Turn{{"Book.", `[{"id":"c"}]`}, {"Done.", "Booked."}}}},
	{Prompts, `{"id":"p1","source":"gsm8k","domain":"math","prompt":"2+2?","answer":"4"}`,
		Dialogue{ID: "p1", Domain: "math", Turns: []Turn{{"2+2?", "4"}}}},
}

func TestRowsOfEverySet(t *testing.T) {
	for _, r := range rows {
		got, err := ReadAll(strings.NewReader(r.row+"\n"), r.format)
		if err != nil {
			t.Errorf("%s: %v", r.format, err)
			continue
		}
		if diff := cmp.Diff([]Dialogue{r.want}, got); diff != "" {
			t.Errorf("%s: want -, got +\n%s", r.format, diff)
		}
	}
}

func TestErrorsNameLineAndField(t *testing.T) {
	const hint = ": a dialogue has id, domain, system and turns, a turn user and answer; is this another " +
		"--format?"
	for _, c := range []struct {
		format Format
		file   string
		want   string
	}{
		{Souk, `{"turns":["a"]}` + "\n" + `{"turn":["b"]}`, `line 2: unknown field "turn"` + hint},
		{Souk, `{"id":"a"}`, "line 1: turns: missing or empty; a dialogue needs at least one"},
		{Souk, `{"turns":[]}`, "line 1: turns: missing or empty; a dialogue needs at least one"},
		{Souk, `{"turns":["a"," "]}`, "line 1: turns[1]: the user says nothing"},
		{Souk, `{"turns":"a"}`, "line 1: turns: a JSON string where a list is expected"},
		{Souk, `{"turns":[{"user":"a","anwser":"b"}]}`, `line 1: unknown field "anwser"` + hint},
		{Souk, `{"id":7,"turns":["a"]}`, "line 1: id: a JSON number where a string is expected"},
		{Souk, `["a"]`, "line 1: a JSON array where an object is expected"},
		{Souk, "\n\n{\"turns\":[\"a\"", "line 3: JSON ends too early: one dialogue stands on one line"},
		{Souk, `{"turns":["a"]}{"turns":["b"]}`, "line 1: more than one JSON value on the line"},
		{Souk, `{"id":"x","turns":["a"]}` + "\n" + `{"id":"x","turns":["a"]}`,
			`line 2: id: "x" was used on line 1 already`},
		{Souk, "", "no dialogue in it"},
		{Souk, `{"turns":["` + strings.Repeat("a", MaxLine) + `"]}`,
			"line 1: longer than 8 MB: one row stands on one line"},
		{CoQA, `{"turns":[{"question":"a"}]}`, "line 1: story: missing or empty; is this CoQA?"},
		{QuAC, `{"story":"a","turns":[]}`, "line 1: context: missing or empty; is this QuAC?"},
		{HotpotQA, `{"question":"a","context":[["title"]]}`,
			"line 1: context: a paragraph is [title, [sentence, ...]]"},
		{MTRAG, `{"input":[{"speaker":"agent","text":"a"}]}`,
			"line 1: input[0].speaker: an agent speaks before the user does"},
		{MTRAG, `{"input":[{"speaker":"user","text":"a"}],"target":{"a":1}}`,
			"line 1: target: want a string or a list of strings"},
		{TauBench, `{"turns":["a"]}`, "line 1: traj: missing or empty; is this tau-bench?"},
		{"coka", `{}`, `unknown format "coka": use one of souk, coqa, quac, hotpotqa, mtrag, taubench, prompts`},
	} {
		_, err := ReadAll(strings.NewReader(c.file), c.format)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s %.60s\n got %v\nwant %s", c.format, c.file, err, c.want)
		}
	}
}

func TestPackedFilesAreReadAsTheyAre(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, `{"turns":["a"]}`+"\r\n\r\n"+`{"turns":["b"]}`)
	z.Close()
	ds, err := ReadAll(&packed, Souk)
	if err != nil || len(ds) != 2 || ds[1].ID != "line-3" {
		t.Errorf("got %v, %v; want two dialogues, the second of line 3", ds, err)
	}
	if _, err := ReadAll(bytes.NewReader([]byte{0x1f, 0x8b, 0, 0}), Souk); err == nil {
		t.Error("a broken gzip header was taken")
	}
}

func TestBundledDialoguesAreMixed(t *testing.T) {
	ds, err := Bundled()
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]bool{}
	for _, d := range ds[:len(bundled)*3] {
		first[d.Domain] = true
	}
	if len(first) != len(bundled) {
		t.Errorf("the first %d dialogues are of %d sources, want %d", len(bundled)*3, len(first),
			len(bundled))
	}
	all := map[string]int{}
	for _, d := range ds {
		all[d.Domain]++
	}
	want := map[string]int{"CoQA": 13, "QuAC": 32, "HotpotQA": 60, "mtRAG": 60, "GSM8K": 80, "HumanEval": 50}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}

// Whatever the bytes: no panic, and what is taken can be played.
func FuzzRead(f *testing.F) {
	for _, r := range rows {
		f.Add(string(r.format), []byte(r.row))
	}
	f.Add("souk", []byte("\x1f\x8b\x08"))
	f.Add("mtrag", []byte(`{"input":[{"speaker":"user"}]}`))
	f.Add("hotpotqa", []byte(`{"question":"a","context":[[null,null]]}`))
	f.Fuzz(func(t *testing.T, format string, file []byte) {
		ds, err := ReadAll(bytes.NewReader(file), Format(format))
		if err != nil {
			return
		}
		for _, d := range ds {
			if err := d.check(); err != nil {
				t.Errorf("took a dialogue that cannot be played: %v", err)
			}
		}
	})
}
