package console

import (
	"strconv"
	"strings"
)

// Plain is a text that others may have made up, without what a terminal obeys.
func Plain(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return s
	}
	s = strconv.Quote(s)
	return s[1 : len(s)-1]
}
