package gateway_test

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// nonsense lists bad values of a header.
var nonsense = []string{"", " ", "\t", "0", "-1", "+1", "1e3", "0x10", "1_000", "NaN", "-Inf", "86400001",
	"9223372036854775807", "9223372036854775808", "-9223372036854775808", "0.0000000000001", "1,5", "１",
	"TRUE", "off", "null", "{}", `"x"`, "a.b", ">", "a b", "'; --", "\xff\xfe", "\u202eevil", "a\u2028b",
	strings.Repeat("x", 5000), strings.Repeat("9", 400)}

// Whatever stands in a header X-Souk-*, the answer is a result or a refusal that names what is wrong, by the
// header or by the field that it fills. What is refused costs nothing, and what follows is served.
func TestHeadersThatMakeNoSense(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, one)
	fields := map[string]string{"dialogue-id": "session", "session-id": "session", "run-id": "run",
		"turn-number": "turn", "deadline": "deadline_ms"}
	for _, name := range []string{"back-ms", "deadline", "deadline-ms", "delta", "dialogue-id", "failover",
		"hub", "max-price", "max_price", "next", "parent", "patience-ms", "role", "run", "run-id", "session",
		"session-end", "session-id", "source", "task", "turn", "turn-number", "worth"} {
		if fields[name] == "" {
			fields[name] = strings.ReplaceAll(name, "-", "_")
		}
	}
	ask := func(name, value string) (status int, said string) {
		conn := h.dial(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+
			"Authorization: Bearer %s\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s", h.key, name, value,
			len(chat("")), chat("")))
		defer conn.Close()
		all, err := io.ReadAll(conn)
		if err != nil || len(all) < 12 {
			t.Fatalf("%s: %.40q: %q %v", name, value, all, err)
		}
		status, _ = strconv.Atoi(string(all[9:12]))
		return status, string(all)
	}
	served := 0
	for name, field := range fields {
		for _, v := range nonsense {
			status, said := ask("X-Souk-"+name, v)
			named := strings.Contains(strings.ReplaceAll(said, "terms.", ""), `"message":"`+field+": ") ||
				strings.Contains(strings.ToLower(said), `"message":"header x-souk-`+name+": ")
			switch {
			case status == 200:
				served++
			case status < 400 || status > 499 || status == 400 && !named:
				t.Errorf("%s: %.40q: %s", name, v, said)
			}
			takes := []string{"", " ", "\t", "0"} // of those above; what is empty says nothing
			if status == 200 && name == "back-ms" && !slices.Contains(append(takes, "+1"), v) ||
				status == 200 && name == "session-end" && v != "TRUE" {
				t.Errorf("%s: %.40q is taken", name, v)
			}
		}
	}
	if status, said := ask("X-Souk-Worht", "1"); status != 400 || !strings.Contains(said, "X-Souk-Worht") {
		t.Errorf("a header that there is none of: %s", said)
	}
	if status, said := ask("X-Souk-Next", "critic"); status != 200 {
		t.Error(said)
	}
	served++
	count := func() int { paid, _ := h.captures("dev"); return len(paid) }
	h.until("every result is paid", func() bool { return count() >= served })
	if paid := count(); paid != served {
		t.Errorf("%d were paid, %d were served", paid, served)
	}
}
