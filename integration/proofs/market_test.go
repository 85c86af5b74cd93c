package proofs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/ledger/cli"
	"souk/cmd/local"
)

const small = `
listen: 127.0.0.1:0
domains: [{name: general, general: true, labels: [general, humanities, social, law, medicine, math, science, finance, code]}]
agents:
  - {id: only, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.7}], slots: 2, engine: {profile: steady}}
speedup: 20
clients: {dev: 10}
`

// audited is a market with one task that was served, and its data directory.
type audited struct {
	*local.Market
	dir, policy, proof string
	receipt            string
}

func newAudited(t *testing.T) *audited {
	if testing.Short() {
		t.Skip("waits for witnesses")
	}
	cfg, err := local.ParseConfig("test.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	m := &audited{dir: t.TempDir()}
	m.policy, m.proof = filepath.Join(m.dir, "auth", "policy"), filepath.Join(m.dir, "mine.tlog-proof")
	if m.Market, err = local.Start(t.Context(), local.Options{Dir: m.dir, Config: cfg}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		check := local.CheckLedger(context.Background(), m.dir, t.Output())
		if err := errors.Join(m.Err(), m.Close(), check); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *audited) ask(t *testing.T) {
	a, err := m.Ask(t.Context(), bus.Task{Client: "dev", ID: "mine", Kind: bus.KindChat,
		Body: json.RawMessage(`{"messages":[{"role":"user","content":"Hello"}],"max_tokens":8}`)})
	if err != nil || a.Result.Receipt == nil {
		t.Fatalf("%+v %v", a, err)
	}
	m.receipt = a.Result.Receipt.ID
}

// proven waits until what came of the task is proven by a policy.
func (m *audited) proven(t *testing.T, policy string) (said string) {
	bustest.Eventually(t, "a proof that enough have cosigned", func() bool {
		os.Remove(m.proof)
		code, _ := run(t, "prove", m.receipt, "-o", m.proof, "--data", m.dir)
		if code == 0 {
			code, said = run(t, "verify", m.proof, "--policy", policy)
		}
		return code == 0
	})
	return said
}

func run(t *testing.T, args ...string) (code int, said string) {
	var out bytes.Buffer
	code = cli.Run(t.Context(), "test", args, &out, &out)
	return code, out.String()
}

// lines returns those of a file that begin with a word.
func lines(t *testing.T, path, word string) (all string) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, word) {
			all += line
		}
	}
	return all
}

// README's audit, line by line: on a copied directory, with one proof, and by a program that is none of ours.
func TestTheAuditOfTheReadme(t *testing.T) {
	program, _ := python(t)
	m := newAudited(t)
	m.ask(t)
	m.proven(t, m.policy)
	os.Remove(m.proof)
	t.Setenv("SOUK_DATA", m.dir)
	round := strings.Split(m.receipt, "/")[1]
	names := strings.NewReplacer("general/52/0", m.receipt, " 52 ", " "+round+" ", "mine.tlog-proof", m.proof,
		"souk-data", m.dir, " copy", " "+filepath.Join(m.dir, "copy"),
		"deploy/verify.py", "../../deploy/verify.py")
	played := 0
	for line := range strings.Lines(lines(t, "../../README.md", "    ")) {
		command, _, _ := strings.Cut(line, " #")
		args := strings.Fields(names.Replace(strings.TrimRight(command, "\n ")))
		switch {
		case args[0] == "bin/ledger":
			if err := os.CopyFS(filepath.Join(m.dir, "copy", "journal"),
				os.DirFS(filepath.Join(m.dir, "journal"))); err != nil && !errors.Is(err, os.ErrExist) {
				t.Fatal(err)
			}
			if code, said := run(t, args[1:]...); code != 0 {
				t.Errorf("%v: exit %d, %s", args, code, said)
			}
			played++
		case args[0] == "python3":
			out, err := exec.Command(program, args[1:]...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), ": right: record ") ||
				!strings.Contains(string(out), "capture "+m.receipt+"/capture") {
				t.Errorf("%v: %v %s", args, err, out)
			}
			played++
		}
	}
	if played != 5 {
		t.Errorf("%d lines were played, want 5", played)
	}
}

// publicWitness runs litewitness, which is to know these journals, and returns its line of a policy.
func publicWitness(t *testing.T, program, logs string) string {
	args := []string{"litewitness.py", program}
	for line := range strings.Lines(logs) {
		args = append(args, strings.Fields(line)[1])
	}
	with, _ := python(t)
	cmd := exec.Command(with, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs := &bustest.Buffer{}
	cmd.Stderr = errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	if !said.Scan() || !said.Scan() {
		in.Close()
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 77 {
			t.Fatalf("%v: %s", err, errs.String())
		}
		t.Skip("no ssh-agent is here")
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, errs.String())
		}
	})
	return said.Text() + "\n"
}

// A witness that anybody runs cosigns a market's journals beside those of the market, once the policy names
// it, and a proof shows both.
func TestAPublicWitness(t *testing.T) {
	program, err := exec.LookPath(cmp.Or(os.Getenv("SOUK_LITEWITNESS"), "litewitness"))
	if err != nil {
		t.Skip("no litewitness is here: go install filippo.io/torchwood/cmd/litewitness@v0.6.1")
	}
	m := newAudited(t)
	lite := publicWitness(t, program, lines(t, m.policy, "log "))
	f, err := os.OpenFile(m.policy, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(lite)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	m.ask(t)
	both := filepath.Join(m.dir, "both")
	text := lines(t, m.policy, "log ") + lines(t, m.policy, "witness ") +
		"group ours any treasury general\ngroup both all ours lite\nquorum both\n"
	if err := os.WriteFile(both, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	said := m.proven(t, both)
	if !strings.Contains(said, "treasury at ") || !strings.Contains(said, "lite at ") {
		t.Error(said)
	}
	data, err := os.ReadFile(m.proof)
	if err != nil {
		t.Fatal(err)
	}
	with, _ := python(t)
	if got := theirs(t, with, text, [][]byte{data}); !strings.HasPrefix(got[0], "right: ") {
		t.Error(got)
	}
}
