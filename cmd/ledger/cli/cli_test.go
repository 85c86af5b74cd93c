package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"souk/ledger"
	"souk/ledger/inspect"
	"souk/ledger/journal"
	"souk/market"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"ledger": func() { os.Exit(Run(context.Background(), "v1 (go)", os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// alone has a script's command write a journal while no other script begins a process: that would have the
// journal's lock until it runs.
func alone(f func(*testscript.TestScript, bool, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		f(ts, neg, args)
	}
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// exits CODE ARGS...: runs ledger and expects the exit code.
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				err := ts.Exec("ledger", args[1:]...)
				code := 0
				var exit *exec.ExitError
				if errors.As(err, &exit) {
					code = exit.ExitCode()
				}
				if strconv.Itoa(code) != args[0] {
					ts.Fatalf("ledger %v: exit %d, want %s", args[1:], code, args[0])
				}
			},
			// market DIR ROUNDS [FRAUD]: writes the journals of a hub and the treasury.
			"market": alone(func(ts *testscript.TestScript, _ bool, args []string) {
				rounds, err := strconv.Atoi(args[1])
				ts.Check(err)
				fraud := ""
				if len(args) > 2 {
					fraud = args[2]
				}
				ts.Check(writeMarket(ts.MkAbs(args[0]), rounds, fraud))
			}),
			"sign": alone(sign), "more": alone(more), "rewrite": alone(rewrite),
			// flip FILE PART/PARTS: flips a bit there in the used part of a segment.
			"flip": func(ts *testscript.TestScript, _ bool, args []string) {
				path := ts.MkAbs(args[0])
				b, err := os.ReadFile(path)
				ts.Check(err)
				part, of, _ := strings.Cut(args[1], "/")
				i, _ := strconv.Atoi(part)
				n, _ := strconv.Atoi(of)
				b[len(bytes.TrimRight(b, "\x00"))*i/n] ^= 0x10
				ts.Check(os.WriteFile(path, b, 0o600))
			},
			// poke FILE OFFSET: changes that byte.
			"poke": func(ts *testscript.TestScript, _ bool, args []string) {
				path := ts.MkAbs(args[0])
				b, err := os.ReadFile(path)
				ts.Check(err)
				i, err := strconv.Atoi(args[1])
				ts.Check(err)
				b[i] ^= 0x55
				ts.Check(os.WriteFile(path, b, 0o600))
			},
			// cut FILE BYTES: leaves so many.
			"cut": func(ts *testscript.TestScript, _ bool, args []string) {
				n, err := strconv.ParseInt(args[1], 10, 64)
				ts.Check(err)
				ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
			},
			// tear FILE BYTES: cuts the last bytes off what was written.
			"tear": func(ts *testscript.TestScript, _ bool, args []string) {
				path := ts.MkAbs(args[0])
				b, err := os.ReadFile(path)
				ts.Check(err)
				n, err := strconv.Atoi(args[1])
				ts.Check(err)
				used := len(bytes.TrimRight(b, "\x00"))
				clear(b[used-n : used])
				ts.Check(os.WriteFile(path, b, 0o600))
			},
		},
	})
}

// writer is one journal being written.
type writer struct {
	name  string
	book  *ledger.Book
	j     *journal.Journal
	salts byte
	// frames that are appended together, once they are many; nil: each by itself
	batch []ledger.Frame
}

// opened is a journal that nobody else writes. Where it was closed a moment ago, a process that a script
// beside this one was starting just then has its lock until that runs.
func opened(dir string) (j *journal.Journal, err error) {
	for end := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
		j, err = journal.Open(dir, journal.Config{MinFree: -1})
		if !errors.Is(err, journal.ErrLocked) || time.Now().After(end) {
			return j, err
		}
	}
}

func newWriter(data, name, role string) (*writer, error) {
	j, err := opened(filepath.Join(data, "journal", name))
	if err != nil {
		return nil, err
	}
	w := &writer{name: name, book: ledger.NewBook(), j: j}
	domain := ""
	if role == ledger.RoleHub {
		domain = "maths"
	}
	return w, w.write(ledger.NewOpen(name, role, domain, w.salt()))
}

func (w *writer) salt() (s [16]byte) { w.salts++; s[3] = w.salts; return s }

// write books records and stores them as one frame. Frauds are stored as they are.
func (w *writer) write(records ...ledger.Record) error {
	seq, _, at := w.book.Last()
	f := ledger.Frame{Version: ledger.FrameVersion, Epoch: 4, Seq: seq + 1,
		Time: max(at, 1_790_000_000e9) + 1e6, Records: records}
	if err := w.book.ApplyFrame(f); err != nil {
		return err
	}
	if w.batch == nil {
		return w.j.Append(f)
	}
	if w.batch = append(w.batch, f); len(w.batch) < 1024 {
		return nil
	}
	defer func() { w.batch = w.batch[:0] }()
	return w.j.Append(w.batch...)
}

var card = market.Price{Miss: 2_000_000, Hit: 500_000, Out: 8_000_000}

// writeMarket plays rounds of three tasks for two slots; the last hold stays open.
func writeMarket(data string, rounds int, fraud string) error {
	h, err := newWriter(data, "hub-maths", ledger.RoleHub)
	if err != nil {
		return err
	}
	defer h.j.Close()
	tr, err := newWriter(data, "treasury", ledger.RoleTreasury)
	if err != nil {
		return err
	}
	defer tr.j.Close()
	for i, client := range []string{"ann", "bob", "cyd"} {
		n := uint64(i + 1)
		granted := market.Credits(4e9)
		if fraud == "allotment" && client == "cyd" {
			granted--
		}
		err = errorOf(tr.write(ledger.NewDeposit("cash-"+client, client, 10e9, nil, tr.salt())),
			tr.write(ledger.NewGrant(h.name, n, client, granted, "", tr.salt())),
			h.write(ledger.NewAccept(h.name, n, client, 4e9, h.salt())))
		if err != nil {
			return err
		}
	}
	for n := range rounds {
		if err := h.round(n, n == rounds-1, fraud); err != nil {
			return err
		}
	}
	return nil
}

func errorOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) round(n int, last bool, fraud string) error {
	number, prev := w.book.LastRound()
	r := market.Round{Domain: "maths", Number: number + 1, Prev: prev, Rule: market.DefaultRule, Fee: 1000,
		Agents: []market.Supply{{Agent: "a1", Seats: []market.Seat{{Slots: 1}}},
			{Agent: "a2", Seats: []market.Seat{{Slots: 1}}}}}
	for j, client := range []string{"ann", "bob", "cyd"} {
		r.Tasks = append(r.Tasks,
			market.Task{ID: market.TaskID(fmt.Sprintf("%s/t%d", client, n)), Client: client})
		for a := range 2 {
			r.Edges = append(r.Edges,
				market.Edge{Task: j, Agent: a, Value: market.Credits(4_000_000 + 700_000*j + 100_000*a),
					Cost: 600_000})
		}
	}
	o, err := market.Clear(r)
	if err != nil {
		return err
	}
	if fraud == "premium" && last {
		o.Awards[0].Premium++
	}
	records := []ledger.Record{ledger.NewRound(w.name, r, o, w.salt())}
	// slots stay free, so that nobody wants more of them, and they cost nothing
	records[0].Round.Ground = market.Ground{Loads: []market.Load{{Spare: true}, {Spare: true}},
		Stays: make([]market.Stay, len(r.Edges))}
	var holds []ledger.Hold
	for slot, a := range o.Awards {
		client, task, _ := strings.Cut(string(a.Task), "/")
		h := ledger.Hold{Client: client, Task: task, Agent: string(a.Agent), Model: "m/7b", Round: r.Number,
			Slot: slot, Kind: "task",
			Amount: a.Premium + market.WorstCase(card, 400, 200), Premium: a.Premium, Fee: r.Fee,
			Quoted: a.Cost, Settle: r.Rule.Settle,
			Price: card, Prompt: 299_800, Output: 50, MaxTokens: 200, Expires: 1_790_000_100e9}
		holds = append(holds, h)
		records = append(records, w.book.NewHold(ledger.HoldID(w.name, h.Round, slot), &h, w.salt()))
	}
	if err := w.write(records...); err != nil {
		return err
	}
	for i, h := range holds {
		if last && i == 1 {
			break
		}
		use := market.Usage{Prompt: 400, Cached: 100, Output: 50}
		cost := market.Settle(h.Settle, h.Price, 0, h.Quoted, use, h.Amount-h.Premium)
		if fraud == "metering" && last {
			cost += 7
		}
		if err := w.write(ledger.NewCapture(w.name, h,
			ledger.Capture{Outcome: "done", Finish: "stop", Cost: cost, Usage: use, TTFTUS: 31_000},
			w.salt())); err != nil {
			return err
		}
	}
	return nil
}

func TestCheckInProcess(t *testing.T) {
	data := t.TempDir()
	if err := writeMarket(data, 20, ""); err != nil {
		t.Fatal(err)
	}
	sum, err := inspect.Check(context.Background(), []string{data}, inspect.Options{Level: ledger.MaxLevel})
	if err != nil || codeOf(&sum) != ExitClean || !sum.Across || len(sum.Reports) != 2 ||
		sum.Reports[0].Rounds != 20 {
		t.Errorf("%v, %s", err, sum.Line())
	}
	for args, want := range map[string]string{"round 3 --explain": "would have won it",
		"round 21": "no round 21: its last is 20"} {
		var said bytes.Buffer
		Run(context.Background(), "", append(strings.Fields(args), "--data", data), &said, &said)
		if !strings.Contains(said.String(), want) {
			t.Errorf("%s: %s", args, &said)
		}
	}
}

// Journals are written while they are checked again and again: never a finding.
func TestCheckBesideAWriter(t *testing.T) {
	data := t.TempDir()
	if err := writeMarket(data, 1, ""); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		tr, err := newWriter(filepath.Join(data, "other"), "treasury", ledger.RoleTreasury)
		if err == nil {
			err = tr.write(ledger.NewDeposit("d", "ann", 1e9, nil, tr.salt()))
		}
		h, err2 := newWriter(filepath.Join(data, "other"), "hub-law", ledger.RoleHub)
		err = errorOf(err, err2)
		for n := uint64(1); n <= 300 && err == nil; n++ {
			err = errorOf(tr.write(ledger.NewGrant(h.name, n, "ann", 1000, "", tr.salt())),
				h.write(ledger.NewAccept(h.name, n, "ann", 1000, h.salt())),
				h.write(ledger.NewReturn(h.name, n, "ann", 500, h.salt())),
				tr.write(ledger.NewReclaim(h.name, n, "ann", 500, tr.salt())))
		}
		if err == nil {
			err = errorOf(tr.j.Close(), h.j.Close())
		}
		done <- err
	}()
	checks := 0
	for {
		sum, err := inspect.Check(context.Background(), []string{filepath.Join(data, "other")},
			inspect.Options{Level: ledger.MaxLevel})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, f := range sum.Findings {
			t.Fatalf("check %d: %s", checks, f)
		}
		checks++
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d checks", checks)
			return
		default:
		}
	}
}

// lines is an output that tells of every line written to it.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		l <- line
	}
	return len(p), nil
}

func TestTailFollows(t *testing.T) {
	data := t.TempDir()
	tr, err := newWriter(data, "treasury", ledger.RoleTreasury)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.j.Close()
	ctx, cancel := context.WithCancel(context.Background())
	out := make(lines, 100)
	code := make(chan int, 1)
	go func() { code <- Run(ctx, "", []string{"tail", "-f", "--data", data, "-O", "ndjson"}, out, out) }()
	for i, want := range []string{`"kind":"open"`, `"id":"deposit/d1"`, `"id":"deposit/d2"`} {
		if i > 0 {
			if err := tr.write(ledger.NewDeposit(fmt.Sprint("d", i), "ann", 1e9, nil,
				tr.salt())); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case line := <-out:
			if !strings.Contains(line, want) {
				t.Errorf("line %d: %s, want %s", i, line, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("line %d never came", i)
		}
	}
	cancel()
	if c := <-code; c != ExitClean {
		t.Errorf("exit %d after Ctrl-C", c)
	}
}

// A frame that says nothing is a violation wherever it stands, and no reason to fall over.
func TestAFirstFrameWithoutRecords(t *testing.T) {
	data := t.TempDir()
	j, err := opened(filepath.Join(data, "journal", "hub-maths"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errorOf(j.Append(ledger.Frame{Version: ledger.FrameVersion, Epoch: 4, Seq: 1, Time: 1}),
		j.Close()); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]int{"check": ExitViolations, "bal": ExitViolations, "print": ExitClean,
		"stats": ExitClean, "tail": ExitClean, "round 1": ExitUsage} {
		var out, errs bytes.Buffer
		if code := Run(context.Background(), "", append(strings.Fields(args), "--data", data), &out,
			&errs); code != want {
			t.Errorf("%s: exit %d, want %d: %s%s", args, code, want, &out, &errs)
		}
	}
}

// What is printed as CSV is read by others: commas and quotes stay in their cells.
func TestCSV(t *testing.T) {
	data := t.TempDir()
	if err := writeMarket(data, 3, "premium"); err != nil {
		t.Fatal(err)
	}
	for args, columns := range map[string]int{"check": 8, "bal": 4, "print": 7, "reg surplus": 7,
		"round 2": 10, "stats": 17, "tail": 7} {
		var out, errs bytes.Buffer
		Run(context.Background(), "", append(strings.Fields(args), "--data", data, "-O", "csv"), &out, &errs)
		rows, err := csv.NewReader(&out).ReadAll()
		if err != nil || len(rows) < 2 || len(rows[0]) != columns {
			t.Errorf("%s: %d rows: %v %s", args, len(rows), err, &errs)
		}
	}
}

func TestJSONIsOneDocument(t *testing.T) {
	data := t.TempDir()
	if err := writeMarket(data, 3, ""); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check"}, {"bal"}, {"stats"}, {"round", "2"}, {"print"},
		{"print", "--kind", "payout"}, {"trace", "cyd/t1"}} {
		var out, errs bytes.Buffer
		if code := Run(context.Background(), "", append(args, "--data", data, "-O", "json"), &out,
			&errs); code != ExitClean {
			t.Errorf("%v: exit %d: %s", args, code, &errs)
		}
		if !json.Valid(out.Bytes()) {
			t.Errorf("%v: not JSON: %.300s", args, &out)
		}
	}
}

// full is a disk with room for so many bytes.
type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(b), nil
}

// Half a table is no table: whoever writes balances to a full disk is told, by message and exit code.
func TestOutputThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := writeMarket(dir, 4, ""); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"bal"}, {"bal", "-O", "csv"}, {"stats"}, {"tail"}, {"print"},
		{"trace", "cyd/t3"}, {"round", "2", "--explain", "--journal", "hub-maths"}} {
		var errs bytes.Buffer
		code := Run(t.Context(), "v1", append(args, "--data", dir), &full{10}, &errs)
		if code != ExitUsage || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("%v: exit code %d: %s", args, code, &errs)
		}
	}
}
