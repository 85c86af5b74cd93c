package ledger

import (
	"errors"
	"strings"
	"testing"
)

// Nothing that a client says of its task breaks a record, and a task of which nothing is said takes no more
// than three bytes for that.
func TestWhatATaskIsCalled(t *testing.T) {
	h := Hold{Client: "c", Task: "t", Agent: "a", Settle: "metered"}
	bare := len(appendHold(nil, &h))
	h.Request, h.Key, h.Tags = "req-1", "k1", "team=red&user=a%0Ab"
	record := Record{Kind: KindHold, ID: "j/1/0", Hold: &h}
	var back Record
	d := decode(appendSized(nil, func(b []byte) []byte { return AppendRecord(b, &record) }))
	if d.record(&back, nil); d.end() != nil || *back.Hold != h {
		t.Errorf("%+v, read again %+v: %v", h, back.Hold, d.end())
	}
	if err := h.valid("j/1/0"); err != nil {
		t.Error(err)
	}
	if all := len(appendHold(nil, &h)); all-bare != len(h.Request)+len(h.Key)+len(h.Tags) {
		t.Errorf("%d bytes, without what it is called %d", all, bare)
	}
	for name, change := range map[string]func(h *Hold){
		"a line's end":    func(h *Hold) { h.Tags = "user=a\nb" },
		"a quote":         func(h *Hold) { h.Request = `a"b` },
		"long tags":       func(h *Hold) { h.Tags = strings.Repeat("x", maxTags+1) },
		"a long request":  func(h *Hold) { h.Request = strings.Repeat("x", maxRequest+1) },
		"another account": func(h *Hold) { h.Key = "client:other:held" },
		"a table's bar":   func(h *Hold) { h.Tags = "user=|" },
		"beyond ASCII":    func(h *Hold) { h.Tags = "user=é" },
	} {
		bad := h
		if change(&bad); !errors.Is(bad.valid("j/1/0"), ErrIllegal) {
			t.Errorf("%s: %v", name, bad.valid("j/1/0"))
		}
	}
}
