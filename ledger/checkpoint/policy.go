package checkpoint

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

const (
	// MaxPolicy bounds a policy in bytes.
	MaxPolicy = 1 << 20
	// maxNamed bounds each: journals, witnesses and groups that a policy names.
	maxNamed = 1024
)

// Policy says whose checkpoints count, cosigned by how many of whom: C2SP's tlog-policy.
//
//	log VKEY [URL]
//	witness NAME VKEY [URL]
//	group NAME all|any|K MEMBER...
//	quorum NAME|none
//
// A witness whose key has the origin's own name does not count: nobody is the witness of its own journal.
type Policy struct {
	Logs      []Log
	Witnesses []Witness

	quorum string // "": nobody needs to cosign
	groups map[string]group
}

// Log is a journal whose checkpoints count, by the key of its writer. A journal may have several keys: of
// writers that followed one another.
type Log struct {
	Origin string
	Key    note.Verifier
	URL    string
}

// Witness cosigns checkpoints.
type Witness struct {
	Name string // in the policy
	Key  note.Verifier
	URL  string // where it is asked, of C2SP's tlog-witness; "": nowhere
}

type group struct {
	need    int
	members []string
}

// ParsePolicy reads a policy.
func ParsePolicy(data []byte) (*Policy, error) {
	if len(data) > MaxPolicy {
		return nil, fmt.Errorf("%w: a policy of %d bytes, at most %d are read", ErrMalformed, len(data), MaxPolicy)
	}
	p := &policyReader{Policy: Policy{groups: map[string]group{}}, defined: map[string]bool{"none": true},
		used: map[string]bool{}, keys: map[string]bool{}}
	for i, line := range strings.Split(string(data), "\n") {
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("%w: line %d of the policy: %w", ErrMalformed, i+1, err)
		}
	}
	if !p.decided {
		return nil, fmt.Errorf("%w: the policy has no line with its quorum: want \"quorum NAME\", or \"quorum "+
			"none\"", ErrMalformed)
	}
	return &p.Policy, nil
}

type policyReader struct {
	Policy
	defined map[string]bool // names of witnesses and groups
	used    map[string]bool // those that are members of a group
	keys    map[string]bool // bytes of public keys, with the word that brought them
	decided bool            // the quorum
}

func (p *policyReader) line(line string) error {
	for _, b := range []byte(line) {
		if b < 0x20 && b != '\t' || b == 0x7f {
			return fmt.Errorf("byte %#x, want text, spaces and tabs", b)
		}
	}
	words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return nil
	}
	switch word, rest := words[0], words[1:]; {
	case word == "log" && (len(rest) == 1 || len(rest) == 2):
		return p.log(rest[0], rest[1:])
	case word == "witness" && (len(rest) == 2 || len(rest) == 3):
		return p.witness(rest[0], rest[1], rest[2:])
	case word == "group" && len(rest) >= 3:
		return p.group(rest[0], rest[1], rest[2:])
	case word == "quorum" && len(rest) == 1:
		return p.setQuorum(rest[0])
	}
	return fmt.Errorf("%.80q, want \"log VKEY [URL]\", \"witness NAME VKEY [URL]\", \"group NAME all|any|K "+
		"MEMBER...\" or \"quorum NAME\"", line)
}

// fresh refuses a key that the same word brought before, by its bytes: under two names it would count twice.
func (p *policyReader) fresh(word, vkey string) error {
	parts := strings.SplitN(vkey, "+", 3)
	raw, err := base64.StdEncoding.Strict().DecodeString(parts[len(parts)-1])
	if err != nil || len(raw) < 2 {
		return fmt.Errorf("%.120q is no public key", vkey)
	}
	id := word + string(raw[1:])
	if p.keys[id] {
		return fmt.Errorf("two lines %q have one key", word)
	}
	p.keys[id] = true
	return nil
}

func (p *policyReader) log(vkey string, url []string) error {
	key, err := note.NewVerifier(vkey)
	if err != nil {
		if key, err = NewVerifier(vkey); err != nil {
			return fmt.Errorf("%.120q is no public key of a journal's writer", vkey)
		}
	}
	if len(p.Logs) == maxNamed {
		return fmt.Errorf("more than %d logs", maxNamed)
	}
	p.Logs = append(p.Logs, Log{key.Name(), key, strings.Join(url, "")})
	return p.fresh("log", vkey)
}

func (p *policyReader) witness(name, vkey string, url []string) error {
	key, err := NewVerifier(vkey)
	if err != nil {
		return err
	}
	if len(p.Witnesses) == maxNamed {
		return fmt.Errorf("more than %d witnesses", maxNamed)
	}
	p.Witnesses = append(p.Witnesses, Witness{name, key, strings.Join(url, "")})
	if err := p.fresh("witness", vkey); err != nil {
		return err
	}
	return p.define(name)
}

func (p *policyReader) define(name string) error {
	if p.defined[name] {
		return fmt.Errorf("%q is named twice, or may not be a name", name)
	}
	p.defined[name] = true
	return nil
}

func (p *policyReader) group(name, need string, members []string) error {
	if len(p.groups) == maxNamed {
		return fmt.Errorf("more than %d groups", maxNamed)
	}
	g := group{members: members}
	switch need {
	case "all":
		g.need = len(members)
	case "any":
		g.need = 1
	default:
		k, err := strconv.Atoi(need)
		if err != nil || k < 1 || strconv.Itoa(k) != need {
			return fmt.Errorf("group %s asks for %.40q of its members, want all, any or a number from 1 on", name,
				need)
		}
		if g.need = k; k > len(members) {
			return fmt.Errorf("group %s asks for %d of its members and names %d", name, k, len(members))
		}
	}
	for _, m := range members {
		if !p.defined[m] || m == "none" {
			return fmt.Errorf("group %s has a member %q that no line before it defines", name, m)
		}
		if p.used[m] {
			return fmt.Errorf("%q is a member twice: it would count twice", m)
		}
		p.used[m] = true
	}
	p.groups[name] = g
	return p.define(name)
}

func (p *policyReader) setQuorum(name string) error {
	switch {
	case p.decided:
		return fmt.Errorf("a second quorum")
	case !p.defined[name]:
		return fmt.Errorf("the quorum is %q, which no line before it defines", name)
	case name != "none":
		p.quorum = name
	}
	p.decided = true
	return nil
}

// Verdict of a policy on a note whose signatures are right.
type Verdict struct {
	Checkpoint
	Cosigned []Cosignature // by witnesses of the policy
	Enough   bool          // the policy asks for no more of them
	Asked    string        // whom it asks for
}

// Cosignature of a witness.
type Cosignature struct {
	Witness string // its name in the policy
	Time    time.Time
}

// String says who signed.
func (v *Verdict) String() string {
	var who []string
	for _, c := range v.Cosigned {
		who = append(who, c.Witness+" at "+c.Time.UTC().Format(time.RFC3339))
	}
	by := "cosigned by nobody"
	if len(who) > 0 {
		by = "cosigned by " + strings.Join(who, ", ")
	}
	return fmt.Sprintf("checkpoint of %s, size %d, signed by its writer and %s; the policy asks for %s", v.Origin,
		v.Size, by, v.Asked)
}

// Knows reports whether the policy names this journal.
func (p *Policy) Knows(origin string) bool {
	return slices.ContainsFunc(p.Logs, func(l Log) bool { return l.Origin == origin })
}

// Read judges a note as far as its signatures go: its journal's writer has signed it, and nobody whom the
// policy names has signed it falsely. Whether enough have cosigned, the verdict says.
func (p *Policy) Read(data []byte) (Verdict, error) {
	c, err := Peek(data)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{Checkpoint: c, Asked: p.asks()}
	if !p.Knows(c.Origin) {
		return v, fmt.Errorf("%w: the checkpoint is of %s, and the policy names %s", ErrUnproven, c.Origin,
			p.origins())
	}
	var keys []note.Verifier
	for _, l := range p.Logs {
		if l.Origin == c.Origin {
			keys = append(keys, l.Key)
		}
	}
	writers := len(keys)
	for _, w := range p.Witnesses {
		if w.Key.Name() != c.Origin {
			keys = append(keys, w.Key)
		}
	}
	signed, err := Open(data, keys...)
	if err != nil {
		return v, err
	}
	by := func(k note.Verifier) int {
		return slices.IndexFunc(signed, func(s note.Signature) bool {
			return s.Name == k.Name() && s.Hash == k.KeyHash()
		})
	}
	if !slices.ContainsFunc(keys[:writers], func(k note.Verifier) bool { return by(k) >= 0 }) {
		return v, fmt.Errorf("%w: the writer of %s has not signed the checkpoint of size %d", ErrUnproven, c.Origin,
			c.Size)
	}
	have := map[string]bool{}
	for _, w := range p.Witnesses {
		if i := by(w.Key); i >= 0 && w.Key.Name() != c.Origin {
			at, err := cosign.CoSigV1Timestamp(signed[i])
			if err != nil || at.Unix() < 0 {
				return v, fmt.Errorf("%w: the time of the signature of %s is none", ErrMalformed, w.Name)
			}
			v.Cosigned = append(v.Cosigned, Cosignature{w.Name, at})
			have[w.Name] = true
		}
	}
	v.Enough = p.quorum == "" || p.has(p.quorum, have)
	return v, nil
}

// Judge reads a note and refuses one that too few have cosigned.
func (p *Policy) Judge(data []byte) (Verdict, error) {
	v, err := p.Read(data)
	if err == nil && !v.Enough {
		err = fmt.Errorf("%w: too few have cosigned: %s", ErrUnproven, &v)
	}
	return v, err
}

// has reports whether a witness or enough members of a group are there.
func (p *Policy) has(name string, have map[string]bool) bool {
	g, ok := p.groups[name]
	if !ok {
		return have[name]
	}
	n := 0
	for _, m := range g.members {
		if p.has(m, have) {
			n++
		}
	}
	return n >= g.need
}

// asks says in words whom the policy asks for.
func (p *Policy) asks() string {
	if p.quorum == "" {
		return "nobody else"
	}
	var b bytes.Buffer
	p.say(&b, p.quorum)
	return b.String()
}

func (p *Policy) say(b *bytes.Buffer, name string) {
	g, ok := p.groups[name]
	if !ok {
		b.WriteString(name)
		return
	}
	fmt.Fprintf(b, "%d of (", g.need)
	for i, m := range g.members {
		if i > 0 {
			b.WriteString(", ")
		}
		p.say(b, m)
	}
	b.WriteString(")")
}

func (p *Policy) origins() string {
	var all []string
	for _, l := range p.Logs {
		if !slices.Contains(all, l.Origin) {
			all = append(all, l.Origin)
		}
	}
	if len(all) == 0 {
		return "no journal"
	}
	const most = 8
	if n := len(all); n > most {
		all = append(all[:most], fmt.Sprintf("%d more", n-most))
	}
	return strings.Join(all, ", ")
}
