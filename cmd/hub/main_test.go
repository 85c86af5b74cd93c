package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"souk/bus/bustest"
	"souk/cmd/daemon"
)

// Each is a file or a command line that cannot work, and what it must say.
func TestBadInput(t *testing.T) {
	for _, c := range []struct{ name, text, args, says string }{
		{"no file", "", "", "no configuration: name its file, as hub --config /etc/souk/hub.yaml"},
		{"file is not there", "", "--config nowhere.yaml", "nowhere.yaml"},
		{"unknown field", "hub:\n  domain: math\n  max_wiating: 3\n", "--config FILE",
			`hub.yaml:3: unknown field "hub.max_wiating": write max_waiting`},
		{"field out of place", "hub: {domain: math}\nmax_wait: 3ms\n", "--config FILE",
			`unknown field "max_wait": its place is hub.batch.max_wait`},
		{"no domain", "data: d\nhub: {general: true}\n", "--config FILE", "domain: not set"},
		{"no directory", "hub: {domain: math}\n", "--config FILE", "data: not set"},
		{"absurd limits", "data: d\nhub:\n  domain: math\n  max_waiting: -3\n  terms: {multiple: 5, delta: 7, " +
			"second: 1}\n", "--config FILE", "hub.yaml:4: max_waiting: -3"},
		{"no such pricing", "data: d\nhub:\n  domain: math\n  pricing: auction\n",
			"--config FILE --check-config", `hub.yaml:4: pricing: "auction" is none of vcg, tariff, posted`},
		{"tariff without a ceiling", "data: d\nhub: {domain: math, pricing: tariff}\n",
			"--config FILE --check-config",
			`ceiling: pricing "tariff" needs one above 0, in credits for a task`},
		{"tariffs under vcg", "data: d\nhub:\n  domain: math\n  tariffs: {h200: 0.001}\n",
			"--config FILE --check-config",
			`hub.yaml:4: tariffs: they mean something under pricing "posted" alone, and pricing is "vcg"`},
		{"ceilings under posted", "data: d\nhub: {domain: math, pricing: posted, ceilings: {h200: 0.001}}\n",
			"--config FILE --check-config", `ceilings: they mean something under pricing "tariff" alone`},
		{"a delta of terms", "data: d\nhub:\n  domain: math\n  terms:\n    multiple: 5\n    delta: 7\n",
			"--config FILE --check-config", "hub.yaml:6: terms: delta is 7, want more than 0 and less than 1"},
		{"an unknown term", "data: d\nhub:\n  domain: math\n  terms:\n    secnd: 3\n",
			"--config FILE --check-config", `hub.yaml:5: unknown field "hub.terms.secnd": write second`},
		{"terms of before", "data: d\nhub:\n  domain: math\n  terms: {worth: 100}\n",
			"--config FILE --check-config", `hub.yaml:4: unknown field "hub.terms.worth"`},
		{"prewarming too often", "data: d\nhub:\n  domain: math\n  prewarm: {every: 1ms}\n",
			"--config FILE --check-config", "hub.yaml:4: prewarm: every: 1ms is neither 0 nor from 10ms to 1h"},
		{"a regime that pays", "data: d\nhub: {domain: math, regimes: {saturated: {overlap: 2}}}\n",
			"--config FILE", "regimes: saturated: overlap: 2 is not from 0 to 1"},
		{"bad level", "data: d\nhub: {domain: math}\nlog: {level: loud}\n", "--config FILE",
			`hub.yaml:3: log.level: "loud": write debug, info, warn or error`},
		{"file of an agentd", "agentd: {}\n", "--config FILE", "run `agentd --config"},
		{"stop too short", "data: d\nhub: {domain: math, drain_timeout: 30s}\nstop: {within: 5s}\n",
			"--config FILE", "stop.within: 5s is shorter than the 33s"},
		{"health nowhere", "data: d\nhub: {domain: math}\nhealth: {listen: \"nowhere\"}\n",
			"--config FILE", "health.listen"},
		{"two documents", "hub: {domain: math}\n---\nhub: {domain: law}\n", "--config FILE",
			"one file describes one daemon"},
		{"unknown argument", "", "sell", "unknown command"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "hub.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			args := strings.Fields(strings.ReplaceAll(c.args, "FILE", path))
			if code := daemon.Run(t.Context(), command(), args, &out,
				&errs); code != daemon.ExitUsage {
				t.Errorf("exit code %d, want %d", code, daemon.ExitUsage)
			}
			if !strings.Contains(errs.String(), c.says) {
				t.Errorf("it says %q, which does not name %q", errs.String(), c.says)
			}
		})
	}
}

// What a variable has set is named by the variable, however deep its field lies.
func TestAVariableOfASectionIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hub.yaml")
	text := "data: d\nhub:\n  domain: math\n  terms: {delta: 0.5}\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for variable, says := range map[string]string{
		"SOUK_HUB_TERMS_MULTIPLE=-1":            "terms: multiple is -1, want more than 0 and less than 1000000",
		"SOUK_HUB_TERMS_DELTA=7":                "terms: delta is 7, want more than 0 and less than 1",
		"SOUK_HUB_REGIMES_SATURATED_OVERLAP=-1": "regimes: saturated: overlap: -1 is not from 0 to 1",
	} {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
		var errs bustest.Buffer
		code := daemon.Run(t.Context(), command(), []string{"--config", path, "--check-config"},
			io.Discard, &errs)
		if code != daemon.ExitUsage || !strings.Contains(errs.String(), name+": "+says) {
			t.Errorf("%s: exit code %d: %s", variable, code, &errs)
		}
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
}

// The example of --help is a configuration, and what --check-config prints of it can be read back and means
// the same.
func TestExampleIsAConfiguration(t *testing.T) {
	dir := t.TempDir()
	check := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		if code := daemon.Run(t.Context(), command(),
			[]string{"--config", path, "--check-config"}, &out, &errs); code != daemon.ExitOK {
			t.Fatalf("exit code %d: %s", code, &errs)
		}
		return out.String()
	}
	once := check("a.yaml", example)
	if again := check("b.yaml", once); again != once {
		t.Errorf("read back:\n%s\nwant:\n%s", again, once)
	}
	if !strings.Contains(once, "max_wait: 10ms") || !strings.Contains(once, "hub: math-a") {
		t.Errorf("in effect:\n%s", once)
	}
}
