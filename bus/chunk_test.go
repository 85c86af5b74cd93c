package bus

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// The chunk's own encoder writes the very bytes that reflection over its tags does, for every combination of fields, so that
// a field added to one of them alone is noticed.
func TestChunkEncodesAsItsTagsSay(t *testing.T) {
	type byTags Chunk // without methods
	if n := reflect.TypeFor[Chunk]().NumField(); n != 11 {
		t.Errorf("a chunk has %d fields, this test and EncodeMsgpack know 11", n)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for set := range 1 << 11 {
		c := Chunk{Task: "t", Seq: rng.Uint64N(1 << uint(rng.IntN(63)))}
		has := func(bit int) bool { return set&(1<<bit) != 0 }
		if has(0) {
			c.Attempt = rng.IntN(1000) + 1
		}
		if has(1) {
			c.Text = string(bytes.Repeat([]byte("é"), rng.IntN(300)))
		}
		if has(2) {
			for range rng.IntN(40) {
				c.Tokens = append(c.Tokens, uint32(rng.Uint64N(1<<uint(rng.IntN(33)))))
			}
		}
		if has(3) {
			c.Count = rng.IntN(1 << 20)
		}
		if has(4) {
			c.Extra = []Extra{{At: 1, Choice: []byte(`{"index":0}`)}, {Choice: []byte(`{}`)}}
		}
		c.Heartbeat = has(5)
		if has(6) {
			c.Result = &Result{Client: "c", Task: "t", Cost: 7, Receipt: &Receipt{ID: "j/1/0"}}
		}
		if has(7) {
			c.Task = string(bytes.Repeat([]byte("t"), rng.IntN(64)))
		}
		if has(8) {
			c.Extra = []Extra{}
		}
		c.Finish = has(9)
		if has(10) {
			c.Agent = "a1"
		}
		got, err := Encode(&c)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		e := msgpack.NewEncoder(&want)
		e.UseCompactInts(true)
		if err := e.Encode((*byTags)(&c)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%+v\nown  %x\ntags %x", c, got, want.Bytes())
		}
	}
}

// FuzzChunkDecodesAsItsTagsSay holds the chunk's own decoder against reflection over its tags, on whatever passes the
// structural check.
func FuzzChunkDecodesAsItsTagsSay(f *testing.F) {
	for _, c := range []Chunk{
		{Task: "t"}, {Task: "t", Seq: 1 << 40, Text: "é", Tokens: []uint32{1, 70000}, Count: 2, Attempt: 1, Finish: true},
		{Task: "t", Heartbeat: true, Agent: "a1"}, {Task: "t", Extra: []Extra{{At: 1, Choice: []byte(`{"index":0}`)}}},
		{Task: "t", Seq: 9, Result: &Result{Client: "c", Task: "t", Cost: 7, Receipt: &Receipt{ID: "j/1/0"}}},
	} {
		data, err := Encode(&c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("\x83\xa1t\xc0\xa1k\xc0\xa1r\xc0"))      // nil everywhere
	f.Add([]byte("\x82\xa1t\xa1t\xa5later\x81\xa1x\x01")) // a field of a later version
	f.Add([]byte("\x82\xa1t\x01\xa1n\xa1n"))              // other types
	f.Fuzz(func(t *testing.T, data []byte) {
		if Check(data) != nil {
			return
		}
		type byTags Chunk // without methods
		var own Chunk
		var tags byTags
		e1 := msgpack.NewDecoder(bytes.NewReader(data)).Decode(&own)
		e2 := msgpack.NewDecoder(bytes.NewReader(data)).Decode(&tags)
		if (e1 == nil) != (e2 == nil) {
			t.Fatalf("%x: own %v, tags %v", data, e1, e2)
		}
		if e1 == nil && !reflect.DeepEqual(own, Chunk(tags)) {
			t.Fatalf("%x\nown  %+v\ntags %+v", data, own, tags)
		}
	})
}
