package bus

import (
	"errors"
	"strings"
)

// Error is a refusal: a stable code and a sentence that says what to do.
type Error struct {
	Code    Code
	Message string
	RetryMS int64 // when to come again, where that is known better than by the code
}

func (e *Error) Error() string {
	if e.Message == "" {
		return string(e.Code)
	}
	return string(e.Code) + ": " + e.Message
}

// CodeOf returns the code of the first Error in err's chain, CodeInternal for any other error, and ""
// for nil.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return CodeInternal
}

// MessageOf returns the message of the first Error in err's chain, and all that any other error says.
func MessageOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// Clip bounds a message to so many bytes, at a character's end.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-3], "") + "..."
}
