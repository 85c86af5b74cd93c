package openai

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"souk/bus"
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

// What Anthropic's API has and a gateway does not the page lists by its name there, and each is refused with
// that name; what is taken of it stands in the page's table.
func TestThePageListsWhatMessagesLack(t *testing.T) {
	text, err := os.ReadFile("../../deploy/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Anthropic's API\n")
	section, _, _ = strings.Cut(section, "\n## ")
	taken, lacks, _ := strings.Cut(section, "\nNot served, and refused by name")
	lacks, _, _ = strings.Cut(lacks, "\n\n")
	for _, name := range heard {
		if !strings.Contains(taken, "`"+name+"`") && !strings.Contains(taken, "`"+name+".") {
			t.Errorf("%s is taken, and stands nowhere in the table", name)
		}
	}
	listed := map[string]bool{}
	for i, name := range strings.Split(lacks, "`") {
		if i%2 == 1 && name != string(bus.CodeUnsupportedField) {
			listed[name] = true
		}
	}
	block := func(kind string) string {
		return `{"messages":[{"role":"user","content":[{"type":"` + kind + `"}]}]}`
	}
	with := func(more string) string {
		return `{"messages":[{"role":"user","content":"x"}],` + more + "}"
	}
	for name, body := range map[string]string{
		"web_search_20250305": with(`"tools":[{"type":"web_search_20250305","name":"web_search"}]`),
		"bash_20250124":       with(`"tools":[{"type":"bash_20250124","name":"bash"}]`),
		"document":            block("document"),
		"search_result":       block("search_result"),
		"container_upload":    block("container_upload"),
		"file":                `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}]}`,
		"container":           with(`"container":"c"`),
		"mcp_servers":         with(`"mcp_servers":[]`),
		"inference_geo":       with(`"inference_geo":"eu"`),
		"context_management":  with(`"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}`),
	} {
		_, no := ReadMessages([]byte(body))
		if no == nil || no.Code != bus.CodeUnsupportedField || !strings.Contains(no.Message, name) {
			t.Errorf("%s: %v", name, no)
		}
		if !listed[name] {
			t.Errorf("%s is refused, and stands nowhere in the list", name)
		}
		delete(listed, name)
	}
	if len(listed) > 0 {
		t.Errorf("listed, and not tried: %v", listed)
	}
}
