package vllmsim

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// describe shows a value as pydantic's errors do.
func describe(v []byte) string {
	v = bytes.TrimSpace(v)
	switch {
	case len(v) == 0:
		return "''"
	case v[0] == '"':
		s := scan(v)
		return "'" + s.str() + "'"
	case v[0] == '{' || v[0] == '[':
		n, kind := 0, "list"
		s := scan(v)
		if v[0] == '{' {
			kind = "dict"
			s.object(func(string) { s.value(); n++ })
		} else {
			s.array(func(int) { s.value(); n++ })
		}
		return fmt.Sprintf("'<%s of %d items>'", kind, n)
	case string(v) == "true":
		return "True"
	case string(v) == "false":
		return "False"
	case string(v) == "null":
		return "None"
	}
	return string(v)
}

func (r *reader) unlike(kind, key, msg string) {
	v := r.value()
	r.reject(invalid(kind, "body."+key, msg, describe(v)))
}

// dict reads an object, if the value is not null.
func (r *reader) dict(kind, key, msg string, field func(key string)) {
	switch {
	case r.Next() == '{':
		r.object(field)
	case !r.Null():
		r.unlike(kind, key, msg)
	}
}

func (r *reader) text(key string) string {
	s, _ := r.maybeText(key)
	return s
}

func (r *reader) maybeText(key string) (string, bool) {
	if r.Null() {
		return "", false
	}
	if r.Next() != '"' {
		r.unlike("string_type", key, "Input should be a valid string")
		return "", false
	}
	return r.str(), true
}

// integer takes 5, 5.0 and "5", as pydantic does.
func (r *reader) integer(key string) optional {
	if r.Null() {
		return optional{}
	}
	quoted := r.Next() == '"'
	v := r.value()
	s := string(v)
	if quoted {
		s = strings.TrimSpace(strings.Trim(s, `"`))
	}
	if n, err := strconv.Atoi(s); err == nil {
		return optional{n, true}
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err == nil && !quoted && f == float64(int(f)):
		return optional{int(f), true}
	case err == nil && !quoted:
		r.reject(invalid("int_from_float", "body."+key,
			"Input should be a valid integer, got a number with a fractional part", describe(v)))
	default:
		r.none(v, key, "int", "Input should be a valid integer", ", unable to parse string as an integer")
	}
	return optional{}
}

func (r *reader) number(key string, otherwise float64) float64 {
	if r.Null() {
		return otherwise
	}
	v := r.value()
	f, err := strconv.ParseFloat(strings.Trim(string(v), `"`), 64)
	if err != nil {
		r.none(v, key, "float", "Input should be a valid number", ", unable to parse string as a number")
		return otherwise
	}
	return f
}

// none rejects a value that is none of a type, whatever it is or as a string.
func (r *reader) none(v []byte, key, kind, msg, parsing string) {
	if len(v) > 0 && v[0] == '"' {
		r.reject(invalid(kind+"_parsing", "body."+key, msg+parsing, describe(v)))
	} else {
		r.reject(invalid(kind+"_type", "body."+key, msg, describe(v)))
	}
}

func (r *reader) boolean(key string, otherwise bool) bool {
	if r.Null() {
		return otherwise
	}
	switch v := r.value(); string(v) {
	case "true", "1", `"true"`, `"True"`:
		return true
	case "false", "0", `"false"`, `"False"`:
		return false
	default:
		r.none(v, key, "bool", "Input should be a valid boolean", ", unable to interpret input")
		return otherwise
	}
}

// strings takes one string or a list of them.
func (r *reader) strings(key string) (out []string) {
	switch {
	case r.Null():
	case r.Next() == '"':
		out = append(out, r.str())
	case r.Next() == '[':
		r.array(func(i int) { out = append(out, r.text(key+"."+strconv.Itoa(i))) })
	default:
		r.unlike("string_type", key, "Input should be a valid string")
	}
	return out
}

func (r *reader) tokens(key string) (out []uint32) {
	if r.Null() {
		return nil
	}
	if r.Next() != '[' {
		r.unlike("list_type", key, "Input should be a valid list")
		return nil
	}
	r.array(func(i int) {
		if n := r.integer(key + "." + strconv.Itoa(i)); n.set {
			out = append(out, r.token(n.n))
		}
	})
	return out
}

// token makes an id of n; ids that no vocabulary holds are kept large.
func (r *reader) token(n int) uint32 {
	if n < 0 || n > 1<<31 {
		return 1 << 31
	}
	return uint32(n)
}

// prompts takes a string, a list of strings, a list of tokens, or a list of lists of tokens.
func (r *reader) prompts() (text []string, ids [][]uint32) {
	switch r.Next() {
	case '"':
		return []string{r.str()}, nil
	case 'n':
		r.value()
		return nil, nil
	case '[':
	default:
		r.unlike("string_type", "prompt", "Input should be a valid string")
		return nil, nil
	}
	var flat []uint32
	r.array(func(i int) {
		switch r.Next() {
		case '"':
			text = append(text, r.str())
		case '[':
			ids = append(ids, r.tokens("prompt."+strconv.Itoa(i)))
		default:
			if n := r.integer("prompt." + strconv.Itoa(i)); n.set {
				flat = append(flat, r.token(n.n))
			}
		}
	})
	if flat != nil {
		ids = append(ids, flat)
	}
	return text, ids
}

func (r *reader) messages() (out []Message) {
	if r.Next() != '[' {
		r.unlike("list_type", "messages", "Input should be a valid list")
		return nil
	}
	r.array(func(i int) {
		at := "messages." + strconv.Itoa(i)
		if r.Next() != '{' {
			r.unlike("dict_type", at, "Input should be a valid dictionary")
			return
		}
		var m Message
		hasRole := false
		r.object(func(key string) {
			switch key {
			case "role":
				m.Role = r.text(at + ".role")
				hasRole = true
			case "content":
				m.Content = r.content(at + ".content")
			case "tool_calls":
				if v := r.value(); len(v) > 4 {
					m.Content += "<tool_call>" + string(v) + "</tool_call>"
				}
			default:
				r.value()
			}
		})
		if !hasRole {
			r.reject(invalid("missing", "body."+at+".role", "Field required", "'<dict>'"))
		}
		out = append(out, m)
	})
	return out
}

// content takes a string, null, or a list of text parts.
func (r *reader) content(at string) string {
	switch r.Next() {
	case '"':
		return r.str()
	case 'n':
		r.value()
		return ""
	case '[':
	default:
		r.unlike("string_type", at, "Input should be a valid string")
		return ""
	}
	var parts []string
	r.array(func(i int) {
		if r.Next() == '"' {
			parts = append(parts, r.str())
			return
		}
		if r.Next() != '{' {
			r.unlike("dict_type", at+"."+strconv.Itoa(i), "Input should be a valid dictionary")
			return
		}
		kind := ""
		r.object(func(key string) {
			switch key {
			case "text":
				parts = append(parts, r.text(at+"."+strconv.Itoa(i)+".text"))
			case "type":
				kind = r.text(at + "." + strconv.Itoa(i) + ".type")
			default:
				r.value()
			}
		})
		if kind != "text" && kind != "" {
			r.reject(badRequest("", "At most 0 %s(s) may be provided in one prompt.",
				strings.TrimSuffix(kind, "_url")))
		}
	})
	return strings.Join(parts, "\n")
}
