package openai

import (
	"fmt"
	"strings"
	"testing"

	"souk/bus"
)

// A tokenizer that takes compatibility forms makes 33 bytes of one ligature, also where the client wrote
// it as six characters of an escape, in a place that is kept as it is written.
func TestEscapedTextIsBoundedAsText(t *testing.T) {
	const n = 500
	ligature := strings.Repeat(`\uFDFA`, n)
	for _, body := range []string{
		`{"messages":[{"role":"user","name":"%s","content":"!"}]}`,
		`{"messages":[{"role":"user","content":"%s"}]}`,
		`{"messages":[{"role":"user","content":"!"}],"tools":[{"type":"function","function":{"name":"%s"}}]}`,
		`{"messages":[{"role":"user","content":"!"},{"role":"assistant","reasoning":"%s"}]}`,
		`{"messages":[{"role":"user","content":"!"}],"response_format":{"type":"json_schema","x":"%s"}}`,
		`{"messages":[{"role":"user","content":"!"},{"role":"assistant","tool_calls":[{"id":"%s"}]}]}`,
		`{"prompt":"%s"}`,
	} {
		p, err := Measure([]byte(fmt.Sprintf(body, ligature)))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if bound, ok := (bus.Template{Wide: 11}).Bound(&p); ok && bound < 33*n {
			t.Errorf("%s: bound %d of %d bytes that are tokenized", body, bound, 33*n)
		}
	}
}
