package bus

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"souk/market"
)

// Every field that travels is bounded, by its type or by a word in its tag `want`:
//
//	string          printable, of at most MaxName bytes; a Code of at most MaxID
//	int             0 to MaxTokens
//	int64, uint64   0 to maxCount
//	float64         0 to 1
//	market.Credits  0 to market.MaxCredits
//	list            at most maxEntries, each item as if it stood alone
//	struct          by its Validate, if it has one, else field by field
//
//	any             not judged here
//	id, id?         an id; one that may be left out
//	needed          a name that may not be left out
//	reply           what [ReplyTo] makes, or nothing
//	tags            what [Tags] makes
//	most:N          a list of at most N
//	others          see texts, ranges and choices
var (
	texts  = map[string]int{"text": MaxText, "answer": MaxAnswer} // bytes of whatever people or engines write
	ranges = map[string][2]int64{
		"ms": {0, MaxPatient}, "minute": {0, 60_000}, "us": {0, maxMicros}, "unix": {0, maxUnixMS},
		"slots": {0, MaxSlots}, "attempt": {0, 1 << 10}, "again": {0, AgainHeard}, "turn": {0, 1 << 20},
		"canonical": {0, MaxCanonical}, "messages": {0, MaxMessages}, "loose": {LooseNone, LooseMedia},
		"parts": {0, maxParts}, "ever": {0, maxCount}, "sum": {0, math.MaxInt64},
		"toll": {-maxCredits, 0}, "signed": {-maxCredits, maxCredits}, "": {0, maxCredits},
	}
	choices = map[string][]string{
		"kind": {"", KindChat, KindCompletion, KindEmbedding, KindRerank}, "failover": {"", "off"},
		"dispatch": {DispatchTask}, "outcome": {OutcomeDone, OutcomeCancelled, OutcomeFailed},
		"state": {StateReady, StateDraining, StateUnhealthy}, "evidence": {EvidenceEvents, EvidenceInferred},
		"pricing": {"", "vcg", "tariff", "posted"}, "settle": {"", market.SettleMetered, market.SettleQuoted},
		"clarke": {"", "client", "task"}, "every": {"", "day", "week", "month"},
	}
)

// rule says what is wrong with a value; a nil one takes anything.
type rule func(v reflect.Value) error

// fault is the error of one field.
type fault struct {
	field string
	err   error
}

func (f *fault) Error() string { return f.field + ": " + f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// rules has the rule of each type that has a Validate.
var rules = func() map[reflect.Type]rule {
	out := map[reflect.Type]rule{}
	for _, v := range slices.Concat(entries, messages, parts) {
		t := reflect.TypeOf(v).Elem()
		out[t] = fieldsOf(t)
	}
	return out
}()

// judge returns the first fault in the fields of what a pointer leads to.
func judge(v any) error {
	to := reflect.ValueOf(v).Elem()
	return rules[to.Type()](to)
}

// fieldsOf judges a struct field by field.
func fieldsOf(t reflect.Type) rule {
	type field struct {
		index int
		name  string
		rule  rule
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			name, _, _ = strings.Cut(f.Tag.Get("msgpack"), ",")
		}
		if name == "" || name == "-" {
			continue
		}
		if r := ruleOf(f.Type, f.Tag.Get("want")); r != nil {
			fields = append(fields, field{i, name, r})
		}
	}
	return func(v reflect.Value) error {
		for i := range fields {
			if err := fields[i].rule(v.Field(fields[i].index)); err != nil {
				return within(fields[i].name, err)
			}
		}
		return nil
	}
}

// within adds the field to an error. An error with a code is left as it is.
func within(field string, err error) error {
	switch e := err.(type) {
	case *Error:
		return e
	case *fault:
		return &fault{field + "." + e.field, e.err}
	}
	return &fault{field, err}
}

func ruleOf(t reflect.Type, want string) rule {
	switch {
	case want == "any", t.Kind() == reflect.Bool, t.Kind() == reflect.Uint32, t.Kind() == reflect.Array:
		return nil
	case t == reflect.TypeFor[market.Usage]():
		return usage(fieldsOf(t))
	case reflect.PointerTo(t).Implements(reflect.TypeFor[Message]()):
		return func(v reflect.Value) error { return v.Addr().Interface().(Message).Validate() }
	}
	switch t.Kind() {
	case reflect.Pointer:
		r := ruleOf(t.Elem(), want)
		return func(v reflect.Value) error {
			if v.IsNil() || r == nil {
				return nil
			}
			return r(v.Elem())
		}
	case reflect.Struct:
		return fieldsOf(t)
	case reflect.Slice:
		return listOf(t, want)
	case reflect.Map:
		return func(v reflect.Value) error { return amounts(v.Interface().(map[string]market.Credits)) }
	case reflect.String:
		return stringOf(t, want)
	case reflect.Float64:
		most := 1.0
		if want == "ms" {
			most = maxMicros / 1000
		}
		return func(v reflect.Value) error {
			if x := v.Float(); !(x >= 0 && x <= most) { // also refuses NaN
				return fmt.Errorf("%v is not within 0 and %v", x, most)
			}
			return nil
		}
	}
	return numberOf(t, want)
}

func numberOf(t reflect.Type, want string) rule {
	r, known := ranges[want]
	switch {
	case want != "" && !known:
		panic(fmt.Sprintf("bus: want %q of a %s", want, t))
	case want != "" || t == reflect.TypeFor[market.Credits]():
	case t.Kind() == reflect.Int:
		r = [2]int64{0, MaxTokens}
	default:
		r = ranges["ever"]
	}
	return func(v reflect.Value) error {
		n := int64(0)
		if v.CanUint() {
			n = int64(min(v.Uint(), math.MaxInt64))
		} else {
			n = v.Int()
		}
		switch {
		case n >= r[0] && n <= r[1]:
			return nil
		case t == reflect.TypeFor[market.Credits]():
			return fmt.Errorf("%s credits is not within %s and %s", market.Credits(n), market.Credits(r[0]),
				market.Credits(r[1]))
		}
		return fmt.Errorf("%d is not within %d and %d", n, r[0], r[1])
	}
}

func stringOf(t reflect.Type, want string) rule {
	most := MaxName
	if t == reflect.TypeFor[Code]() {
		most = MaxID
	}
	words, size := choices[want], texts[want]
	switch {
	case want == "id":
		return func(v reflect.Value) error { return notID(v.String()) }
	case want == "id?":
		return func(v reflect.Value) error {
			if v.Len() == 0 {
				return nil
			}
			return notID(v.String())
		}
	case want == "tags":
		return func(v reflect.Value) error { return notTags(v.String()) }
	case want == "reply":
		return func(v reflect.Value) error { return notReply(v.String()) }
	case size > 0:
		return func(v reflect.Value) error { return tooLong(v.Len(), size) }
	case words != nil:
		return func(v reflect.Value) error { return noneOf(v.String(), words) }
	case want != "" && want != "needed":
		panic(fmt.Sprintf("bus: want %q of a %s", want, t))
	}
	return func(v reflect.Value) error {
		if want == "needed" && v.Len() == 0 {
			return errors.New("it is missing")
		}
		return notName(v.String(), most)
	}
}

func listOf(t reflect.Type, want string) rule {
	if t.Elem().Kind() == reflect.Uint8 {
		if size := texts[want]; size > 0 {
			return func(v reflect.Value) error { return tooLong(v.Len(), size) }
		}
		return nil
	}
	most := maxEntries
	if n, given := strings.CutPrefix(want, "most:"); given {
		want = ""
		var err error
		if most, err = strconv.Atoi(n); err != nil {
			panic(fmt.Sprintf("bus: want %q items of a list", n))
		}
	}
	item := ruleOf(t.Elem(), want)
	return func(v reflect.Value) error {
		n := v.Len()
		if n > most {
			return fmt.Errorf("%d entries, at most %d are taken", n, most)
		}
		for i := 0; i < n && item != nil; i++ {
			if err := item(v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
}

func notID(s string) error {
	if ValidID(s) {
		return nil
	}
	return fmt.Errorf("%.80q is not an id: use 1 to %d letters, digits, '-' or '_'", s, MaxID)
}

func notReply(s string) error {
	if _, _, ok := ReaderOf(s); s != "" && !ok {
		return fmt.Errorf("%.80q is not a subject %sreply.<reader>.<token>", s, Root)
	}
	return nil
}

func tooLong(n, most int) error {
	if n > most {
		return fmt.Errorf("%d bytes, at most %d are taken", n, most)
	}
	return nil
}

// notName wants printable text of at most so many bytes.
func notName(s string, most int) error {
	if len(s) > most {
		return tooLong(len(s), most)
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= utf8.RuneSelf || c < ' ' || c == 0x7f {
			return notPrinted(s)
		}
	}
	return nil
}

func notPrinted(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%.80q is not UTF-8", s)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("%.80q holds a character that does not print", s)
		}
	}
	return nil
}

func noneOf(s string, words []string) error {
	if slices.Contains(words, s) {
		return nil
	}
	if words[0] == "" {
		return fmt.Errorf("%.40q is none of %s; it may be left out", s, strings.Join(words[1:], ", "))
	}
	return fmt.Errorf("%.40q is none of %s", s, strings.Join(words, ", "))
}

// amounts are credits by class.
func amounts(m map[string]market.Credits) error {
	if len(m) > MaxClasses {
		return fmt.Errorf("%d entries, at most %d are taken", len(m), MaxClasses)
	}
	for _, class := range slices.Sorted(maps.Keys(m)) {
		if err := notName(class, MaxName); err != nil {
			return err
		}
		if c := m[class]; c < 0 || c > market.MaxCredits {
			return fmt.Errorf("%s: %s credits is not within 0 and %s", class, c, market.MaxCredits)
		}
	}
	return nil
}

// usage has no more cached tokens than the prompt.
func usage(fields rule) rule {
	return func(v reflect.Value) error {
		u := v.Addr().Interface().(*market.Usage)
		if err := fields(v); err != nil || u.Cached <= u.Prompt {
			return err
		}
		return &fault{"cached", fmt.Errorf("%d, and the prompt has %d tokens", u.Cached, u.Prompt)}
	}
}
