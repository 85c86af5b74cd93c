package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"souk": main})
}

// The command as people use it: testdata/script/*.txtar.
func TestScripts(t *testing.T) {
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
	} {
		c := root()
		c.SetArgs(strings.Fields(line))
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("souk %s: %v, not %q", line, err, says)
		}
	}
}
