package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"souk/bus/client"
)

func tool(result string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(result), nil }
}

// Arguments that a tool can tell apart are not taken for one another, although a reader of JSON in Go takes
// what is no letter for the same sign each time.
func TestArgumentsThatAreNoText(t *testing.T) {
	for _, c := range [][2]string{
		{`{"x":"\ud800"}`, `{"x":"\ud801"}`}, {"{\"x\":\"\xff\"}", "{\"x\":\"\xfe\"}"},
		{"{\"\xff\":1}", "{\"\xfe\":1}"}, {"{\"x\":\"\xff\"}", `{"x":"\ufffd"}`}, {`["\udc00"]`, `["�"]`},
	} {
		m := client.NewMemo(client.MemoConfig{Tools: map[string]client.Tool{"get": {Keep: time.Hour}}})
		for i, args := range c {
			want := fmt.Sprint("result ", i)
			if got, err := m.Call(t.Context(), "s", "get", []byte(args), tool(want)); err != nil ||
				string(got) != want {
				t.Errorf("%q has what %q has: %q, %v", args, c[1-i], got, err)
			}
		}
	}
}

// A result that is larger than all that may be remembered pushes nothing out.
func TestAResultTooLargeToRemember(t *testing.T) {
	m := client.NewMemo(client.MemoConfig{Bytes: 10_000,
		Tools: map[string]client.Tool{"get": {Keep: time.Hour}}})
	m.Call(t.Context(), "s", "get", []byte(`1`), tool("one"))
	m.Call(t.Context(), "s", "get", []byte(`2`), tool(string(make([]byte, 20_000))))
	m.Call(t.Context(), "s", "get", []byte(`1`), tool("again"))
	if s := m.Stats(); s.Hits != 1 {
		t.Errorf("%+v: the first result is gone", s)
	}
}

// What is remembered takes no more memory than is said, however large a buffer a tool had its result in.
func TestAMemoKeepsNoBuffers(t *testing.T) {
	m := client.NewMemo(client.MemoConfig{Tools: map[string]client.Tool{"get": {Keep: time.Hour}}})
	buffer := []byte("result" + string(make([]byte, 1<<20)))
	for range 2 {
		got, err := m.Call(t.Context(), "s", "get", []byte(`1`), func(context.Context) ([]byte, error) {
			return buffer[:6], nil
		})
		if err != nil || string(got) != "result" || m.Stats().Hits > 0 && cap(got) > 64 {
			t.Errorf("%q of a buffer of %d bytes, %v", got, cap(got), err)
		}
		copy(buffer, "zzzzzz") // the tool uses it again
	}
}

// A memo that may remember nothing calls each tool.
func TestAMemoThatRemembersNothing(t *testing.T) {
	m := client.NewMemo(client.MemoConfig{Entries: -1,
		Tools: map[string]client.Tool{"get": {Keep: time.Hour}}})
	for _, want := range []string{"one", "two"} {
		if got, err := m.Call(t.Context(), "s", "get", []byte(`1`), tool(want)); string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
	}
}
