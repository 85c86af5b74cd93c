package openai

import (
	"strings"
	"testing"

	"souk/bus"
)

// However a part of a message is spelled, its bytes bound what an engine makes of it: of members that stand
// twice it takes the last, be that none.
func TestPartsAreBoundedHoweverTheyAreSpelled(t *testing.T) {
	picture := `"image_url":{"url":"http://x/y"}`
	for _, c := range []struct {
		part string
		want int
	}{
		{`{"type":"text","text":"x"}`, bus.LooseNone},
		{`{"type":"image_url","type":"text","text":"x"}`, bus.LooseNone},
		{`{"type":"text","text":"x","type":null,` + picture + `}`, bus.LooseMedia},
		{`{"type":"text","text":"x","t\u0079pe":null,` + picture + `}`, bus.LooseMedia},
		{`{"type":"text","text":"x","type":"image_url",` + picture + `}`, bus.LooseMedia},
		{`{"type":"text","text":"x","type":{},` + picture + `}`, bus.LooseMedia},
	} {
		p := mustDecode(t, `{"messages":[{"role":"user","content":[`+c.part+`]}]}`, nil).Prompt
		if p.Loose != c.want {
			t.Errorf("%s: loose %d, want %d", c.part, p.Loose, c.want)
		}
	}

	// one character of three bytes, of which a normal form makes 33
	const many = 100
	template := bus.Template{Fixed: 1, Each: 1, Wide: 11}
	long := strings.Repeat(`\ufdfa`, many)
	for _, content := range []string{
		`"` + long + `"`,
		`["` + long + `"]`,
		`[{"type":"text","text":"` + long + `"}]`,
		`[{"type":"t\u0065xt","text":"` + long + `"}]`,
		`[{"type":"input_text","text":"` + long + `"}]`,
		`[{"type":"output_text","text":"` + strings.Repeat("\ufdfa", many) + `"}]`,
	} {
		p := mustDecode(t, `{"messages":[{"role":"user","content":`+content+`}]}`, nil).Prompt
		if bound, ok := template.Bound(&p); bound < 33*many || !ok {
			t.Errorf("%.40s: at most %d tokens (%v), and it has %d", content, bound, ok, 33*many)
		}
	}
}

// A text is the same however its part is spelled.
func TestAPartIsTheSameInAnySpelling(t *testing.T) {
	plain := mustDecode(t, `{"messages":[{"role":"user","content":[{"type":"text","text":"abc"}]}]}`,
		nil).Prompt
	for _, part := range []string{
		`{"type":"t\u0065xt","text":"abc"}`, `{"text":"abc","type":"text"}`,
		`{"te\u0078t":"x","text":"\u0061bc","type":"text"}`,
	} {
		p := mustDecode(t, `{"messages":[{"role":"user","content":[`+part+`]}]}`, nil).Prompt
		if p.Prefixes[0] != plain.Prefixes[0] {
			t.Errorf("%s: %+v, want %+v", part, p.Prefixes, plain.Prefixes)
		}
	}
}

// What engines read as a picture, or as a grammar, is not continued elsewhere as text, however it is spelled.
func TestWhatIsNoTextDoesNotContinue(t *testing.T) {
	picture := `"image_url":{"url":"http://x/y"}`
	chat := func(message string) string { return `{"messages":[` + message + `]}` }
	for _, body := range []string{
		chat(`{"role":"user","content":[{"type":"text","type":null,` + picture + `}]}`),
		chat(`{"role":"user","content":[{"type":"image_url","Type":"text",` + picture + `}]}`),
		chat(`{"role":"user","content":[{` + picture + `}],"Content":"hi"}`),
		`{"messages":[],"response_format":{"type":"json_object","Type":"text"}}`,
	} {
		if _, err := CanContinue(&bus.Resume{}, []byte(body)); err == nil {
			t.Errorf("%s can", body)
		}
	}
	if _, err := CanContinue(&bus.Resume{}, []byte(`{"response_format":{"type":"text"},`+
		chat(`{"role":"user","content":[{"type":"text","text":"x"}]}`)[1:])); err != nil {
		t.Error(err)
	}
}

// A body that is refused costs no more for being wrong many times.
func TestARefusalIsMadeOnce(t *testing.T) {
	many := func(s string) string { return strings.TrimSuffix(strings.Repeat(s+",", 20_000), ",") }
	for _, body := range []string{
		`{"messages":[` + many(`{}`) + `]}`,
		`{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{` + many(`"a":{}`) + `}}`,
		`{"messages":[{"role":"user","content":"x"}],"stream_options":{` +
			many(`"continuous_usage_stats":true`) + `}}`,
	} {
		data := []byte(body)
		if n := testing.AllocsPerRun(1, func() {
			if _, _, no := DecodeRequest(data, nil, "ann", nil); no == nil {
				t.Errorf("%.80s is taken", body)
			}
		}); n > 200 {
			t.Errorf("%.80s: %.0f allocations", body, n)
		}
	}
}
