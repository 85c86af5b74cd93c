package openai

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// A picture is not text: what it is estimated to come to does not go by its bytes, and of its data the hash
// stands in the canonical text, so that prompts with another picture begin alike only before it.
func TestAPictureIsNotText(t *testing.T) {
	ask := func(text, kind, data string) int {
		t.Helper()
		p, err := Measure(fmt.Appendf(nil, `{"messages":[{"role":"user","content":[{"type":"text","text":%q},%s]}]}`,
			text, fmt.Sprintf(kind, data)))
		if err != nil {
			t.Fatal(err)
		}
		if p.Bytes > len(text)+300 {
			t.Errorf("%d bytes of canonical text", p.Bytes)
		}
		// else a context might be too short for what nobody counted
		if p.AtLeast > (p.Tokens-MediaTokens)/sureOf {
			t.Errorf("%d tokens are sure of %d with a picture", p.AtLeast, p.Tokens)
		}
		return p.Tokens
	}
	photo := func(size int, fill byte) string {
		return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(fill), size)))
	}
	for _, kind := range []string{`{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,%s"}}`,
		`{"type":"input_audio","input_audio":{"data":"%s","format":"wav"}}`,
		`{ "type" : "video_url" , "video_url" : { "url" : "data:video/mp4;base64,%s" } }`} {
		small := ask("What is this?", kind, photo(2000, 'a'))
		large := ask("What is this?", kind, photo(300_000, 'a'))
		if small != large || large < 1500 || large > 1600 {
			t.Errorf("%s: %d tokens, and with more bytes %d", kind, small, large)
		}
		if more := ask(strings.Repeat("word ", 400), kind, photo(2000, 'a')); more < small+400 {
			t.Errorf("%s: %d tokens with much text beside it, %d without", kind, more, small)
		}
	}
	prompt := func(data string) []byte {
		b := &body{}
		if err := b.read(fmt.Appendf(nil, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":`+
			`{"url":"%s"}},{"type":"text","text":"x"}]}]}`, data)); err != nil {
			t.Fatal(err)
		}
		b.canonical()
		return b.buf
	}
	a, again, b := prompt(photo(2000, 'a')), prompt(photo(2000, 'a')), prompt(photo(2000, 'b'))
	if string(a) != string(again) || string(a) == string(b) {
		t.Errorf("%q\n%q\n%q", a, again, b)
	}
	hash := string(a[strings.LastIndexByte(string(a), escape)+1:][:64])
	if string(prompt(hash)) == string(a) || string(prompt(`\u001d`+hash)) == string(a) {
		t.Error("a client writes the hash of a picture itself")
	}
}
