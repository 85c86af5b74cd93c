package traces

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"souk/cmd/replay"
)

// Beginnings of real traces, each known by its first line.
func TestRealTracesAreRead(t *testing.T) {
	for _, c := range []struct {
		file, format         string
		rows, sessions       int
		timed, paused, drawn bool
		turn                 []int // the first of the first session
		left                 []Left
	}{
		{"mooncake.jsonl.gz", "mooncake", 60, 60, true, false, false, []int{0, 6758, 500, 0, 14}, nil},
		{"azure.csv", "azure", 120, 120, true, false, false, []int{0, 4808, 10}, nil},
		{"kv-cache-tester.jsonl", "kv-cache-tester", 5, 5, false, true, false, nil,
			[]Left{{"requests of a sub-agent, whose context is its own", 4, 1}}},
		{"chunk-13-trace.csv", "servegen", 40, 7373, true, false, true, nil, nil},
	} {
		got, err := ReadFile(filepath.Join("testdata", c.file), "")
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if got.Format != c.format || got.Rows != c.rows || got.Sessions() != c.sessions ||
			got.Timed != c.timed || got.Paused != c.paused || got.Drawn != c.drawn {
			t.Errorf("%s: %s, %d rows, %d sessions, timed %v, paused %v, drawn %v; want %+v", c.file, got.Format,
				got.Rows, got.Sessions(), got.Timed, got.Paused, got.Drawn, c)
		}
		if diff := cmp.Diff(c.left, got.Left); diff != "" {
			t.Errorf("%s: left out: want -, got +\n%s", c.file, diff)
		}
		if first := got.Chains[0].Turns[0]; c.turn != nil && !cmp.Equal(c.turn, first) {
			t.Errorf("%s: the first request is %v, want %v", c.file, first, c.turn)
		}
	}
}

// What is drawn for a client has its rate and its lengths, and is the same each time.
func TestDrawnRequestsHaveTheirRate(t *testing.T) {
	got, err := ReadFile(filepath.Join("testdata", "chunk-13-trace.csv"), "")
	if err != nil {
		t.Fatal(err)
	}
	in := map[int]int{} // by window
	before := -1
	for _, c := range got.Chains {
		at := c.Turns[0][0]
		if at < before {
			t.Fatalf("a request at %d ms comes after one at %d", at, before)
		}
		before = at
		in[at/600_000*600]++
	}
	// 3.655, 4.505 and 4.1267 a second, for ten minutes each
	if want := map[int]int{36600: 2193, 37200: 2703, 37800: 2477}; !cmp.Equal(want, in) {
		// the last of a window falls on the beginning of the next
		for at, n := range want {
			if in[at] < n-2 || in[at] > n+2 {
				t.Errorf("%d requests in the window of second %d, want %d", in[at], at, n)
			}
		}
	}
	again, err := ReadFile(filepath.Join("testdata", "chunk-13-trace.csv"), "")
	if err != nil || !cmp.Equal(got, again) {
		t.Errorf("drawn twice, there are two: %v", err)
	}
}

// Every format of souk replay is known by its first line.
func TestDialoguesAreRead(t *testing.T) {
	for format, row := range dialogueRows {
		got, err := read(strings.NewReader("\n"+row+"\n"), "rows.jsonl", "")
		if err != nil || got.Format != format || len(got.Dialogues) != 1 {
			t.Errorf("%s: got %+v, %v", format, got, err)
		}
	}
	for _, name := range replay.FormatNames() {
		if dialogueRows[name] == "" {
			t.Errorf("no row of format %s is read here", name)
		}
	}
}

var dialogueRows = map[string]string{
	"souk":     `{"turns":["a"]}`,
	"coqa":     `{"id":"c","story":"s","turns":[{"question":"q","answer":"a"}]}`,
	"quac":     `{"id":"c","title":"t","section_title":"s","context":"c","turns":[{"question":"q","answer":"a"}]}`,
	"hotpotqa": `{"id":"h","question":"q","answer":"a","context":[["t",["s"]]]}`,
	"mtrag":    `{"conversation_id":"m","input":[{"speaker":"user","text":"q"}],"target":"a"}`,
	"taubench": `{"task_id":1,"trial":0,"traj":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`,
	"prompts":  `{"id":"p","prompt":"q","answer":"a"}`,
}

const moon = `{"timestamp":%,"input_length":600,"output_length":5,"hash_ids":[1,2]}`

func TestBadRows(t *testing.T) {
	at := func(ms string) string { return strings.Replace(moon, "%", ms, 1) }
	for _, c := range []struct{ name, file, want string }{
		{"nothing", "\n\n", "it is empty"},
		{"no format", "hello\n", `line 1: written in no way that is known here: "hello"; --format says which of mooncake, `},
		{"broken row", at("0") + "\n" + `{"timestamp":1,`,
			"line 2: JSON ends too early: one row stands on one line"},
		{"two rows on a line", at("0") + at("1"), "written in no way"},
		{"unknown field", at("0") + "\n" + `{"timestamp":1,"input_length":6,"output_length":5,"hash_ids":[],"speed":3}`,
			`line 2: unknown field "speed": a row has timestamp, input_length, output_length and hash_ids`},
		{"a string for a number", at("0") + "\n" + strings.Replace(at("1"), "600", `"x"`, 1),
			"line 2: json: cannot unmarshal"},
		{"nothing to play", strings.Replace(at("0"), "600", "-3", 1),
			"no request in it that can be played; 1 left out: its prompt has no tokens (the first on line 1)"},
		{"unknown column", "TIMESTAMP,ContextTokens,GeneratedTokens,Speed\n",
			`line 1: unknown column "Speed": a row has TIMESTAMP, `},
		{"a column too few", "TIMESTAMP,ContextTokens\n", "line 1: there is no column GeneratedTokens"},
		{"a cell too few", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,4\n",
			"line 2: 2 columns, and 3 names of columns"},
		{"no time", "TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,4,5\n",
			`line 2: TIMESTAMP: "noon" is no time like 2023-11-16 18:17:03.97996`},
		{"no number", "timestamp,input_tokens,output_tokens\n1,four,5\n", `line 2: input_tokens: "four" is no number`},
		{"a quote", "timestamp,input_tokens,output_tokens\n1,\"4,5\n", "line 2: extraneous or missing"},
		{"blocks of no size", `{"id":"a","block_size":0,"requests":[]}`, "line 1: block_size: 0, want 1 to"},
		{"no such request", `{"id":"a","block_size":64,"requests":[{"in":1,"out":1,"speed":2}]}`,
			`line 1: requests[0]: unknown field "speed": a row has t, in, out, think_time, hash_ids or hash_ranges`},
		{"a broken dialogue", `{"turns":["a"]}` + "\n" + `{"turns":[""]}`, "line 2: turns[0]: the user says nothing"},
	} {
		got, err := read(strings.NewReader(c.file), "rows", "")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %q", c.name, got, err, c.want)
		}
	}
	_, err := read(strings.NewReader(at("0")), "rows", "luck")
	if err == nil || !strings.Contains(err.Error(), "unknown format") {
		t.Errorf("a format that nobody knows: %v", err)
	}
}

// What cannot be played is left out, and said with its line.
func TestRowsAreLeftOut(t *testing.T) {
	row := func(old, new string) string {
		return strings.Replace(strings.Replace(moon, "%", "7", 1), old, new, 1)
	}
	rows := []string{row("", ""), row("7", "5"), row("600", "0"), row("600", "-9"), row("600", "5000000"),
		row(":5", ":-5"), row("[1,2]", "[1,2,3]"), row("[1,2]", "[1,-2]"), row("7", "9"), row("7", "-1"),
		row("7", "1e300")}
	got, err := read(strings.NewReader(strings.Join(rows, "\n")), "rows", "")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1 left out: its time is before that of the row above it (the first on line 2)",
		"2 left out: its prompt has no tokens (the first on line 3)",
		"1 left out: its prompt or answer has more than 4194304 tokens (the first on line 5)",
		"1 left out: its answer has fewer than no tokens (the first on line 6)",
		"1 left out: it has more blocks than its prompt has room for (the first on line 7)",
		"1 left out: the number of a block is negative (the first on line 8)",
		"2 left out: its time is before the beginning of the trace, or more than a year after it (the first on line 10)",
	}
	if diff := cmp.Diff(want, got.Why()); diff != "" || got.Rows != 11 {
		t.Errorf("%d rows; left out: want -, got +\n%s", got.Rows, diff)
	}
	csv, err := read(strings.NewReader("timestamp,input_tokens,output_tokens,request_id\n5,10,1,0\n4,10,1,1\n"+
		"6,NaN,1,2\n7,1e99,1,3\n8,10,-1,4\n9,10,0,5\n"), "rows.csv", "")
	if err != nil || len(csv.Chains) != 2 || len(csv.Left) != 4 || csv.Rows != 6 {
		t.Errorf("got %+v, %v; want two requests, and four left out", csv, err)
	}
}

// A file that was cut off names the line.
func TestCutFileIsAnError(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("testdata", "mooncake.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cut.jsonl.gz")
	if err := os.WriteFile(file, whole[:len(whole)*2/3], 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = ReadFile(file, "")
	for _, want := range []string{file, "line ", "the packed file ends too early, fetch it again"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
}

func TestServeGenNeedsLengths(t *testing.T) {
	dir := t.TempDir()
	rates, lengths := filepath.Join(dir, "chunk-1-trace.csv"), filepath.Join(dir, "chunk-1-dataset.json")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(rates, "0,0.1,1,Gamma,1,10\n600,0.1,1,Gamma,1,10\n")
	_, err := ReadFile(rates, "")
	if err == nil || !strings.Contains(err.Error(), "the lengths of its requests are read from "+lengths) {
		t.Errorf("no lengths: %v", err)
	}
	for _, c := range []struct{ lengths, want string }{
		{`{"0":{"input_tokens":"[1]","output_tokens":"{1: 1}"}}`, `window 0: input_tokens: "[1]" is no dictionary of chances`},
		{`{"0":{"input_tokens":"{1: 2}","output_tokens":"{1: 1}"}}`, `window 0: input_tokens: "1: 2": a number of tokens`},
		{`{"0":{"input_tokens":"{1: 0}","output_tokens":"{1: 1}"}}`, `window 0: input_tokens: no length has a chance`},
		{`{"noon":{}}`, `window "noon" is no number of seconds`},
		{`{"0":`, "unexpected end of JSON"},
	} {
		write(lengths, c.lengths)
		if _, err := ReadFile(rates, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.lengths, err, c.want)
		}
	}
	write(lengths, `{"0":{"input_tokens":"{5: 0.5, 7: 0.5}","output_tokens":"{1: 1.0}"}}`)
	for _, c := range []struct{ rates, want string }{
		{"0,0.1,1,Gamma,1\n", "line 1: 5 columns; a window has its second"},
		{"0,0.1,1,Luck,1,10\n", `line 1: distribution "Luck" is neither Gamma nor Weibull`},
		{"0,0.1,1,Gamma,0,10\n", "line 1: Gamma of shape 0 and scale 10: a shape is from 0.01 to"},
		{"0,x,1,Gamma,1,10\n", `line 1: column 2: "x" is no number`},
		{"0,-1,1,Gamma,1,10\n", "a rate below 0"},
		{"600,0,0,,,\n", "no request in it"},
	} {
		write(rates, c.rates)
		if _, err := ReadFile(rates, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.rates, err, c.want)
		}
	}
}

// Whatever the bytes: no panic, and what is taken can be played.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"azure.csv", "kv-cache-tester.jsonl", "mooncake.jsonl.gz"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		if len(data) > 4000 {
			data = data[:4000]
		}
		f.Add(data)
	}
	for _, row := range dialogueRows {
		f.Add([]byte(row))
	}
	f.Add([]byte("timestamp,input_tokens,output_tokens\n-1,1e400,3\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		got, err := read(bytes.NewReader(file), "rows", "")
		if err != nil {
			return
		}
		if got.Sessions() == 0 {
			t.Error("took a trace without a session")
		}
		last := 0
		for _, c := range got.Chains {
			for i, turn := range c.Turns {
				if why := playable(turn[1], turn[2]); why != "" || turn[0] < 0 || len(turn)%2 == 0 {
					t.Fatalf("took %v: %s", turn, why)
				}
				blocks := 0
				for range c.Blocks(i) {
					blocks++
				}
				if blocks > turn[1]/c.Block+1 {
					t.Fatalf("took %d blocks of %d for %d tokens", blocks, c.Block, turn[1])
				}
			}
			if got.Timed && len(c.Turns) == 1 && got.Format != "mooncake" {
				if c.Turns[0][0] < last {
					t.Fatalf("time goes back to %d", c.Turns[0][0])
				}
				last = c.Turns[0][0]
			}
		}
	})
}

// Whatever rates say: no panic, no request before the one above it, and no more than may be drawn.
func FuzzRates(f *testing.F) {
	f.Add([]byte("24000,0,0,,,\n36600,3.655,1.1,Gamma,0.9,0.3\n37200,66,20,Weibull,0.2,0.0002\n"))
	f.Add([]byte("0,0.1,1,Weibull,0.01,1e5\n"))
	of := lengths{0: {{[]int{5, 7}, []float64{0.5, 1}}, {[]int{1}, []float64{1}}}}
	f.Fuzz(func(t *testing.T, file []byte) {
		lines, err := replay.NewLines(bytes.NewReader(file))
		if err != nil {
			return
		}
		var got Trace
		if err := got.draw(lines, of, 50, 1); err != nil {
			return
		}
		last := 0
		for _, c := range got.Chains {
			if turn := c.Turns[0]; turn[0] < last || turn[1] < 5 || turn[1] > 7 || turn[2] != 1 {
				t.Fatalf("drew %v after %d", turn, last)
			}
			last = c.Turns[0][0]
		}
		if len(got.Chains) > 100 {
			t.Fatalf("drew %d", len(got.Chains))
		}
	})
}

func FuzzLengths(f *testing.F) {
	f.Add([]byte(`{"0":{"input_tokens":"{5: 0.5, 7: 0.5}","output_tokens":"{1: 1.0}"}}`))
	f.Add([]byte("\x1f\x8b\x08"))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte(`{}`))
	z.Close()
	f.Add(packed.Bytes())
	f.Fuzz(func(t *testing.T, file []byte) {
		of, err := readLengths(bytes.NewReader(file))
		if err != nil {
			return
		}
		for _, both := range of {
			for _, s := range both {
				for _, u := range []float64{0, 0.5, 0.999999999, 1} {
					if n := s.at(u); n < 1 || n > MaxTokens {
						t.Fatalf("a length of %d", n)
					}
				}
			}
		}
	})
}

// The requests that come along have their rates, in order, and are the same each time.
func TestRequestsThatComeAlong(t *testing.T) {
	azure, err := Conversations()
	if err != nil || azure.Rows != 5000 || len(azure.Chains) != 5000 || azure.Left != nil {
		t.Fatalf("%d rows, left out %v, %v", azure.Rows, azure.Left, err)
	}
	got, err := Reasoning()
	if err != nil {
		t.Fatal(err)
	}
	// an hour of five clients: as many as their rates say, each window's rounded up
	if n := len(got.Chains); n < 5950 || n > 6050 || got.Left != nil {
		t.Errorf("%d requests, left out %v; want some 6,000", n, got.Left)
	}
	last := 72_000_000
	for _, c := range got.Chains {
		at := c.Turns[0][0]
		if at < last || at > 75_600_000 {
			t.Fatalf("a request at %d ms after one at %d", at, last)
		}
		last = at
	}
	again, err := Reasoning()
	if err != nil || !cmp.Equal(got, again) {
		t.Errorf("drawn twice, there are two: %v", err)
	}
}
