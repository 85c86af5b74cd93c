package vllmsim

import "souk/bus/openai"

// tokens appends a list of token ids, or null if there is none.
func tokens(o openai.Out, ids []uint32) openai.Out {
	if ids == nil {
		return o.Raw("null")
	}
	return o.IDs(ids)
}

// stopReason writes which stop string or token ended a sequence.
func stopReason(o openai.Out, s *sequence) openai.Out {
	if s.stopText == "" && s.reason == "stop" && s.stopID >= 0 {
		return o.Int(int(s.stopID))
	}
	return o.StrOrNull(s.stopText)
}

// reply holds the members that all messages of one answer share.
type reply struct {
	chat        bool
	id          string
	created     int64
	model       string
	fingerprint string
	details     bool // --enable-prompt-tokens-details
	tokenIDs    bool // return_token_ids
	usage       bool // usage at the end of a stream
	head        string
}

// tally is a request's usage.
type tally struct{ prompt, output, cached, created int }

func (r *reply) start(o openai.Out, object string) openai.Out {
	return o.Raw(`{"id":`).Str(r.id).Raw(`,"object":"`).Raw(object).Raw(`","created":`).Int(int(r.created)).
		Raw(`,"model":`).Str(r.model).Raw(`,"choices":[`)
}

// open appends the beginning of a chunk, which is the same in every chunk of a stream.
func (r *reply) open(b []byte) openai.Out {
	if r.head == "" {
		object := "text_completion"
		if r.chat {
			object = "chat.completion.chunk"
		}
		r.head = string(r.start(openai.Out("data: "), object))
	}
	return openai.Out(b).Raw(r.head)
}

// role appends the first chunk of a chat.
func (r *reply) role(b []byte, prompt []uint32) []byte {
	o := r.open(b).Raw(`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,` +
		`"finish_reason":null}],"prompt_token_ids":`)
	return tokens(o, r.ids(prompt)).Raw(",\"prompt_text\":null}\n\n")
}

func (r *reply) ids(ids []uint32) []uint32 {
	if !r.tokenIDs {
		return nil
	}
	return ids
}

// chunk appends one event of a stream: text and tokens, and the reason if it is the last. A completion's
// first one has the prompt's tokens.
func (r *reply) chunk(b []byte, s *sequence, text []byte, ids, prompt []uint32, reason string) []byte {
	o := r.open(b).Raw(`{"index":0`)
	if r.chat {
		o = o.Raw(`,"delta":{"content":`).Str(string(text)).Raw("}")
	} else {
		o = o.Raw(`,"text":`).Str(string(text))
	}
	o = o.Raw(`,"logprobs":null,"finish_reason":`).StrOrNull(reason)
	switch {
	case reason != "":
		o = stopReason(o.Raw(`,"stop_reason":`), s)
	case !r.chat:
		o = o.Raw(`,"stop_reason":null`)
	}
	if !r.chat {
		o = tokens(o.Raw(`,"prompt_token_ids":`), r.ids(prompt))
	}
	o = tokens(o.Raw(`,"token_ids":`), r.ids(ids)).Raw("}]")
	if reason != "" && !r.usage { // else the usage chunk is the last and has it
		o = o.Raw(`,"system_fingerprint":`).Str(r.fingerprint)
	}
	return o.Raw("}\n\n")
}

func (u tally) append(o openai.Out) openai.Out {
	return o.Raw(`"prompt_tokens":`).Int(u.prompt).Raw(`,"total_tokens":`).Int(u.prompt + u.output).
		Raw(`,"completion_tokens":`).Int(u.output)
}

// last appends the usage chunk, if it is wanted, and [DONE].
func (r *reply) last(b []byte, u tally) []byte {
	o := openai.Out(b)
	if r.usage {
		if o = u.append(r.open(b).Raw(`],"usage":{`)); r.details {
			o = o.Raw(`,"prompt_tokens_details":{"cached_tokens":`).Int(u.cached)
			if r.chat {
				o = o.Raw(`,"created_cache_tokens":`).Int(u.created)
			}
			o = o.Raw("}")
		}
		o = o.Raw(`},"system_fingerprint":`).Str(r.fingerprint).Raw("}\n\n")
	}
	return o.Raw(openai.Done)
}

// whole appends the body of an answer that is not streamed.
func (r *reply) whole(b []byte, s *sequence, u tally) []byte {
	object := "text_completion"
	if r.chat {
		object = "chat.completion"
	}
	o := u.append(r.choice(r.start(b, object), s).Raw(`],"service_tier":null,"system_fingerprint":`).Str(r.fingerprint).Raw(`,"usage":{`)).
		Raw(`,"prompt_tokens_details":`)
	if r.details {
		if o = o.Raw(`{"cached_tokens":`).Int(u.cached).Raw(`,"created_cache_tokens":`); r.chat {
			o = o.Int(u.created)
		} else {
			o = o.Raw("null")
		}
		o = o.Raw(`,"multimodal_tokens":null}`)
	} else {
		o = o.Raw("null")
	}
	o = o.Raw(`,"completion_tokens_details":null}`)
	if r.chat {
		o = tokens(o.Raw(`,"prompt_logprobs":null,"prompt_token_ids":`),
			r.ids(s.tokens[:s.prompt])).Raw(`,"prompt_text":null`)
	}
	return o.Raw(`,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}`)
}

func (r *reply) choice(o openai.Out, s *sequence) openai.Out {
	o, text := o.Raw(`{"index":0`), string(s.text[:s.shown])
	if r.chat {
		o = o.Raw(`,"message":{"role":"assistant","content":`).Str(text).Raw(
			`,"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null}`)
	} else {
		o = o.Raw(`,"text":`).Str(text)
	}
	o = stopReason(o.Raw(`,"logprobs":null,"finish_reason":`).StrOrNull(s.reason).Raw(`,"stop_reason":`), s)
	o = tokens(o.Raw(`,"token_ids":`), r.ids(s.tokens[s.prompt:]))
	if !r.chat {
		o = tokens(o.Raw(`,"prompt_logprobs":null,"prompt_token_ids":`), r.ids(s.tokens[:s.prompt]))
	}
	return o.Raw(`,"routed_experts":null}`)
}
