package bus

import "cmp"

// How many tokens a prompt has is known once an engine has counted it. Until then there is an estimate,
// which forecasts and default terms are made of, and there is a bound, which money is set aside for: no
// token of a text stands for less than one byte of it, so that a prompt has no more tokens than bytes,
// and what the model's chat template adds, which the agent measures at its engine.

// What a prompt's bytes say of its tokens. See [Prompt.Loose].
const (
	LooseNone    = iota // no prompt of so many bytes has more tokens than [Template.Bound] says
	LooseCounted        // a template may make more of it: the engine counts it before it computes anything
	LooseMedia          // images, sound: only computing it tells
)

// Template bounds the tokens that a model's chat template and tokenizer add to a prompt, as measured by the
// agent.
type Template struct {
	Fixed int `json:"fixed"`                      // tokens around any prompt
	Each  int `json:"each"`                       // and around each of its pieces
	Tools int `json:"tools,omitempty" want:"any"` // and what introduces tools; below 0: not measured
	// most tokens of a byte beyond ASCII, where text is normalised
	Wide int `json:"wide" want:"any"`
}

// maxWide is the most that any normal form of Unicode makes of a byte of UTF-8: one Arabic ligature of
// three bytes takes 33.
const maxWide = 11

// Assumed is more than the usual template adds, for agents that have not measured theirs.
var Assumed = Template{Fixed: 512, Each: 32, Tools: 512, Wide: 3}

// Pooled is more than is added to each text that is embedded or scored: no chat template writes it.
var Pooled = Template{Each: 32, Wide: 3}

// Bound is the most tokens that a prompt can come to. ok is false where its bytes do not say so; then it
// is a guess on the high side.
func (t Template) Bound(p *Prompt) (tokens int, ok bool) {
	ok = p.Text > 0 && p.Loose == LooseNone && (p.Tools == 0 || t.Tools >= 0)
	n := int64(p.Text) + int64(max(t.Wide, 1)-1)*int64(p.Wide)
	n += int64(t.Fixed) + int64(t.Each)*int64(p.Pieces)
	if p.Tools > 0 {
		n += int64(max(t.Tools, 0))
	}
	return int(min(n, MaxTokens)), ok
}

// AnswerRoom returns how many tokens of an answer may follow a prompt of so many in a context; 0: it is not
// said. An engine refuses a request whose prompt and max_tokens together exceed that; the margin is for the
// estimate's error.
func AnswerRoom(context, prompt int) int {
	return max(1, cmp.Or(context, 2*MaxTokens)-prompt-prompt/16-16)
}
