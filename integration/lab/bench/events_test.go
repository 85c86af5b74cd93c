package bench

import (
	"slices"
	"testing"
	"time"
)

// A token that comes with the one before it makes nothing late that comes after.
func TestATokenIsLateByItself(t *testing.T) {
	var l lateness
	next, end := l.stream()
	for _, e := range []struct {
		at     time.Duration
		tokens int
	}{{0, 1}, {20, 1}, {60, 2}, {80, 1}, {101, 1}} { // the third was due after 40
		next(time.Time{}.Add(e.at*time.Millisecond), e.tokens)
	}
	end()
	slices.Sort(l.all)
	if want := []time.Duration{0, 0, 0, 0, time.Millisecond, eventEvery}; !slices.Equal(l.all, want) {
		t.Errorf("tokens are late by %v, want %v", l.all, want)
	}
	if l.events != 5 {
		t.Errorf("%d events, want 5", l.events)
	}
}

func TestTokensOfAnEvent(t *testing.T) {
	for content, want := range map[string]int{"": 0, "Your": 1, " in": 1, ".": 1, " a house.": 3,
		"There is": 2, ". The": 2} {
		event := []byte(`data: {"choices":[{"index":0,"delta":{"content":"` + content + `"}}]}`)
		if n := tokensOf(event); n != want {
			t.Errorf("%q has %d tokens, want %d", content, n, want)
		}
	}
	if n := tokensOf([]byte("data: [DONE]")); n != 0 {
		t.Errorf("the end has %d tokens", n)
	}
}
