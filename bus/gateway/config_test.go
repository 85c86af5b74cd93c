package gateway

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The page says what limits there are where the file says nothing.
func TestThePageSaysTheDefaults(t *testing.T) {
	text, err := os.ReadFile("../../deploy/api.md")
	if err != nil {
		t.Fatal(err)
	}
	page, c := strings.Join(strings.Fields(string(text)), " "), Default()
	count := func(n int) string {
		if n < 1000 {
			return fmt.Sprint(n)
		}
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	for _, want := range []string{
		fmt.Sprintf("%s open answers a key, %s a gateway, %s connections; %d wrong keys a second",
			count(c.MaxOpenKey), count(c.MaxOpen), count(c.MaxConns), c.WrongKeys),
		fmt.Sprintf("within %.0f s, with text", c.BodyWithin.Seconds()),
		fmt.Sprintf("a header of %d KB within %.0f s", c.MaxHeader>>10, c.HeaderWithin.Seconds()),
		fmt.Sprintf("%d KB of a stream unread, or %.0f s in which nothing is taken", c.MaxUnread>>10,
			c.WriteWithin.Seconds()),
		fmt.Sprintf("open ones have %.0f s, then an error", c.Drain.Seconds()),
		fmt.Sprintf("at most %.0f s; a refusal after that is an event", c.VerdictWithin.Seconds()),
		fmt.Sprintf("says nothing a comment comes every %.0f s", c.CommentEvery.Seconds()),
		fmt.Sprintf("it may come back within %.0f s", c.ResumeWithin.Seconds()),
		fmt.Sprintf("are kept until %.0f s after the end", c.KeepFor.Seconds()),
		fmt.Sprintf("`max_memory` (%d MB): connections (%d KB each", c.MaxMemory>>20, connCost>>10),
		fmt.Sprintf("(`max_kept`, %d MB) and items of `/v1/responses` (`max_items`, %d MB)", c.MaxKept>>20,
			c.MaxItems>>20),
		fmt.Sprintf("the last %d MB of a key", c.MaxItemsKey>>20),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("api.md does not say: %s", want)
		}
	}
}
