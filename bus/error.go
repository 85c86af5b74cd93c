package bus

import "errors"

// Error is a refusal: a stable code and a sentence that says what to do.
type Error struct {
	Code    Code
	Message string
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
