package bus

import (
	"regexp"
	"strings"
)

// Redacted stands in for a name, password or token in an address that is shown.
const Redacted = "***"

var (
	schemes  = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://`)
	userinfo = regexp.MustCompile(`[^\s"']+@`)
)

// Redact hides whoever stands before the host of an address, as user:password@ or token@, in an address, a
// list of them or a text that quotes them. A password may hold any character: what lies between "://" and the
// last '@' of the line, or of what comes before the next "://", is hidden whole. It rather hides a host than
// shows a password.
func Redact(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = redactLine(line)
	}
	return strings.Join(lines, "\n")
}

func redactLine(line string) string {
	if !strings.Contains(line, "@") {
		return line
	}
	var out strings.Builder
	at := schemes.FindAllStringIndex(line, -1)
	rest := len(line)
	if len(at) > 0 {
		rest = at[0][0]
	}
	out.WriteString(userinfo.ReplaceAllString(line[:rest], Redacted+"@"))
	for i, s := range at {
		end := len(line)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		out.WriteString(line[s[0]:s[1]])
		host := line[s[1]:end]
		if last := strings.LastIndexByte(host, '@'); last >= 0 {
			host = Redacted + host[last:]
		}
		out.WriteString(host)
	}
	return out.String()
}

// RedactError is err with its text redacted; callers decide by what it wraps as before. Nil stays nil.
func RedactError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := Redact(text); clean != text {
		return &redacted{clean, err}
	}
	return err
}

type redacted struct {
	text string
	err  error
}

func (r *redacted) Error() string { return r.text }
func (r *redacted) Unwrap() error { return r.err }

var apiKeys = regexp.MustCompile(`(` + KeyPrefix + `[a-zA-Z0-9_]+-)[a-zA-Z0-9_-]+`)

// HideKeys hides the secrets of API keys in a text: only their ids stay.
func HideKeys(text string) string { return apiKeys.ReplaceAllString(text, "${1}"+Redacted) }
