package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/cmd/ledger/cli"
)

// asSouk has this test's own program be the command.
const asSouk = "SOUK_TEST_AS_SOUK"

func TestMain(m *testing.M) {
	if os.Getenv(asSouk) != "" {
		main()
		return
	}
	testscript.Main(m, map[string]func(){"souk": main, "ledger": func() {
		os.Exit(cli.Run(context.Background(), "test", os.Args[1:], os.Stdout, os.Stderr))
	}})
}

// The command as people use it: testdata/script/*.txtar.
func TestSoukScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// nats DIR: sets $NATS to the server of the market of DIR.
			"nats": func(ts *testscript.TestScript, _ bool, args []string) {
				var state struct{ NATS string }
				if err := json.Unmarshal([]byte(ts.ReadFile(args[0]+"/market.json")), &state); err != nil ||
					state.NATS == "" {
					ts.Fatalf("%s: no NATS server: %v", args[0], err)
				}
				ts.Setenv("NATS", state.NATS)
			},
			// served DIR: sets $SERVED to the server of the keys in DIR.
			"served": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv("SERVED", strings.TrimSpace(ts.ReadFile(args[0]+"/auth/served")))
			},
			// await FILE: until it exists, for at most a minute.
			"await": func(ts *testscript.TestScript, _ bool, args []string) {
				for end := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
					if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
						return
					}
					if time.Now().After(end) {
						ts.Fatalf("%s does not appear", args[0])
					}
				}
			},
		},
	})
}

// Who names too much or too little is shown the command's line.
func TestWrongArgumentsAreShownTheLine(t *testing.T) {
	for line, says := range map[string]string{
		"auth revoke gateway gateway-1": "write souk auth revoke NAME",
		"auth add client":               "write souk auth add ROLE NAME",
		"key new":                       "write souk key new CLIENT",
		"key list ann":                  "write souk key list",
		"auth list ann":                 "write souk auth list",
		"console now":                   "write souk console",
		"console token boss":            "write operator or viewer",
		"up now":                        "write souk up",
		"why":                           "write souk why TASK",
		"why one two":                   "write souk why TASK",
		"replay one two":                "arguments: 2 instead of 0 or 1: write souk replay [FILE]",
		// what a script left empty is no key without a limit
		"key new ann --budget=":          "--budget: ",
		"key new ann --models=":          "--models: names none",
		"key new ann --models=,b":        "--models: one has no name",
		"key new ann --max-price=":       "max-price",
		"key new ann --every=":           "--every: ",
		"key new ann --expires 0s":       "--expires: 0s is over already",
		"key new ann --rate 0":           "--rate: 0 ",
		"key new ann --open 0":           "--open: 0 ",
		"key new ann --cache-group=":     "cache group: the name is empty",
		"key new ann --cache-group ann":  "cache group ann: that is the client's own name",
		"key group ann ann":              "cache group ann: that is the client's own name",
		"key group ann team --own":       "--own: takes the client out",
		"key group":                      "write souk key group CLIENT [GROUP]",
		"key new ann --file main.go":     "main.go: there is such a file",
		"key rotate k1 --file main.go":   "main.go: there is such a file",
		"key revoke sk-souk-abc234-5678": "its id is abc234: write souk key revoke ID",
		"key rotate sk-souk-abc234-5678": "its id is abc234: write souk key rotate ID",
	} {
		c := root()
		c.SetArgs(append(strings.Fields(line), "--data", "testdata"))
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("souk %s: %v, not %q", line, err, says)
		}
	}
}

// Creds that are good no more stand in the list as what they are.
func TestWhoseCredsAreGoodIsListed(t *testing.T) {
	now := time.Date(2026, 11, 27, 1, 2, 3, 0, time.UTC)
	for _, test := range []struct {
		user natsauth.User
		want string
	}{
		{natsauth.User{}, "as long as its process"},
		{natsauth.User{Expires: now.Add(time.Second)}, "2026-11-27T01:02:04Z"},
		{natsauth.User{Expires: now}, "expired 2026-11-27T01:02:03Z"},
		{natsauth.User{Expires: now, Revoked: true}, "revoked"},
		{natsauth.User{Expires: now, Earlier: now}, "expired 2026-11-27T01:02:03Z"},
		{natsauth.User{Expires: now, Earlier: now.Add(time.Minute)},
			"expired 2026-11-27T01:02:03Z, earlier creds 2026-11-27T01:03:03Z"},
	} {
		if got := until(test.user, now); got != test.want {
			t.Errorf("%+v: %q, want %q", test.user, got, test.want)
		}
	}
}

// Who names no command that there is is told where they are listed.
func TestAnUnknownCommand(t *testing.T) {
	for _, line := range []string{"nonsense", "upp"} {
		c := exec.Command(os.Args[0], line)
		c.Env = append(os.Environ(), asSouk+"=1")
		out, err := c.CombinedOutput()
		if err == nil || !strings.HasSuffix(string(out), "\nsouk --help lists the commands\n") {
			t.Errorf("souk %s: %v: %q", line, err, out)
		}
	}
}

// A key that stands where something else belongs is shown to nobody.
func TestAKeyAmongArgumentsIsNotShown(t *testing.T) {
	const key = "sk-souk-uipnzfoi4s-Ey4sT0TGr3LAVVNE6uS9HxO6KHff-kT_dm017pwRRBm6Q0V1"
	for _, line := range []string{"fund " + key + " 1", "key revoke " + key, "key rotate " + key,
		"key new ann --rate " + key, "key new " + key, "auth add client " + key, "auth revoke " + key,
		"balance " + key, "auth list " + key} {
		c := exec.Command(os.Args[0], strings.Fields(line)...)
		c.Env = append(os.Environ(), asSouk+"=1")
		c.Dir = t.TempDir()
		out, err := c.CombinedOutput()
		if err == nil || len(out) == 0 || strings.Contains(string(out), "Ey4sT0") {
			t.Errorf("souk %s: %v: %s", line, err, out)
		}
	}
}

// A key that cannot be shown is lost, and whoever made it is told which one to take away.
func TestAKeyThatCannotBeShown(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	secret := bus.NewSecret("k1", [32]byte{})
	c := root()
	c.SetOut(full)
	err = giveAway(c, "", secret)
	if err == nil || !strings.Contains(err.Error(), "revoke k1") || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
}

// The file of a key takes its next secret, and no other's.
func TestTheFileOfAKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := errors.Join(mayWrite(path, ""), mayWrite(path, "k1")); err != nil {
		t.Errorf("there is no such file: %v", err)
	}
	if err := os.WriteFile(path, []byte(bus.NewSecret("k1", [32]byte{})+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := mayWrite(path, "k1"); err != nil {
		t.Errorf("a new secret of its key: %v", err)
	}
	for _, id := range []string{"", "k2"} {
		if err := mayWrite(path, id); err == nil || !strings.Contains(err.Error(), "there is such a file") {
			t.Errorf("key %q: %v", id, err)
		}
	}
}
