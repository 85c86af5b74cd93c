package conformance

import (
	"bytes"
	"embed"
	"encoding/json"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:embed testdata/vllm-0.32.0
var golden embed.FS

const goldenDir = "testdata/vllm-0.32.0"

func recorded(t *testing.T, name string) []byte {
	t.Helper()
	b, err := golden.ReadFile(path.Join(goldenDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// exchange is a recorded request and its answer.
type exchange struct {
	Request struct {
		Method  string
		Path    string
		Headers map[string]string
		Body    json.RawMessage
	}
	Response struct {
		Status  string
		Headers [][2]string
		Body    string
		Chunks  [][2]any
	}
}

func (e *exchange) body() []byte {
	if e.Response.Chunks == nil {
		return []byte(e.Response.Body)
	}
	var b bytes.Buffer
	for _, c := range e.Response.Chunks {
		b.WriteString(text(c[1]))
	}
	return b.Bytes()
}

func (e *exchange) header(name string) string {
	for _, h := range e.Response.Headers {
		if h[0] == name {
			return h[1]
		}
	}
	return ""
}

// recordings sends every recorded request again: the answer must have the recorded status, content type, and
// shape (the same keys in the same order with values of the same kinds; errors word for word on the recorded
// version).
func (s *suite) recordings(t *testing.T) {
	files, err := fs.Glob(golden, goldenDir+"/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("recordings: %v", err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(path.Base(f), ".json")
		t.Run(name, func(t *testing.T) {
			var e exchange
			if err := json.Unmarshal(recorded(t, path.Base(f)), &e); err != nil {
				t.Fatal(err)
			}
			s.again(t, name, &e)
		})
	}
}

func (s *suite) again(t *testing.T, name string, e *exchange) {
	q := s.request(t.Context(), t, e.Request.Method, e.Request.Path, nil)
	body := e.Request.Body
	if len(body) > 0 && body[0] == '"' { // sent as it stands: no JSON, or not said to be
		var raw string
		if err := json.Unmarshal(body, &raw); err != nil {
			t.Fatal(err)
		}
		body = []byte(raw)
	} else {
		body = bytes.Replace(body, []byte(`"tiny"`), []byte(strconv.Quote(s.model)), 1)
	}
	if len(body) > 0 && string(body) != "null" {
		q = s.request(t.Context(), t, e.Request.Method, e.Request.Path, json.RawMessage(nil))
		q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	q.Header.Del("Content-Type")
	for k, v := range e.Request.Headers {
		if k != "Connection" && k != "Content-Length" && k != "Authorization" {
			q.Header.Set(k, v)
		}
	}
	r, got := s.do(t, q)
	if d, ok := refusedByStandIn(name); ok && s.StandIn {
		if r.StatusCode != 400 || !bytes.Contains(got, []byte("stand-in")) {
			t.Errorf("%d %s, but the table of differences says: %s", r.StatusCode, got, d.StandIn)
		}
		return
	}
	if r.StatusCode == 400 && bytes.Contains(got, []byte("--tool-call-parser to be set")) {
		t.Skip("the server runs without the flags for tools")
	}
	if !strings.HasPrefix(e.Response.Status, "HTTP/1.1 "+strconv.Itoa(r.StatusCode)) {
		t.Fatalf("%d %s, recorded %s", r.StatusCode, got, e.Response.Status)
	}
	if g, w := r.Header.Get("Content-Type"), e.header("content-type"); g != w {
		t.Errorf("Content-Type %q, recorded %q", g, w)
	}
	if e.Response.Chunks != nil {
		s.sameStream(t, got, e.body())
		return
	}
	if r.StatusCode != 200 && s.version == "0.32.0" {
		want := strings.ReplaceAll(e.Response.Body, "8192", strconv.Itoa(s.maxLen))
		want = strings.ReplaceAll(want, "tiny", s.model)
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		return
	}
	if g, w := shape(t, got), s.expected(shape(t, e.body())); g != w {
		t.Errorf("shape\n%s\nrecorded\n%s", g, w)
	}
}

var (
	wholeDetails  = regexp.MustCompile(`prompt_tokens_details:\{[^}]*multimodal_tokens:null \}`)
	streamDetails = regexp.MustCompile(`prompt_tokens_details:\{[^}]*\} `)
)

// expected is a recorded shape as a server with these options has it.
func (s *suite) expected(shape string) string {
	if s.NoDetails {
		shape = wholeDetails.ReplaceAllString(shape, "prompt_tokens_details:null")
		shape = streamDetails.ReplaceAllString(shape, "")
	}
	return shape
}

// sameStream compares the shapes of events in order, runs of the same shape counting once, and each choice by
// itself: which of several choices is ahead is chance.
func (s *suite) sameStream(t *testing.T, got, want []byte) {
	stops := bytes.Contains(want, []byte(`"finish_reason":"stop"`))
	shapes := func(b []byte) string {
		lines, done := split(b)
		if !done {
			t.Errorf("no [DONE] at the end of %q", tail(b))
		}
		var byChoice [8][]string
		for _, l := range lines {
			var e object
			if err := json.Unmarshal(l, &e); err != nil {
				t.Fatalf("event %q: %v", l, err)
			}
			i := len(byChoice) - 1
			if choice := dig(e, "choices", 0); choice != nil {
				i = number(dig(choice, "index"))
			}
			if stops && dig(e, "choices", 0, "finish_reason") == nil &&
				dig(e, "choices", 0, "delta", "role") == nil && dig(e, "choices", 0) != nil {
				continue // how much comes before a stop string is the model's affair
			}
			if sh := shape(t, l); len(byChoice[i]) == 0 || byChoice[i][len(byChoice[i])-1] != sh {
				byChoice[i] = append(byChoice[i], sh)
			}
		}
		return strings.Join(slices.Concat(byChoice[:]...), "\n")
	}
	if g, w := shapes(got), s.expected(shapes(want)); g != w {
		t.Errorf("stream\n%s\nrecorded\n%s", g, w)
	}
}

// literal are the keys whose values belong to the shape.
var literal = map[string]bool{"object": true, "role": true, "finish_reason": true, "type": true,
	"owned_by": true, "is_blocking": true}

// shape writes a JSON text with its keys in order and its values replaced by their kind.
func shape(t *testing.T, b []byte) string {
	t.Helper()
	if len(bytes.TrimSpace(b)) == 0 {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(b))
	var out strings.Builder
	if err := shapeOf(d, &out, ""); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return out.String()
}

func shapeOf(d *json.Decoder, out *strings.Builder, key string) error {
	tok, err := d.Token()
	if err != nil {
		return err
	}
	switch v := tok.(type) {
	case json.Delim:
		return shapeOfMany(d, out, v)
	case string:
		if literal[key] {
			out.WriteString(strconv.Quote(v))
		} else {
			out.WriteString("text")
		}
	case float64:
		out.WriteString("number")
	case bool:
		out.WriteString(strconv.FormatBool(v))
	case nil:
		out.WriteString("null")
	}
	return nil
}

func shapeOfMany(d *json.Decoder, out *strings.Builder, open json.Delim) error {
	out.WriteRune(rune(open))
	last := ""
	for d.More() {
		var item strings.Builder
		key := ""
		if open == '{' {
			k, err := d.Token()
			if err != nil {
				return err
			}
			key = k.(string)
			item.WriteString(key + ":")
		}
		if err := shapeOf(d, &item, key); err != nil {
			return err
		}
		if open == '[' && item.String() == last {
			continue // a list of one kind of thing
		}
		last = item.String()
		out.WriteString(last + " ")
	}
	end, err := d.Token()
	if err != nil {
		return err
	}
	out.WriteRune(rune(end.(json.Delim)))
	return nil
}
