package gateway

import (
	"slices"
	"strings"
	"testing"
)

// An origin that no browser sends lets nobody in, and is refused where it is set.
func TestOriginsAreAsBrowsersSendThem(t *testing.T) {
	for _, good := range []string{"https://chat.example.org", "http://localhost:5173",
		"https://a.example:8443", "http://a.example:443", "chrome-extension://abcdef", "*"} {
		if err := checkOrigins([]string{good}); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "chat.example.org", "https://chat.example.org/",
		"https://Chat.example.org", "HTTPS://chat.example.org", "https://a.example:443",
		"http://a.example:80", "https://u@a.example", "null", "https://*.example.org/x", "https://", "://x",
		strings.Repeat("x", 1000)} {
		err := checkOrigins([]string{"*", bad})
		if err == nil || !strings.HasPrefix(err.Error(), "cors[1]: ") || len(err.Error()) > 500 {
			t.Errorf("%.50q: %v", bad, err)
		}
	}
	c := Default()
	c.ID = "g"
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if c.CORS = []string{"a.example"}; c.Validate() == nil || slices.Contains(Default().CORS, "*") {
		t.Error("a gateway with it starts, or lets in pages that nobody named")
	}
}
