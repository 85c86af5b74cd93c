package main

import (
	"os"
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
			// await FILE: until it exists, for at most twenty seconds.
			"await": func(ts *testscript.TestScript, _ bool, args []string) {
				for end := time.Now().Add(20 * time.Second); ; <-time.After(10 * time.Millisecond) {
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
