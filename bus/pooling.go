package bus

import "strings"

// Embeddings and scores are pooling tasks, as vLLM calls them: an engine computes a prompt, and answers with
// what it makes of that, at once and whole. They cost their prompt's tokens. An engine that pools generates
// nothing, and the other way round.

// MaxInputs bounds the texts of one pooling task, as OpenAI bounds them.
const MaxInputs = 2048

// MaxPooled bounds the answer to one, in bytes: MaxInputs vectors of 1,024 numbers, written out.
const MaxPooled = 48 << 20

// Pooling reports whether tasks of a kind are for engines that pool.
func Pooling(kind string) bool { return kind == KindEmbedding || kind == KindRerank }

// Serves reports whether an agent that pools so serves tasks of a kind.
func Serves(pools, kind string) bool {
	if kind == KindEmbedding || kind == KindRerank {
		return strings.Contains(pools, kind)
	}
	return pools == ""
}

// Route is the last part of the HTTP route of a kind of pooling task.
func Route(kind string) string {
	if kind == KindEmbedding {
		return "embeddings"
	}
	return kind
}

// Routes are the HTTP routes of what an agent that pools so serves.
func Routes(pools string) string {
	if pools == "" {
		return "/v1/chat/completions, /v1/completions, /v1/responses, /v1/messages"
	}
	var all []string
	for _, kind := range strings.Fields(pools) {
		all = append(all, "/v1/"+Route(kind))
	}
	return strings.Join(all, ", ")
}
