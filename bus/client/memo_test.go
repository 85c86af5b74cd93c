package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a tool that says how often it was called.
func counted(n *int) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { *n++; return fmt.Appendf(nil, "result %d", *n), nil }
}

func ExampleMemo() {
	m := NewMemo(MemoConfig{Tools: map[string]Tool{
		"get_user":    {Keep: time.Minute},
		"update_user": {Writes: []string{"get_user"}},
	}})
	called := 0
	get := func(args string) {
		r, _ := m.Call(context.Background(), "session-1", "get_user", []byte(args), counted(&called))
		fmt.Println(string(r))
	}
	get(`{"id": 7, "full": true}`)
	get(`{"full":true, "id":7}`)
	m.Call(context.Background(), "session-1", "update_user", []byte(`{"id":7}`),
		func(context.Context) ([]byte, error) { return []byte("ok"), nil })
	get(`{"id":7,"full":true}`)
	// Output:
	// result 1
	// result 1
	// result 2
}

// A result holds for as long as its tool's do, in its scope and for its arguments; what fails, what is no
// JSON and what can be read in two ways is not remembered; a tool of which nothing is said makes all of its
// scope be forgotten.
func TestWhatAMemoRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemo(MemoConfig{Tools: map[string]Tool{"get": {Keep: time.Minute}, "look": {Keep: time.Hour},
			"put": {Writes: []string{"get"}}, "say": {}}})
		n := 0
		call := func(scope, tool, args string, hit bool) {
			t.Helper()
			was := n
			if _, err := m.Call(t.Context(), scope, tool, []byte(args), counted(&n)); err != nil ||
				(n == was) != hit {
				t.Errorf("%s %s(%s): called %v, %v, want a hit: %v", scope, tool, args, n != was, err, hit)
			}
		}
		call("a", "get", `{"x":1,"y":[1,{"p":2,"q":3}]}`, false)
		call("a", "get", ` {"y":[1,{"q":3, "p":2}],"x":1}`, true)
		call("a", "get", `{"x":1,"y":[1,{"p":2,"q":4}]}`, false)
		call("b", "get", `{"x":1,"y":[1,{"p":2,"q":3}]}`, false)
		call("a", "look", `{}`, false)
		call("b", "get", `{"x":1.0}`, false)
		call("b", "get", `{"x":1}`, false)
		for _, odd := range []string{``, `{`, `{"x":1,"x":2}`, `{} {}`, strings.Repeat("[", 70) +
			strings.Repeat("]", 70)} {
			call("a", "get", odd, false)
			call("a", "get", odd, false)
		}
		call("a", "say", `{}`, false)
		call("a", "say", `{}`, false)
		call("a", "get", `{"x":1,"y":[1,{"p":2,"q":3}]}`, true) // say is known to write nothing
		call("a", "put", `{}`, false)
		call("a", "get", `{"x":1,"y":[1,{"p":2,"q":3}]}`, false)
		call("b", "get", `{"x":1,"y":[1,{"p":2,"q":3}]}`, true)
		call("a", "look", `{}`, true)
		time.Sleep(time.Minute)
		call("b", "get", `{"x":1,"y":[1,{"p":2,"q":3}]}`, false)
		call("a", "look", `{}`, true)
		call("a", "unheard of", `{}`, false)
		call("a", "look", `{}`, false)
		m.Forget("a")
		call("a", "look", `{}`, false)
		bad := errors.New("bad")
		for range 2 {
			if _, err := m.Call(t.Context(), "c", "get", []byte(`{}`), func(context.Context) ([]byte, error) {
				return nil, bad
			}); !errors.Is(err, bad) {
				t.Errorf("%v, want what the tool said", err)
			}
		}
		call("c", "get", `{}`, false)
	})
}

// What is read while something is written may be old: nobody remembers it, whichever of the two ends first.
func TestAMemoOfWhatIsBeingWritten(t *testing.T) {
	for _, readFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m := NewMemo(MemoConfig{Tools: map[string]Tool{"get": {Keep: time.Hour},
				"put": {Writes: []string{"get"}}}})
			takes := func(tool string, d time.Duration) {
				m.Call(t.Context(), "a", tool, []byte(`{}`), func(context.Context) ([]byte, error) {
					time.Sleep(d)
					return nil, nil
				})
			}
			read, write := 3*time.Second, time.Second
			if readFirst {
				read, write = time.Second, 3*time.Second
			}
			go takes("put", write)
			synctest.Wait()
			takes("get", read)
			time.Sleep(5 * time.Second)
			n := 0
			if m.Call(t.Context(), "a", "get", []byte(`{}`), counted(&n)); n != 1 {
				t.Errorf("read first %v: what was read meanwhile is remembered", readFirst)
			}
		})
	}
}

// However many calls there are, what is remembered is bounded, and a tool that panics leaves nothing behind.
func TestAMemoIsBounded(t *testing.T) {
	m := NewMemo(MemoConfig{Tools: map[string]Tool{"get": {Keep: time.Hour}}, Entries: 100, Bytes: 20_000})
	for i := range 100_000 {
		n := 0
		m.Call(t.Context(), fmt.Sprint(i%7), "get", fmt.Appendf(nil, `{"i":%d}`, i%900), counted(&n))
		if m.kept.Len() > 100 || m.kept.Weight() > 20_000 {
			t.Fatalf("%d results of %d bytes", m.kept.Len(), m.kept.Weight())
		}
	}
	huge := func(context.Context) ([]byte, error) { return make([]byte, 1<<20), nil }
	m.Call(t.Context(), "a", "get", []byte(`{}`), huge)
	if m.kept.Weight() > 20_000 {
		t.Errorf("%d bytes after a large result", m.kept.Weight())
	}
	func() {
		defer func() { recover() }()
		m.Call(t.Context(), "a", "get", []byte(`{"p":1}`),
			func(context.Context) ([]byte, error) { panic("no") })
	}()
	if len(m.flight) > 0 {
		t.Errorf("%d calls are under way after all have ended", len(m.flight))
	}
}
