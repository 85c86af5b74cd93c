package daemon

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"souk/bus"
	"souk/bus/regular"
)

// hidden are fields that are not shown.
var hidden = []string{"api_key", "session_key"}

const notShown = "(set, not shown)"

// Effective is a configuration as YAML, secrets aside: hidden fields, and whoever stands before an address's
// host.
func Effective(cfg Config) ([]byte, error) {
	var restore []func()
	defer func() {
		for _, f := range restore {
			f()
		}
	}()
	show := func(v reflect.Value, as string) {
		if was := v.String(); as != was {
			restore = append(restore, func() { v.SetString(was) })
			v.SetString(as)
		}
	}
	everyValue(reflect.ValueOf(cfg).Elem(), "", func(path string, v reflect.Value) {
		name := path[strings.LastIndexByte(path, '.')+1:]
		switch {
		case v.Kind() == reflect.String && slices.Contains(hidden, name):
			if v.String() != "" {
				show(v, notShown)
			}
		case v.Kind() == reflect.String:
			show(v, bus.Redact(v.String()))
		case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String:
			for i := range v.Len() {
				show(v.Index(i), bus.Redact(v.Index(i).String()))
			}
		}
	})
	return yaml.Marshal(cfg)
}

// openSecret says of a file that others can read which secret stands in it; "" where none does. What came by
// the environment does not.
func openSecret(path string) (warning string) {
	info, err := os.Stat(path)
	if path == "" || err != nil || info.Mode().Perm()&0o007 == 0 {
		return ""
	}
	text, err := regular.Read(path, MaxFile)
	var file any
	if err != nil || yaml.Unmarshal(text, &file) != nil {
		return ""
	}
	at := secretIn(file)
	if at == "" {
		return ""
	}
	return fmt.Sprintf("%s is in %s, which others on this machine can read (mode %v): chmod 600 it, or set "+
		"it by its environment variable", at, path, info.Mode().Perm())
}

// secretIn returns the path of the first hidden field that YAML sets; "" if it sets none.
func secretIn(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch of := v[name]; {
			case slices.Contains(hidden, name) && of != nil && of != "":
				return name
			default:
				if at := secretIn(of); at != "" {
					return name + "." + at
				}
			}
		}
	case []any:
		for i := range v {
			if at := secretIn(v[i]); at != "" {
				return fmt.Sprintf("%d.%s", i, at)
			}
		}
	}
	return ""
}

// hiddenValue finds a hidden field where an error quotes a line of the file or a variable.
var hiddenValue = regexp.MustCompile(`(?m)^((?:[> ]*\d+ \||SOUK_\w+=).*?(?:` + strings.Join(hidden, "|") +
	`)[\\"']*\s*:).*`)

// discreet is an error about a file or a variable without the secrets that it quotes: the parser shows the
// lines about a slip.
func discreet(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := hiddenValue.ReplaceAllString(bus.Redact(text), "$1 "+notShown); clean != text {
		return &cleaned{clean, err}
	}
	return err
}

type cleaned struct {
	text string
	err  error
}

func (c *cleaned) Error() string { return c.text }

func (c *cleaned) Unwrap() error { return c.err }
