package openai

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// built makes of a value what encoding/json makes of it, by Object, Array and Count.
func built(s *Scanner) (v any, ok bool) {
	switch c := s.Next(); c {
	case '{':
		m := map[string]any{}
		ok = s.Object(func(key Span) bool {
			name := string(s.Name(key))
			value, ok := built(s)
			m[name] = value
			return ok
		})
		return m, ok
	case '[':
		list := []any{}
		ok = s.Array(func() bool {
			item, ok := built(s)
			list = append(list, item)
			return ok
		})
		return list, ok
	case '"':
		if p, ok := s.Str(); ok {
			return string(s.AppendString(nil, p)), true
		}
		return nil, false
	case 'n':
		return nil, s.Null()
	}
	again := *s
	p, ok := s.Value()
	if !ok {
		return nil, false
	}
	switch text := string(s.Text(p)); text {
	case "true", "false":
		return text == "true", ok
	default:
		n, counts := again.Count()
		if atoi, err := strconv.Atoi(text); counts && again.at == s.at && (err != nil || n != atoi) ||
			err == nil && atoi >= 0 && atoi < 1e9 && text[0] != '-' && !counts {
			return "miscounted", ok
		}
		return json.Number(text), ok
	}
}

// FuzzScan holds the walker to encoding/json: both take the same texts and read the same in them.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-0.5e+3,"x\u00e9\ud83d\ude00\ud800\n",true,false,null,{}],"b":{"c":""}}`, `[]`, ` 1 `, `"a`,
		`{"a":01}`, `{"a":1,}`, `{"a" 1}`, `[1 2]`, `-`, `1.`, `1e`, `tru`,
		`"\x"`, `"\u12"`, "\"\x01\"", `"\ud83d\u0041"`, `"0123456789abcdef\"0123456789"`, "[\"\u2028\"]", "[\"\u0085\xe2\x80\xe2\x80\xa9\xc2\"]",
		`{"a":1}x`, `"\ud800\udc00"`, `"\udc00\ud800"`,
		`{"\u0061":1,"a":2}`, `[0,00,7,999999999,1000000000,-0,1.0]`, "{}\x00", "\"\xff\"", `"\`, `NaN`, `-Infinity`,
		strings.Repeat("[", maxNesting) + strings.Repeat("]", maxNesting),
		strings.Repeat("[", maxNesting+1) + strings.Repeat("]", maxNesting+1),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := Scan(data)
		v, ok := s.Value()
		ok = ok && s.End()
		if want := json.Valid(data); ok != want || ok != (s.Err() == nil) {
			t.Fatalf("%q: scanned %v (%v), encoding/json %v", data, ok, s.Err(), want)
		}
		parts := Scan(data)
		got, all := built(&parts)
		if all = all && parts.End(); all != ok {
			t.Fatalf("%q: skipped %v, taken apart %v (%v)", data, ok, all, parts.Err())
		}
		if _, at := s.Wrong(); at > len(data) {
			t.Fatalf("%q: wrong at byte %d", data, at)
		}
		if !ok {
			return
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			t.Fatal(err)
		}
		lines := strings.NewReplacer("\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)
		if got, want := string(appendCompact(nil, s.Text(v))), lines.Replace(compact.String()); got != want {
			t.Fatalf("%q: compact %q, encoding/json %q", data, got, want)
		}
		if !utf8.Valid(data) {
			return // encoding/json mends strings
		}
		var want any
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: read as %v, by encoding/json as %v", data, got, want)
		}
	})
}

// What is wrong is said with the byte where it stands.
func TestScanSaysWhere(t *testing.T) {
	for text, want := range map[string]string{
		``:            "JSON at byte 0: " + NoValue,
		`{"a" 1}`:     "JSON at byte 5: " + NoColon,
		`{a`:          "JSON at byte 1: " + NoName,
		`[1 2]`:       "JSON at byte 3: " + NoMoreItem,
		`{"a":1;`:     "JSON at byte 6: " + NoMoreMember,
		`["abc`:       "JSON at byte 1: " + NoEnd,
		`["abc\`:      "JSON at byte 1: " + NoEnd,
		`["abc\x"]`:   "JSON at byte 5: " + NoEscape,
		"[\"abc\n\"]": "JSON at byte 5: " + BareControl,
		`1 2`:         "JSON at byte 2: it has ended, but more follows",
		`[[[[]]]]`:    "JSON at byte 3: nested more than 3 deep",
	} {
		s := Scan([]byte(text))
		s.Deepest = 3
		_, ok := s.Value()
		if ok = ok && s.End(); ok || s.Err().Error() != want {
			t.Errorf("%s: %v, want %s", text, s.Err(), want)
		}
	}
	for _, text := range []string{"NaN", "Infinity", "-Infinity", "[NaN,1]"} {
		s := Scan([]byte(text))
		s.NotNumbers = true
		if _, ok := s.Value(); !ok || !s.End() {
			t.Errorf("%s: %v", text, s.Err())
		}
	}
}
