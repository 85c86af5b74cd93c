package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"souk/bus/bounded"
)

// Memo remembers results of tools, so that an agent's repeated call is answered without running the tool. The
// caller says which tools may be remembered: a tool that is not listed may change anything, so it is run each
// time, and everything remembered of its scope is forgotten.
//
// A scope is a set of calls that see one another's writes. Sessions that share a database are one scope. All
// methods may be called from many goroutines.
type Memo struct {
	c MemoConfig

	mu     sync.Mutex
	kept   *bounded.Cache[string, memoKey, memo] // by scope
	flight map[*flight]bool
	stats  MemoStats
}

// MemoConfig lists the tools whose results are remembered, and the limits.
type MemoConfig struct {
	Tools   map[string]Tool
	Entries int // results at most
	// bytes at most, of results and arguments; beyond either limit the scope with most forgets what it used
	// longest ago. 0: 4096 results, 16 MB. A larger result is not remembered; below 0 none is.
	Bytes int
}

// Tool says how long a tool's results hold, and which tools' results its calls change.
type Tool struct {
	Keep time.Duration // how long a result holds; 0: it is not remembered
	// tools whose results its calls change, "*" is all; with Keep 0 and none, it writes nothing
	Writes []string
}

// MemoStats are counts since the beginning.
type MemoStats struct{ Calls, Hits, Forgotten int64 }

type memoKey struct{ scope, tool, args string }

type memo struct {
	result []byte
	until  time.Time
}

// memoCost is about how many bytes a result takes beside its own.
const memoCost = 160

// flight is a call under way whose result is to be remembered, unless something is written meanwhile.
type flight struct {
	scope, tool string
	stale       bool
}

// NewMemo remembers nothing yet.
func NewMemo(c MemoConfig) *Memo {
	c.Entries, c.Bytes = cmp.Or(c.Entries, 4096), cmp.Or(c.Bytes, 16<<20)
	return &Memo{c: c, kept: bounded.New[string, memoKey, memo](c.Bytes, 0),
		flight: map[*flight]bool{}}
}

// Stats are the counts so far.
func (m *Memo) Stats() MemoStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats
}

// Call returns the result of a tool for arguments in JSON: the remembered one, else that of call, whose
// errors are not remembered. The result is not to be changed.
func (m *Memo) Call(ctx context.Context, scope, tool string, args []byte,
	call func(context.Context) ([]byte, error)) ([]byte, error) {
	of, known := m.c.Tools[tool]
	writes := of.Writes
	if !known {
		writes = []string{"*"}
	}
	key := memoKey{scope, tool, ""}
	keeps := of.Keep > 0
	if keeps {
		canonical, err := canonicalJSON(args)
		key.args, keeps = canonical, err == nil // else the tool may take them for anything
	}
	f := &flight{scope: scope, tool: tool}
	m.mu.Lock()
	m.stats.Calls++
	if keeps {
		if result, ok := m.find(key, time.Now()); ok {
			m.stats.Hits++
			m.mu.Unlock()
			return result, nil
		}
		m.flight[f] = true
	}
	m.wrote(scope, writes) // what is read from now on may be old
	m.mu.Unlock()
	ended := false
	var result []byte
	var err error
	defer func() { // also where call panics
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.flight, f)
		m.wrote(scope, writes)
		if ended && keeps && err == nil && !f.stale {
			m.put(key, memo{bytes.Clone(result), time.Now().Add(of.Keep)})
		}
	}()
	result, err = call(ctx)
	ended = true
	return result, err
}

// find returns a remembered result that still holds.
func (m *Memo) find(key memoKey, now time.Time) ([]byte, bool) {
	x := m.kept.Get(key)
	if x != nil && !now.Before(x.until) {
		m.kept.Drop(key)
		x = nil
	}
	if x == nil {
		return nil, false
	}
	return x.result, true
}

func (m *Memo) put(key memoKey, x memo) {
	m.kept.Put(key.scope, key, x, len(key.scope)+len(key.tool)+len(key.args)+len(x.result)+memoCost)
	for m.kept.Len() > max(0, m.c.Entries) {
		next, _ := m.kept.Next()
		m.kept.Drop(next)
	}
}

// wrote forgets what a call changes.
func (m *Memo) wrote(scope string, tools []string) {
	if len(tools) == 0 {
		return
	}
	changes := func(of, tool string) bool {
		return of == scope && (slices.Contains(tools, "*") || slices.Contains(tools, tool))
	}
	for f := range m.flight {
		f.stale = f.stale || changes(f.scope, f.tool)
	}
	for key := range m.kept.Of(scope) {
		if changes(scope, key.tool) {
			m.stats.Forgotten++
			m.kept.Drop(key)
		}
	}
}

// Forget forgets all of a scope, as when others changed its data, or it has ended.
func (m *Memo) Forget(scope string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrote(scope, []string{"*"})
}

// mostArgs bounds the arguments of calls that are remembered.
const mostArgs = 64 << 10

// canonicalJSON returns one text for all JSON of the same meaning: members sorted by name, no space. Numbers
// stay as written. An object that names a member twice is refused, since readers do not agree on its meaning;
// so is invalid text, and U+FFFD, into which invalid text is decoded.
func canonicalJSON(data []byte) (string, error) {
	if len(data) > mostArgs {
		return "", fmt.Errorf("%d bytes of arguments, at most %d are remembered", len(data), mostArgs)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := canonical(d, 0)
	if err != nil {
		return "", err
	}
	if _, err := d.Token(); err != io.EOF {
		return "", errors.New("there is more than one value")
	}
	text, err := json.Marshal(v)
	return string(text), err
}

func canonical(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	switch {
	case err != nil:
		return nil, err
	case depth > 64:
		return nil, errors.New("it is nested too deep")
	}
	if s, ok := t.(string); ok && strings.ContainsRune(s, utf8.RuneError) {
		return nil, errors.New("it may not be text")
	}
	switch t {
	case json.Delim('['):
		all := []any{}
		for d.More() {
			v, err := canonical(d, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		_, err = d.Token()
		return all, err
	case json.Delim('{'):
		all := map[string]any{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := canonical(d, depth+1)
			if err != nil {
				return nil, err
			}
			switch _, twice := all[name.(string)]; {
			case twice:
				return nil, fmt.Errorf("%q is there twice", name)
			case strings.ContainsRune(name.(string), utf8.RuneError):
				return nil, errors.New("a name may not be text")
			}
			all[name.(string)] = v
		}
		_, err = d.Token()
		return all, err
	}
	return t, nil
}
