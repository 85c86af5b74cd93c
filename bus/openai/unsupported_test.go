package openai

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// The page lists what is not supported, each member by the name with which its refusal begins.
func TestThePageListsWhatIsNotSupported(t *testing.T) {
	text, err := os.ReadFile("../../deploy/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\n## What is not supported\n")
	list, _, _ = strings.Cut(list, "\n## ")
	for _, name := range append(slices.Sorted(maps.Keys(refused)), "best_of", "use_beam_search", "echo",
		"modalities", "stream_options.include_obfuscation", "stream_options.continuous_usage_stats",
		"return_token_ids", "documents", "chat_template_kwargs", "previous_response_id", "conversation",
		"background", "encoding_format") {
		if !strings.Contains(list, "`"+name+"`") {
			t.Errorf("%s is refused, and stands nowhere in the list", name)
		}
	}
}
