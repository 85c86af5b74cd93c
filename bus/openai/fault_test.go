package openai

import (
	"net/http"
	"os"
	"regexp"
	"testing"

	"souk/bus"
)

// No code of a task leaves as a fault of the gateway itself, but the one that says so: clients would take it
// for a bug, and not come again.
func TestEveryCodeHasAStatus(t *testing.T) {
	source, err := os.ReadFile("../code.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^\tCode\w+ +Code = "(\w+)"`).FindAllSubmatch(source, -1)
	for _, c := range codes {
		code := bus.Code(c[1])
		if f := FaultOf(code, 0); (f.Status == http.StatusInternalServerError) !=
			(code == bus.CodeInternal) {
			t.Errorf("%s leaves as %d", code, f.Status)
		}
	}
	f := FaultOf(bus.CodeNoSlot, 0)
	if len(codes) < 30 || f.Status != 429 || !f.Again || f.Code != "no_room" {
		t.Errorf("of %d codes no_slot is %+v", len(codes), f)
	}
}
