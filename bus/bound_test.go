package bus

import "testing"

// An earlier door counted nothing of it; and no sum is beyond what a prompt may be.
func TestBoundsOfOddPrompts(t *testing.T) {
	if _, ok := Assumed.Bound(&Prompt{Bytes: 1000, Messages: 2, Tokens: 250}); ok {
		t.Error("bounded by what was not counted")
	}
	if n, _ := (Template{Fixed: MaxTokens, Each: MaxTokens, Wide: 11}).Bound(&Prompt{Text: MaxTokens,
		Wide: MaxTokens, Pieces: MaxTokens}); n != MaxTokens {
		t.Errorf("%d", n)
	}
}
