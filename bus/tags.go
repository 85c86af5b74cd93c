package bus

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"slices"
	"strings"
)

// Limits of a task's tags.
const (
	MaxTag     = 8   // of a task; those that come first count
	MaxTagName = 32  // bytes; a longer name is kept as its hash
	MaxTagText = 64  // bytes of a value; likewise
	MaxTags    = 512 // bytes of all, as they are kept; what is beyond that is left out
	MaxRequest = 128 // bytes of a request's id
)

// tagBytes are the characters of tags as they are kept, and of ids of requests: no other stands in a journal,
// a log or a table.
const tagBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~%+=&:/@"

// Plain reports whether s may stand where tags do.
func Plain(s string, most int) bool { return len(s) <= most && strings.Trim(s, tagBytes) == "" }

func notTags(s string) error {
	if Plain(s, MaxTags) {
		return nil
	}
	return errors.New("tags are pairs name=value, joined by &, escaped as in a URL's query, of 512 bytes at most")
}

// Tag is a pair that a request says of itself.
type Tag struct{ Name, Value string }

// Tags writes tags down, by name, each name once: the first counts. salt is empty, or stands before each
// value, and then its hash is kept in its place.
func Tags(tags []Tag, salt string) string {
	if len(tags) == 0 {
		return ""
	}
	var all []string
	names := map[string]bool{}
	for _, t := range tags[:min(len(tags), MaxTag)] {
		if names[t.Name] {
			continue
		}
		names[t.Name] = true
		value := short(t.Value, MaxTagText)
		if salt != "" {
			value = hashed(salt + "\x00" + t.Name + "\x00" + t.Value)
		}
		all = append(all, url.QueryEscape(short(t.Name, MaxTagName))+"="+url.QueryEscape(value))
	}
	size := 0
	for i, t := range all {
		if size += len(t) + 1; size > MaxTags+1 {
			all = all[:i]
			break
		}
	}
	slices.Sort(all)
	return strings.Join(all, "&")
}

// short is s, or its hash where that is longer than most.
func short(s string, most int) string {
	if len(s) > most {
		return hashed(s)
	}
	return s
}

func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "~" + hex.EncodeToString(sum[:8])
}

// ReadTags reads what Tags wrote.
func ReadTags(s string) (tags []Tag) {
	for pair := range strings.SplitSeq(s, "&") {
		name, value, ok := strings.Cut(pair, "=")
		if n, err := url.QueryUnescape(name); ok && err == nil {
			v, _ := url.QueryUnescape(value)
			tags = append(tags, Tag{n, v})
		}
	}
	return tags
}
