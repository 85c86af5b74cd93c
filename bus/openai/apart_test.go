package openai

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"souk/bus"
)

// An engine's cache is not found by the text alone: a salt, a length to cut at and a template's arguments
// make another prompt of it. Such prompts share no prefix with one another, nor with the text as it is, so
// that what is believed to be cached of this text is not believed of them. A switch of thinking counts too:
// some templates write it at the beginning.
func TestPrefixesAreOfWhatACacheIsFoundBy(t *testing.T) {
	const chat = `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"}]%s}`
	const completion = `{"prompt":"Once upon a time"%s}`
	for _, body := range []string{chat, completion} {
		seen := map[bus.PrefixHash]string{}
		for _, more := range []string{
			``, `,"cache_salt":"a"`, `,"cache_salt":"b"`, `,"truncate_prompt_tokens":7`,
			`,"truncate_prompt_tokens":8`,
			`,"chat_template_kwargs":{"enable_thinking":false}`, `,"reasoning_effort":"low"`,
			`,"add_special_tokens":false`,
			`,"chat_template_kwargs":{"date_string":"1"}`, `,"chat_template_kwargs":{"date_string":"2"}`,
			`,"cache_salt":"a","truncate_prompt_tokens":7`, `,"cache\u005fsalt":"c"`,
		} {
			p, err := Measure([]byte(fmt.Sprintf(body, more)))
			if err != nil {
				t.Fatalf("%s: %v", more, err)
			}
			for _, m := range p.Prefixes {
				if other, ok := seen[m]; ok {
					t.Errorf("%q and %q share the prefix to byte %d", other, more, m.Bytes)
				}
				seen[m] = more
			}
		}
		for _, more := range []string{
			`,"cache_salt":null`, `,"temperature":1`,
		} {
			p, err := Measure([]byte(fmt.Sprintf(body, more)))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range p.Prefixes {
				if other, ok := seen[m]; !ok || other != "" {
					t.Errorf("%q has other prefixes than the text alone", more)
				}
			}
		}
	}
}

// Prompts of two keys have nothing in common that is made of their texts: no prefix, no session, no role. Of
// one key they have all of it.
func TestNothingIsSharedAcrossKeys(t *testing.T) {
	body := []byte(`{"messages":[{"role":"system","content":"` + strings.Repeat("Be brief. ", 100) +
		`"},{"role":"user","content":"Hello"}]}`)
	read := func(client, key string) *bus.Task {
		task, _, no := DecodeRequest(body, nil, client, []byte(key))
		if no != nil {
			t.Fatal(no)
		}
		return task
	}
	one, other, same := read("ann", "one"), read("ann", "two"), read("bob", "one")
	if !reflect.DeepEqual(one.Prompt, same.Prompt) || one.Session != same.Session || one.Role != same.Role {
		t.Errorf("of one key: %+v and %+v", one.Prompt.Prefixes, same.Prompt.Prefixes)
	}
	for i, m := range one.Prompt.Prefixes {
		if at := bus.DigestBytes * i; m.Hash == other.Prompt.Prefixes[i].Hash ||
			bytes.Equal(one.Prompt.Digests[at:at+bus.DigestBytes],
				other.Prompt.Digests[at:at+bus.DigestBytes]) {
			t.Errorf("of two keys: prefix %d", i)
		}
	}
	if one.Session == other.Session || one.Role == "" || one.Role == other.Role {
		t.Errorf("of two keys: sessions %s and %s, roles %s and %s", one.Session, other.Session, one.Role,
			other.Role)
	}
}

// A client that speaks for several people keeps them apart by salts: of two, as of two groups, nothing that
// is made of a text is one, so that no quote under one tells how long the answers under another were. In
// whatever spelling a salt comes, it is the same.
func TestNothingIsSharedAcrossSalts(t *testing.T) {
	text := strings.Repeat("Be brief. ", 100)
	read := func(salt string) *bus.Task {
		return mustDecode(t, `{"messages":[{"role":"system","content":"`+text+`"},{"role":"user",`+
			`"content":"The PIN is 4711"}],"cache_salt":`+salt+`}`, nil)
	}
	none, one, other := read(`null`), read(`"a"`), read(`"b"`)
	for _, x := range [][2]*bus.Task{{none, one}, {none, other}, {one, other}} {
		a, b := x[0], x[1]
		if a.Session == "" || a.Session == b.Session || a.Role == "" || a.Role == b.Role {
			t.Errorf("salts %q and %q: sessions %s and %s, roles %s and %s", a.Salt, b.Salt, a.Session,
				b.Session, a.Role, b.Role)
		}
		for i, m := range a.Prompt.Prefixes {
			if m.Hash == b.Prompt.Prefixes[i].Hash {
				t.Errorf("salts %q and %q share prefix %d", a.Salt, b.Salt, i)
			}
		}
	}
	if again := read(`"\u0061"`); again.Session != one.Session || again.Role != one.Role ||
		!reflect.DeepEqual(again.Prompt, one.Prompt) {
		t.Errorf("in another spelling the session is %s, the role %s, the prefixes %v; they were %s, %s and %v",
			again.Session, again.Role, again.Prompt.Prefixes, one.Session, one.Role, one.Prompt.Prefixes)
	}
}

// No part of a message names what somebody else may have sent to the engine.
func TestPicturesHaveNoNames(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":[{"type":"text","text":"uuid"},` +
		`{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}%s}]}]}`
	for _, more := range []string{``, `,"uuid":null`, `,"detail":"\u0061"`} {
		mustDecode(t, fmt.Sprintf(body, more), nil)
	}
	for _, more := range []string{`,"uuid":"sku-1"`, `,"\u0075uid":"sku-1"`, `,"uuid":7`} {
		if _, no := decode(t, fmt.Sprintf(body, more), nil); no == nil ||
			no.Code != bus.CodeUnsupportedField || !strings.Contains(no.Message, "uuid") {
			t.Errorf("%s: %v", more, no)
		}
	}
	if _, no := decode(t, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":null,`+
		`"uuid":"theirs"}]}]}`, nil); no == nil || no.Code != bus.CodeUnsupportedField {
		t.Errorf("a picture by its name alone: %v", no)
	}
}

// A client's own salt is hashed, whatever its spelling; what engines refuse is refused here, since they see
// none of it; in msgpack nobody sets what the door makes of it.
func TestACachesOwnSalt(t *testing.T) {
	said := func(salt string) (string, *bus.Error) {
		task, no := decode(t, `{"prompt":"x","cache_salt":`+salt+`}`, nil)
		if no != nil {
			return "", no
		}
		return task.Salt, nil
	}
	one, no := said(`"pepper"`)
	if no != nil || !bus.ValidID(one) || strings.Contains(one, "pepper") {
		t.Fatal(one, no)
	}
	if again, _ := said(`"p\u0065pper"`); again != one {
		t.Errorf("in another spelling it is %s, and was %s", again, one)
	}
	if other, _ := said(`"paprika"`); other == one {
		t.Error("two salts are one")
	}
	if none, no := said(`null`); none != "" || no != nil {
		t.Errorf("none at all is %q, %v", none, no)
	}
	if long, no := said(`"` + strings.Repeat("ü", 128) + `"`); no != nil || !bus.ValidID(long) {
		t.Errorf("128 characters: %q, %v", long, no)
	}
	for salt, says := range map[string]string{
		`"a/b"`: `'/'`, `"a\u002fb"`: `'/'`, `"a@b"`: `'@'`, `"a\\b"`: `'\'`, `"a\u0000b"`: "NUL",
		`""`: "is empty", `7`: "a string is expected", `["a"]`: "a string is expected",
		`"` + strings.Repeat("ü", 129) + `"`: "129 characters, at most 128"} {
		_, no := said(salt)
		if no == nil || no.Code != bus.CodeBadRequest || !strings.HasPrefix(no.Message, "cache_salt: ") ||
			!strings.Contains(no.Message, says) {
			t.Errorf("%s: %v", salt, no)
		}
		body := []byte(`{"prompt":"x","cache_salt":` + salt + `}`)
		if _, err := Ask(body, nil, "ann", bus.KindCompletion); err == nil || err.Message != no.Message {
			t.Errorf("%s: a gateway says %v", salt, err)
		}
	}
	r, no := ReadResponses([]byte(`{"model":"m","input":"x","cache_salt":"pepper"}`), nil)
	if no != nil {
		t.Fatal(no)
	}
	if task := mustDecode(t, string(r.Chat), nil); task.Salt != one {
		t.Errorf("of a response's request it is %q", task.Salt)
	}
	data, err := bus.Encode(&bus.Task{Client: "eve", Salt: "stolen", Body: []byte(`{"prompt":"x"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if task, _, no := DecodeRequest(data, nil, "eve", testKey); no != nil || task.Salt != "" {
		t.Errorf("%v, %+v", no, task)
	}
}
