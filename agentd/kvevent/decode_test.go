package kvevent

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"
)

// message is a line of a recording.
type message struct {
	Frames  [][]byte `json:"frames_base64"`
	Decoded struct {
		Seq     int64
		Payload []json.RawMessage
	}
}

func (m *message) payload() []byte { return m.Frames[len(m.Frames)-1] }

// recorded reads a recording.
func recorded(t testing.TB, name string) (out []message) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(file))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

var recordings = []string{"cold", "warm", "hash_bytes", "salt", "session", "reset", "replay_last_two"}

// jsonKey is a hash as Python's decoder wrote it down.
type jsonKey Key

func (k *jsonKey) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return json.Unmarshal(b, (*uint64)(k))
	}
	var whole struct{ Hex string }
	if err := json.Unmarshal(b, &whole); err != nil {
		return err
	}
	raw, err := hex.DecodeString(whole.Hex)
	*k = jsonKey(binary.BigEndian.Uint64(raw[len(raw)-8:]))
	return err
}

// What a real server published reads as Python's decoder read it.
func TestDecodeRecordings(t *testing.T) {
	for _, name := range recordings {
		seen := 0
		for _, m := range recorded(t, name) {
			if m.Decoded.Payload == nil {
				continue // the end of a replay
			}
			var events []struct {
				Type   string    `json:"type"`
				Blocks []jsonKey `json:"block_hashes"`
				Parent *jsonKey  `json:"parent_block_hash"`
				Tokens []uint32  `json:"token_ids"`
				Size   int       `json:"block_size"`
				Extra  []any     `json:"extra_keys"`
			}
			if err := json.Unmarshal(m.Decoded.Payload[1], &events); err != nil {
				t.Fatal(err)
			}
			got, err := new(Decoder).Decode(m.payload())
			if err != nil || got.Unknown+got.Bad > 0 || got.Lost {
				t.Fatalf("%s: %+v %v", name, got, err)
			}
			at := 0
			for _, e := range events {
				var want Event
				switch e.Type {
				case "AllBlocksCleared":
					want.Kind = Cleared
				case "BlockStored":
					want = Event{Kind: Stored, Tokens: e.Tokens, BlockSize: e.Size}
					for _, k := range e.Blocks {
						want.Blocks = append(want.Blocks, Key(k))
					}
					if e.Parent != nil {
						want.Parent, want.HasParent = Key(*e.Parent), true
					}
				default:
					t.Fatalf("%s: %s", name, e.Type)
				}
				// Events of the salted prompt come in two: the block that the salt made, and the rest.
				have := got.Events[at]
				if at++; want.Kind == Stored && e.Extra[0] != nil {
					if have.Space == (Space{}) || len(have.Blocks) != 1 {
						t.Errorf("%s: %+v", name, have)
					}
					rest := got.Events[at]
					at++
					if !rest.HasParent || rest.Parent != have.Blocks[0] || rest.Space != (Space{}) {
						t.Errorf("%s: %+v", name, rest)
					}
					have.Blocks = slices.Concat(have.Blocks, rest.Blocks)
					have.Tokens, have.Space = slices.Concat(have.Tokens, rest.Tokens), Space{}
				}
				if diff := cmp.Diff(want, have); diff != "" {
					t.Errorf("%s: (-want +got)\n%s", name, diff)
				}
				seen++
			}
			if at != len(got.Events) {
				t.Errorf("%s: %d events, read %d", name, len(got.Events), at)
			}
		}
		if seen == 0 {
			t.Errorf("%s: no event", name)
		}
	}
}

// The same prompt has the same keys on two servers, one of which publishes numbers and one 32 bytes, as long
// as both hash in the same way; these two do not, and so only the form is compared.
func TestKeyForms(t *testing.T) {
	long := make([]byte, 32)
	for i := range long {
		long[i] = byte(i)
	}
	const low = 0x18191a1b1c1d1e1f
	for name, test := range map[string]struct {
		hash any
		want Key
		ok   bool
	}{
		"32 bytes":           {long, low, true},
		"8 bytes":            {long[24:], low, true},
		"7 bytes":            {long[25:], 0, false},
		"unsigned":           {uint64(math.MaxUint64 - 1), math.MaxUint64 - 1, true},
		"negative":           {int64(-2), math.MaxUint64 - 1, true},
		"least":              {int64(math.MinInt64), 1 << 63, true},
		"negative, 16 bits":  {int16(-300), Key(uint64(math.MaxUint64 - 299)), true},
		"negative, 8 bits":   {int8(-100), Key(uint64(math.MaxUint64 - 99)), true},
		"negative, one byte": {int8(-1), math.MaxUint64, true},
		"small":              {5, 5, true},
		"text":               {"0123456789abcdef", 0, false},
		"float":              {1.5, 0, false},
		"nil":                {nil, 0, false},
	} {
		got := decoded(t, []any{0.5, []any{[]any{"BlockRemoved", []any{test.hash}, "GPU"}}})
		if !test.ok {
			if got.Bad != 1 || !got.Lost || got.Events != nil {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		want := Batch{Events: []Event{{Kind: Removed, Blocks: []Key{test.want}}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	b, err := msgpack.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decoded(t testing.TB, v any) Batch {
	t.Helper()
	b, err := new(Decoder).Decode(encoded(t, v))
	if err != nil {
		t.Fatalf("%v: %v", v, err)
	}
	return b
}

type dict = map[string]any

// with is an event of two blocks with some members changed; nil leaves one out.
func with(changes dict) dict {
	e := dict{"type": "BlockStored", "block_hashes": []any{1, 2}, "parent_block_hash": nil,
		"token_ids": []any{1, 200, 70000, 4}, "block_size": 2, "lora_id": nil, "medium": "GPU",
		"lora_name": nil}
	for k, v := range changes {
		if e[k] = v; v == nil {
			delete(e, k)
		}
	}
	return e
}

// Both encodings, in one batch, with members that nobody knows and without those that may lack.
func TestDecodeForms(t *testing.T) {
	two := Event{Kind: Stored, Blocks: []Key{1, 2}, Tokens: []uint32{1, 200, 70000, 4}, BlockSize: 2}
	change := func(f func(*Event)) []Event {
		e := two
		f(&e)
		return []Event{e}
	}
	for name, test := range map[string]struct {
		event        any
		want         []Event
		unknown, bad int
		lost         bool
	}{
		"map":      {event: with(nil), want: []Event{two}},
		"shortest": {event: with(dict{"lora_id": nil, "medium": nil, "lora_name": nil}), want: []Event{two}},
		"more": {event: with(dict{"group_idx": 0, "kv_cache_spec_kind": "full_attention",
			"kv_cache_spec_sliding_window": 12, "ownership": dict{"a": []any{1}}, "x": 1.5}),
			want: []Event{two}},
		"array": {event: []any{"BlockStored", []any{1, 2}, nil, []any{1, 200, 70000, 4}, 2, nil},
			want: []Event{two}},
		"array, all": {event: []any{"BlockStored", []any{1, 2}, 7, []any{1, 200, 70000, 4}, 2, nil,
			"GPU", nil,
			[]any{nil, nil}, 0, "mla_attention", nil, nil, nil, "s", 1, 2, 3},
			want: change(func(e *Event) { e.Parent, e.HasParent = 7, true })},
		"removed": {event: dict{"type": "BlockRemoved", "block_hashes": []any{9}, "medium": "CPU",
			"group_idx": 0}, want: []Event{{Kind: Removed, Blocks: []Key{9}, Host: true}}},
		"removed, array": {event: []any{"BlockRemoved", []any{9, 8}},
			want: []Event{{Kind: Removed, Blocks: []Key{9, 8}}}},
		"cleared":        {event: dict{"type": "AllBlocksCleared"}, want: []Event{{Kind: Cleared}}},
		"cleared, array": {event: []any{"AllBlocksCleared"}, want: []Event{{Kind: Cleared}}},
		"in the host": {event: with(dict{"medium": "CPU"}), want: change(func(e *Event) {
			e.Host = true
		})},
		"far away": {event: with(dict{"locality": "REMOTE"}), want: change(func(e *Event) {
			e.Host = true
		})},
		"too few tokens": {event: with(dict{"token_ids": []any{1, 2, 3}}), bad: 1},
		"too many":       {event: with(dict{"token_ids": []any{1, 2, 3, 4, 5}}), bad: 1},
		"another size":   {event: with(dict{"block_size": 4}), bad: 1},
		"huge size":      {event: with(dict{"block_size": uint64(math.MaxUint64)}), bad: 1},
		"no size":        {event: with(dict{"block_size": nil}), bad: 1},
		"no tokens":      {event: with(dict{"token_ids": nil}), bad: 1},
		"no hashes":      {event: with(dict{"block_hashes": nil}), bad: 1},
		"negative token": {event: with(dict{"token_ids": []any{1, 2, 3, -4}}), bad: 1},
		"wide token":     {event: with(dict{"token_ids": []any{1, 2, 3, 1 << 32}}), bad: 1},
		"parent is text": {event: with(dict{"parent_block_hash": "x"}), bad: 1},
		"keys too few":   {event: with(dict{"extra_keys": []any{nil}}), bad: 1},
		"a number":       {event: 7, bad: 1, lost: true},
		"no type":        {event: dict{"x": 1}, bad: 1, lost: true},
		"nothing":        {event: []any{}, bad: 1, lost: true},
		"another type":   {event: dict{"type": "BlockPainted"}, unknown: 1},
		"part of prompts": {event: with(dict{"kv_cache_spec_kind": "sliding_window", "group_idx": 1}),
			unknown: 1},
		"state": {event: with(dict{"kv_cache_spec_kind": "mamba"}), unknown: 1},
		"removed, no list": {event: dict{"type": "BlockRemoved", "block_hashes": 7}, bad: 1,
			lost: true},
		"no blocks": {event: with(dict{"block_hashes": []any{}, "token_ids": []any{}})},
	} {
		got := decoded(t, []any{1.5, []any{dict{"type": "AllBlocksCleared"}, test.event}, 0, "later"})
		want := Batch{Events: append([]Event{{Kind: Cleared}}, test.want...), Unknown: test.unknown,
			Bad: test.bad, Lost: test.lost}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// Blocks that a salt, an image or an adapter made are told apart from plain ones, and from one another.
func TestSpaces(t *testing.T) {
	stored := func(changes dict) []Event {
		return decoded(t, []any{0, []any{with(changes)}}).Events
	}
	keys := func(a, b any) []Event { return stored(dict{"extra_keys": []any{a, b}}) }
	salted := keys([]any{"salt"}, nil)
	if len(salted) != 2 || salted[0].Space == (Space{}) || salted[1].Space != (Space{}) ||
		salted[1].Parent != 1 || len(salted[1].Tokens) != 2 || salted[1].Tokens[0] != 70000 {
		t.Errorf("%+v", salted)
	}
	if plain := keys(nil, []any{}); len(plain) != 1 || plain[0].Space != (Space{}) {
		t.Errorf("%+v", plain)
	}
	spaces := map[Space]string{{}: "plain"}
	for name, events := range map[string][]Event{
		"salt": salted, "other salt": keys([]any{"pepper"}, nil),
		"image": keys([]any{[]any{"id", 3}}, nil), "image, elsewhere": keys([]any{[]any{"id", 4}}, nil),
		"adapter": stored(dict{"lora_name": "a"}), "other adapter": stored(dict{"lora_name": "b"}),
		"number of an adapter": stored(dict{"lora_id": 1}),
		"adapter and salt":     stored(dict{"lora_name": "a", "extra_keys": []any{[]any{"salt"}, nil}}),
		"adapter and its image": stored(dict{"lora_name": "a", "extra_keys": []any{[]any{"id"},
			[]any{"id"}}}),
	} {
		if other, found := spaces[events[0].Space]; found {
			t.Errorf("%s has the space of %s", name, other)
		}
		spaces[events[0].Space] = name
	}
}

// An agent knows the space of its prompts' blocks as a real server says it: adapters law and tax, and a salt.
// The server says adapters by their names once more among the extra keys, and may come to say of each of
// those what it is; how a text is packed makes no difference.
func TestSpaceOf(t *testing.T) {
	law, _ := SpaceOf("law", "")
	tax, _ := SpaceOf("tax", "")
	plainSalted, plain := SpaceOf("", "pepper")
	lawSalted, lawBehind := SpaceOf("law", "pepper")
	if plain != (Space{}) || lawBehind != law {
		t.Error("behind a salt")
	}
	at := 0
	want := []Space{plain, plain, law, law, lawSalted, law, tax, tax, plainSalted, plain, law}
	for _, m := range recorded(t, "adapters") {
		b, err := new(Decoder).Decode(m.payload())
		if err != nil || b.Bad+b.Unknown > 0 {
			t.Fatal(b, err)
		}
		for _, e := range b.Events {
			if e.Kind != Stored || at == len(want) || e.Space != want[at] {
				t.Fatalf("event %d is in another space: %+v", at, e)
			}
			at++
		}
	}
	if at != len(want) {
		t.Errorf("%d events", at)
	}
	all := map[Space]bool{}
	for _, s := range []Space{plain, plainSalted, law, lawSalted, tax} {
		all[s] = true
	}
	for _, adapter := range []string{"", "pepper", "law"} { // names are none of a salt's, and the other way
		for _, salt := range []string{"law", "tax"} {
			first, _ := SpaceOf(adapter, salt)
			all[first] = true
		}
	}
	if len(all) != 5+6 {
		t.Errorf("%d spaces", len(all))
	}
	long := strings.Repeat("s", 100)
	longSalted, _ := SpaceOf("law", long)
	named, _ := SpaceOf("law", "law")
	for name, test := range map[string]struct {
		extra []any
		want  Space
	}{
		"a salt's name":   {[]any{"law", "law"}, named},
		"packed as long":  {[]any{"law", msgpack.RawMessage("\xda\x00\x64" + long)}, longSalted},
		"packed as short": {[]any{"law", msgpack.RawMessage("\xd9\x64" + long)}, longSalted},
		"no extra key":    {nil, law},
		"none of these":   {[]any{}, law},
	} {
		event := with(dict{"lora_name": "law", "extra_keys": []any{test.extra, nil}})
		got := decoded(t, []any{0, []any{event}}).Events
		if len(got) == 0 || got[0].Space != test.want || got[len(got)-1].Space != law {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Of several groups of layers one is followed: its removals count, and nobody else's.
func TestGroups(t *testing.T) {
	var d Decoder
	event := func(changes dict) Batch {
		b, err := d.Decode(encoded(t, []any{0, []any{with(changes)}}))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	removed := func(group any) Batch {
		return event(dict{"type": "BlockRemoved", "group_idx": group, "token_ids": nil})
	}
	if b := removed(5); len(b.Events) != 1 {
		t.Errorf("a removal before anything is known of groups: %+v", b)
	}
	event(dict{"group_idx": 0, "kv_cache_spec_kind": "sliding_window"})
	if b := removed(0); b.Unknown != 1 {
		t.Errorf("a window's removal: %+v", b)
	}
	if b := event(dict{"group_idx": 1, "kv_cache_spec_kind": "full_attention"}); len(b.Events) != 1 {
		t.Errorf("%+v", b)
	}
	for group, want := range map[any]int{0: 0, 1: 1, 2: 0, nil: 1} {
		if b := removed(group); len(b.Events) != want {
			t.Errorf("removed of group %v: %+v", group, b)
		}
	}
	if b := event(dict{"group_idx": 2, "kv_cache_spec_kind": "full_attention"}); b.Unknown != 1 {
		t.Errorf("a second group: %+v", b)
	}
	for i := range 1000 {
		event(dict{"group_idx": 10 + i, "kv_cache_spec_kind": "mamba"})
	}
	if len(d.other) > maxGroups {
		t.Errorf("%d groups are remembered", len(d.other))
	}
}

// What is cut off, or says that it is longer than it is, is an error and costs no memory.
func TestDecodeBroken(t *testing.T) {
	whole := recorded(t, "cold")[0].payload()
	for n := range whole {
		if _, err := new(Decoder).Decode(whole[:n]); err == nil && n < len(whole)-1 {
			t.Fatalf("%d of %d bytes are taken", n, len(whole))
		}
	}
	deep := append([]byte{0x92, 0}, bytes.Repeat([]byte{0x91}, 1<<20)...)
	for name, payload := range map[string][]byte{
		"nothing": nil, "a map": {0x80}, "a list of one": {0x91, 0}, "no list": {0x92, 0, 0},
		"a long list":         {0x92, 0, 0xdd, 0xff, 0xff, 0xff, 0xff},
		"a long list of keys": {0x92, 0, 0x91, 0x81, 0xa1, 'x', 0xdd, 0x7f, 0xff, 0xff, 0xff},
		"long bytes":          {0x92, 0, 0x91, 0xc6, 0xff, 0xff, 0xff, 0xff},
		"a long extension":    {0x92, 0, 0x91, 0xc9, 0xff, 0xff, 0xff, 0xff, 1},
		"deep":                deep,
		"too large":           make([]byte, MaxPayload+1),
	} {
		if _, err := new(Decoder).Decode(payload); err == nil {
			t.Errorf("%s is taken", name)
		}
		if n := testing.AllocsPerRun(3, func() { _, _ = new(Decoder).Decode(payload) }); n > 12 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// FuzzDecode: no bytes make it panic, and nothing it returns is larger than what it was given, or does not
// hold together.
func FuzzDecode(f *testing.F) {
	for _, name := range recordings {
		for _, m := range recorded(f, name) {
			f.Add(m.payload())
		}
	}
	f.Add(encoded(f, []any{0.5, []any{with(dict{"extra_keys": []any{[]any{"a"}, nil}, "group_idx": 1}),
		[]any{"BlockRemoved", []any{int64(-5), make([]byte, 32)}, "CPU", 1}, []any{"AllBlocksCleared"}}, 3}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		b, err := new(Decoder).Decode(payload)
		if err != nil && (b.Events != nil || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%+v %v", b, err)
		}
		blocks, tokens := 0, 0
		for _, e := range b.Events {
			blocks, tokens = blocks+len(e.Blocks), tokens+len(e.Tokens)
			if e.Kind == Stored && (len(e.Blocks) == 0 || len(e.Tokens) != len(e.Blocks)*e.BlockSize) ||
				e.Kind != Stored && (e.Tokens != nil || e.HasParent || e.Space != (Space{})) ||
				e.Kind < Stored || e.Kind > Cleared {
				t.Errorf("%+v", e)
			}
		}
		if n := blocks + tokens + len(b.Events) + b.Unknown + b.Bad; n > len(payload) {
			t.Errorf("%d things in %d bytes", n, len(payload))
		}
	})
}
