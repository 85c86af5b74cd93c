package vllmsim

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// check judges a request's values, in the order and words of vLLM.
func (c *call) check(model string, maxLen int) *problem {
	if c.model != "" && c.model != model {
		return unknownModel(c.model, model)
	}
	if c.options != nil && !c.stream {
		return badValue("stream_options", nil, "Stream options can only be defined when `stream=True`.")
	}
	if c.salt != nil {
		if p := checkSalt(*c.salt); p != nil {
			return p
		}
	}
	if c.chat && len(c.messages) == 0 {
		return badRequest("", "Cannot apply chat template to an empty conversation. Provide at least one "+
			"message.")
	}
	if !c.chat && c.emptyPrompt() {
		return badValue("prompt", nil, "Either prompt or prompt_embeds must be provided and non-empty.")
	}
	if c.continueFinal && yes(c.generation) && c.chat {
		return badRequest("", "Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
	}
	if c.maxTokens.n > maxLen {
		return badValue("max_tokens", c.maxTokens.n,
			"max_tokens=%d cannot be greater than max_model_len=%d. Please request fewer output tokens.",
			c.maxTokens.n, maxLen)
	}
	return c.checkSampling()
}

func (c *call) emptyPrompt() bool {
	return len(c.text)+len(c.ids) == 0 || slices.Contains(c.text, "") ||
		slices.ContainsFunc(c.ids, func(ids []uint32) bool { return len(ids) == 0 })
}

func (c *call) checkSampling() *problem {
	switch {
	case c.temperature < 0:
		return badValue("temperature", float(c.temperature), "temperature must be non-negative, got %s.",
			float(c.temperature))
	case c.topP <= 0 || c.topP > 1:
		return badValue("top_p", float(c.topP), "top_p must be in (0, 1], got %s.", float(c.topP))
	case c.maxTokens.set && c.maxTokens.n < 1:
		return badValue("max_tokens", c.maxTokens.n, "max_tokens must be at least 1, got %d.", c.maxTokens.n)
	case c.minTokens.n < 0:
		return badRequest("", "min_tokens must be greater than or equal to 0, got %d.", c.minTokens.n)
	case c.maxTokens.set && c.minTokens.n > c.maxTokens.n:
		return badRequest("", "min_tokens must be less than or equal to max_tokens=%d, got %d.",
			c.maxTokens.n, c.minTokens.n)
	case slices.Contains(c.stop, ""):
		return badRequest("", "stop cannot contain an empty string.")
	case c.unsupported != "":
		return badValue(c.unsupported, nil, "The stand-in for vLLM does not do %s; ask a real server.",
			c.unsupported)
	}
	return nil
}

func checkSalt(s string) *problem {
	if s == "" {
		return badValue("cache_salt", nil, "Parameter 'cache_salt' must be a non-empty string if provided.")
	}
	if utf8.RuneCountInString(s) > 128 || strings.ContainsAny(s, "@/\\\x00") {
		return badValue("cache_salt", nil,
			`Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\', `+
				`or NUL.`)
	}
	return nil
}

// float prints a number as Python does: 3 as 3.0.
func float(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".eIN") {
		s += ".0"
	}
	return s
}
