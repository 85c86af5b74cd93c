package vllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"souk/agentd"
)

var errNotObject = errors.New("the body is not a JSON object")

// rewrite appends to dst the body as the engine shall get it: our model, a forced stream with usage and token
// ids, our limit on tokens, and without the member "souk". Everything else stays byte for byte, in
// its order, so that a prompt's cached prefix never depends on who re-encoded it.
func rewrite(dst, body []byte, r agentd.Request) ([]byte, error) {
	dst = append(dst, `{"model":`...)
	model, err := json.Marshal(r.Model)
	if err != nil {
		return nil, err
	}
	dst = append(dst, model...)
	dst = append(dst, `,"stream":true,"stream_options":{"include_usage":true},"return_token_ids":true`...)
	if r.MaxTokens > 0 {
		// Chat prefers max_completion_tokens, completions know max_tokens alone; both take this one.
		dst = append(dst, `,"max_tokens":`...)
		dst = strconv.AppendInt(dst, int64(r.MaxTokens), 10)
	}
	err = members(body, func(name, member []byte) {
		if ours(name) {
			return
		}
		dst = append(dst, ',')
		dst = append(dst, member...)
	})
	if err != nil {
		return nil, err
	}
	return append(dst, '}'), nil
}

// ours reports whether a member, by its quoted name, is replaced or dropped.
func ours(quoted []byte) bool {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 { // "mod\u0065l" is model too
		var s string
		if json.Unmarshal(quoted, &s) != nil {
			return false // the engine will refuse it
		}
		name = []byte(s)
	}
	switch string(name) {
	case "model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "return_token_ids",
		"souk":
		return true
	}
	return false
}

// members calls f for each member of the object in data: its name with quotes, and the member from
// name to value as written. It finds where values end, no more: whether they are valid is for the
// engine to judge, and a body that is valid JSON is always cut where JSON says.
func members(data []byte, f func(name, member []byte)) error {
	i := space(data, 0)
	if i == len(data) || data[i] != '{' {
		return errNotObject
	}
	i = space(data, i+1)
	if i < len(data) && data[i] == '}' {
		return end(data, i+1)
	}
	for {
		start := i
		i = quoted(data, i)
		if i < 0 {
			return errNotObject
		}
		name := data[start:i]
		i = space(data, i)
		if i == len(data) || data[i] != ':' {
			return errNotObject
		}
		i = value(data, space(data, i+1))
		if i < 0 {
			return errNotObject
		}
		f(name, data[start:i])
		i = space(data, i)
		if i == len(data) {
			return errNotObject
		}
		switch data[i] {
		case ',':
			i = space(data, i+1)
		case '}':
			return end(data, i+1)
		default:
			return errNotObject
		}
	}
}

func end(data []byte, i int) error {
	if space(data, i) != len(data) {
		return errNotObject
	}
	return nil
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// quoted returns where the string that begins at i ends, or -1.
func quoted(data []byte, i int) int {
	if i >= len(data) || data[i] != '"' {
		return -1
	}
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// value returns where the value that begins at i ends, or -1.
func value(data []byte, i int) int {
	if i >= len(data) {
		return -1
	}
	switch data[i] {
	case '"':
		return quoted(data, i)
	case '{', '[':
		for depth := 0; i < len(data); i++ {
			switch data[i] {
			case '"':
				if i = quoted(data, i); i < 0 {
					return -1
				}
				i--
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return -1
	}
	start := i
	for i < len(data) {
		switch data[i] {
		case ',', '}', ']', ' ', '\n', '\t', '\r':
			if i == start {
				return -1
			}
			return i
		case '"', ':', '{', '[':
			return -1
		}
		i++
	}
	return -1 // an object does not end in a number
}
