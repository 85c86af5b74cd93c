package market

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/vmihailenco/msgpack/v5"
)

func TestCreditsAsText(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Credits
		out  string // "" : same as in
	}{
		{"0", 0, ""},
		{"0.0025", 2_500_000, ""},
		{"-0.0025", -2_500_000, ""},
		{"12", 12 * Credit, ""},
		{"0.000000001", 1, ""},
		{"2.5e-05", 25_000, "0.000025"},
		{"1E3", 1000 * Credit, "1000"},
		{"1.50", Credit + Credit/2, "1.5"},
		{"0.1000000000000", Credit / 10, "0.1"},
		{"1000000000", MaxCredits, ""},
		{"-0", 0, "0"},
		{"0e64", 0, "0"},
	} {
		got, err := ParseCredits(c.in)
		if err != nil || got != c.want {
			t.Errorf("ParseCredits(%q) = %d, %v; want %d", c.in, int64(got), err, int64(c.want))
		}
		if c.out == "" {
			c.out = c.in
		}
		if got.String() != c.out {
			t.Errorf("(%d).String() = %q, want %q", int64(got), got.String(), c.out)
		}
	}
	for _, bad := range []string{"", "-", ".5", "5.", "1,5", "1e", "1e65", "0.0000000001",
		"1000000000.000000001", "1e20", "NaN", "Inf", "0x10",
		"--1", "+1", " 1", "0.30000000000000004",
		"99999999999999999999999999999999999999999999999999999999999999999999999"} {
		if got, err := ParseCredits(bad); !errors.Is(err, ErrAmount) {
			t.Errorf("ParseCredits(%q) = %d, %v; want ErrAmount", bad, int64(got), err)
		}
	}
	if _, err := ParseCredits("true"); !strings.Contains(err.Error(), "decimal") { // its e is no exponent
		t.Error(err)
	}
	if got := Credits(math.MinInt64).String(); got != "-9223372036.854775808" {
		t.Errorf("least Credits = %s", got)
	}
}

func TestCreditsInJSONAndYAML(t *testing.T) {
	type terms struct {
		Worth Credits  `json:"worth" yaml:"worth"`
		Max   *Credits `json:"max,omitempty" yaml:"max,omitempty"`
	}
	var a, b terms
	if err := json.Unmarshal([]byte(`{"worth": 0.0025, "max": "1e-2"}`), &a); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalWithOptions([]byte("worth: 0.0025\nmax: \"0.01\"\n"), &b,
		yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if a.Worth != 2_500_000 || *a.Max != Credit/100 || b.Worth != a.Worth || *b.Max != *a.Max {
		t.Errorf("json %v %v, yaml %v %v", a.Worth, *a.Max, b.Worth, *b.Max)
	}
	j, err := json.Marshal(a)
	if err != nil || string(j) != `{"worth":0.0025,"max":0.01}` {
		t.Errorf("json = %s, %v", j, err)
	}
	y, err := yaml.Marshal(b)
	if err != nil || string(y) != "worth: 0.0025\nmax: 0.01\n" {
		t.Errorf("yaml = %q, %v", y, err)
	}
	for _, bad := range []string{`{"worth": true}`, `{"worth": "x"}`, `{"worth": 1e300}`, `{"worth": {}}`} {
		if err := json.Unmarshal([]byte(bad), &a); !errors.Is(err, ErrAmount) {
			t.Errorf("%s: %v, want ErrAmount", bad, err)
		}
	}
	if err := yaml.Unmarshal([]byte("worth: [1]"), &b); err == nil {
		t.Error("yaml took a list for an amount")
	}
}

// On the wire inside the market an amount is the integer of nano-credits.
func TestCreditsInMsgpack(t *testing.T) {
	data, err := msgpack.Marshal(Price{Miss: 1, Hit: 2, Out: -3})
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]int64
	if err := msgpack.Unmarshal(data, &raw); err != nil || raw["miss"] != 1 || raw["out"] != -3 {
		t.Errorf("%v, %v", raw, err)
	}
}

func TestQuantise(t *testing.T) {
	if c, err := Quantise(0.0025); err != nil || c != 2_500_000 {
		t.Errorf("%v, %v", c, err)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1.1e9, -1e300} {
		if c, err := Quantise(bad); !errors.Is(err, ErrAmount) {
			t.Errorf("Quantise(%v) = %v, %v; want ErrAmount", bad, c, err)
		}
	}
}

func TestCheckedArithmetic(t *testing.T) {
	const most, least = Credits(math.MaxInt64), Credits(math.MinInt64)
	for _, c := range []struct {
		what string
		got  Credits
		ok   bool
		want Credits
		fits bool
	}{
		pair("1+2", Credits.Add, 1, 2, 3, true),
		pair("1+0", Credits.Add, 1, 0, 1, true),
		pair("most+1", Credits.Add, most, 1, 0, false),
		pair("least+-1", Credits.Add, least, -1, 0, false),
		pair("most+least", Credits.Add, most, least, -1, true),
		pair("3*-4", mul, 3, -4, -12, true),
		pair("least*1", mul, least, 1, least, true),
		pair("least*-1", mul, least, -1, 0, false),
		pair("most*2", mul, most, 2, 0, false),
		pair("2^32*2^32", mul, 1<<32, 1<<32, 0, false),
	} {
		if c.ok != c.fits || c.ok && c.got != c.want {
			t.Errorf("%s = %d, %v; want %d, %v", c.what, int64(c.got), c.ok, int64(c.want), c.fits)
		}
	}
}

func mul(a, b Credits) (Credits, bool) { return a.Mul(int64(b)) }

func pair(what string, op func(a, b Credits) (Credits, bool), a, b, want Credits, fits bool) (c struct {
	what string
	got  Credits
	ok   bool
	want Credits
	fits bool
}) {
	c.what, c.want, c.fits = what, want, fits
	c.got, c.ok = op(a, b)
	return c
}

func FuzzParseCredits(f *testing.F) {
	for _, s := range []string{"0.0025", "1e-9", "-1000000000", "00.10", "1e18", "9e-64"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCredits(s)
		if err != nil {
			return
		}
		if c > MaxCredits || c < -MaxCredits {
			t.Fatalf("%q = %d, beyond the limit", s, int64(c))
		}
		if again, err := ParseCredits(c.String()); err != nil || again != c {
			t.Fatalf("%q = %s, read again as %s, %v", s, c, again, err)
		}
	})
}
