package bus

import (
	"os"
	"regexp"
	"testing"
)

// Every code that is declared is known, and no other word is.
func TestEveryCodeIsKnown(t *testing.T) {
	source, err := os.ReadFile("code.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^\tCode\w+ +Code = "(\w+)"`).FindAllSubmatch(source, -1)
	for _, d := range declared {
		if !Code(d[1]).Known() {
			t.Errorf("%s is declared and not known", d[1])
		}
	}
	if len(declared) < 30 || len(declared) != len(codes) || Code("word").Known() || Code("").Known() {
		t.Errorf("%d codes are declared, %d known", len(declared), len(codes))
	}
}
