package openai

import (
	"fmt"
	"strings"
	"testing"

	"souk/bus"
)

// A request that names one long item many times is refused before it takes more room than a body may have.
func TestItemsNamedManyTimes(t *testing.T) {
	item := []byte(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"` +
		strings.Repeat("x", 100<<10) + `"}]}`)
	read := 0
	known := func(string) ([]byte, bool) { read += len(item); return item, true }
	many := strings.Repeat(`{"type":"item_reference","id":"a"},`, bus.MaxBody/35-10)
	_, err := ReadResponses(fmt.Appendf(nil, `{"input":[%s]}`, strings.TrimSuffix(many, ",")), known)
	if err == nil || err.Code != bus.CodeTooLarge {
		t.Errorf("got %.200v, want %s", err, bus.CodeTooLarge)
	}
	if most := 2 * bus.MaxBody; read > most {
		t.Errorf("%d bytes of items were read for one request, want at most %d", read, most)
	}
}

// An agent that says one byte in turn as thought and as text makes no answer that is many times as large.
func TestManySmallItems(t *testing.T) {
	asked, no := ReadResponses([]byte(`{"input":"x"}`), nil)
	if no != nil {
		t.Fatal(no)
	}
	r := NewResponse(Shape{ID: "t", Kind: bus.KindChat}, asked)
	const step = `{"delta":{"reasoning":"x","content":"y"}}`
	c := &bus.Chunk{Text: "y", Extra: []bus.Extra{{Choice: []byte(step)}}}
	out := r.Begin(nil)
	n := 0
	for ; n < MaxResponse; n++ {
		var err error
		if out, err = r.Chunk(out[:0], c); err != nil {
			if bus.CodeOf(err) != bus.CodeTooLarge {
				t.Fatal(err)
			}
			break
		}
	}
	if got := len(r.Finish(nil, &bus.Result{})); got > 8*MaxResponse {
		t.Errorf("%d chunks of two bytes made a last event of %d bytes, want at most %d", n, got, 8*MaxResponse)
	}
}
