package bus

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"nats://127.0.0.1:4222", "nats://127.0.0.1:4222"},
		{"nats://ann:canary@h:4222", "nats://***@h:4222"},
		{"nats://canary@h:4222", "nats://***@h:4222"},
		{"tls://a:canary@h1:1,nats://b:canary@h2:2", "tls://***@h1:1,nats://***@h2:2"},
		{"nats://h1:1, nats://b:canary@h2:2", "nats://h1:1, nats://***@h2:2"},
		{"nats://h1:1,b:canary@h2:2", "nats://***@h2:2"},
		{"nats://ann:can@ary/can ary\"'can,ary@h:1", "nats://***@h:1"},
		{"ann:canary@127.0.0.1:2379", "***@127.0.0.1:2379"},
		{"ann:canary/canary[canary,canary(@127.0.0.1:2379", "***@127.0.0.1:2379"}, // without a scheme
		{"canary@127.0.0.1:2379,h:2", "***@127.0.0.1:2379,h:2"},
		{`parse "nats://a:canary@h:x": invalid port`, `parse "nats://***@h:x": invalid port`},
		{"> 2 |   nats: nats://a:canary@h\n  3 |   etcd: [\"b:canary@h\"]",
			"> 2 |   nats: nats://***@h\n  3 |   etcd: [\"***@h\"]"},
	} {
		if got := Redact(c.text); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
		if got := Redact(Redact(c.text)); got != c.want {
			t.Errorf("%q, twice: %q, want %q", c.text, got, c.want)
		}
	}
	if RedactError(nil) != nil {
		t.Error("no error became one")
	}
	err := RedactError(fmt.Errorf("dial nats://a:canary@h: %w", ErrDisconnected))
	if !errors.Is(err, ErrDisconnected) || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
}

// Whatever a password is made of, as long as it stands in an address with a scheme and no line breaks,
// nothing of it is left.
func FuzzRedact(f *testing.F) {
	for _, s := range []string{"x", "a:b", "@", "://", "nats:/", "%40", "a,b", "\"", " "} {
		f.Add(s, "nats://", "h:1")
	}
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		if strings.ContainsAny(secret, "\r\n") || strings.Contains(secret, ":/") || strings.ContainsAny(after,
			"@") {
			return
		}
		got := Redact("dial nats://canary" + secret + "canary@" + after)
		if strings.Contains(got, "canary") && !strings.Contains(after, "canary") {
			t.Errorf("%q is left of %q", got, secret)
		}
		if again := Redact(got); again != got {
			t.Errorf("%q became %q", got, again)
		}
		Redact(before + secret + after)
	})
}

// Of a key that stands in a text only the id is shown, whether or not the key is whole.
func TestHideKeys(t *testing.T) {
	whole := NewSecret("abc234", [keyRandom]byte{1, 2, 3})
	for text, want := range map[string]string{
		"key: " + whole + ": no":           "key: sk-souk-abc234-***: no",
		"\"" + whole[:len(whole)-3] + "\"": "\"sk-souk-abc234-***\"",
		whole + " " + whole:                "sk-souk-abc234-*** sk-souk-abc234-***",
		"sk-souk-abc234":                   "sk-souk-abc234",
		"souk key list":                    "souk key list",
		"":                                 "",
	} {
		if got := HideKeys(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
