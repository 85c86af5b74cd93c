package market

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// MaxCredits bounds every single amount, in both signs: a thousand million credits. Sums of nine such
// amounts still fit an int64.
const MaxCredits Credits = 1_000_000_000 * Credit

// ErrAmount marks an amount that is not money: NaN, infinite, finer than a nano-credit, or beyond
// [MaxCredits].
var ErrAmount = errors.New("bad amount")

// Quantise turns a float of whole credits into Credits, rounding half away from zero. It is the only
// way from floats to money. NaN, infinities and amounts beyond [MaxCredits] are ErrAmount.
func Quantise(credits float64) (Credits, error) {
	nano := credits * float64(Credit)
	if math.IsNaN(nano) || math.Abs(nano) > float64(MaxCredits) {
		return 0, fmt.Errorf("%w: %v credits; want a number within %s", ErrAmount, credits, MaxCredits)
	}
	return Credits(math.Round(nano)), nil
}

// Times is so many times an amount, at most [MaxWorth].
func (c Credits) Times(by float64) Credits {
	x, err := Quantise(float64(c) / float64(Credit) * by)
	if err != nil {
		return MaxWorth
	}
	return min(x, MaxWorth)
}

// ParseCredits reads whole credits as a decimal, exactly: "12", "0.0025", "-1", "2.5e-05". At most nine
// digits may follow the point after the exponent is applied; nothing is rounded.
func ParseCredits(s string) (Credits, error) {
	bad := func(why string) (Credits, error) {
		if len(s) > 40 {
			s = s[:40] + "..."
		}
		return 0, fmt.Errorf("%w: %q: %s", ErrAmount, s, why)
	}
	if len(s) > 64 {
		return bad("too long for an amount")
	}
	body, negative := s, false
	if rest, ok := strings.CutPrefix(body, "-"); ok {
		body, negative = rest, true
	}
	var power string
	i := strings.IndexAny(body, "eE")
	if i >= 0 {
		body, power = body[:i], body[i+1:]
	}
	whole, fraction, point := strings.Cut(body, ".")
	if whole == "" || point && fraction == "" {
		return bad("want a decimal like 0.0025")
	}
	digits := whole + fraction
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return bad("want a decimal like 0.0025")
		}
	}
	exponent := 0
	if i >= 0 {
		e, err := strconv.Atoi(power)
		if err != nil || e < -64 || e > 64 {
			return bad("the exponent is no number from -64 to 64")
		}
		exponent = e
	}
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return 0, nil
	}
	// The amount is digits x 10^shift nano-credits.
	shift := 9 + exponent - len(fraction)
	if shift < 0 {
		cut := len(digits) + shift
		if cut < 0 || strings.Trim(digits[cut:], "0") != "" {
			return bad("finer than a nano-credit (nine decimals)")
		}
		digits = digits[:cut]
	} else {
		if len(digits)+shift > 19 {
			return bad("beyond " + MaxCredits.String() + " credits")
		}
		digits += strings.Repeat("0", shift)
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n > uint64(MaxCredits) {
		return bad("beyond " + MaxCredits.String() + " credits")
	}
	if negative {
		return -Credits(n), nil
	}
	return Credits(n), nil
}

// String gives whole credits as the shortest exact decimal: "0.0025".
func (c Credits) String() string { return string(c.append(make([]byte, 0, 24))) }

func (c Credits) append(b []byte) []byte {
	n := uint64(c)
	if c < 0 {
		b = append(b, '-')
		n = -n
	}
	b = strconv.AppendUint(b, n/uint64(Credit), 10)
	if frac := n % uint64(Credit); frac != 0 {
		s := strconv.FormatUint(uint64(Credit)+frac, 10)[1:]
		b = append(b, '.')
		b = append(b, strings.TrimRight(s, "0")...)
	}
	return b
}

// MarshalJSON writes whole credits as an exact JSON number.
func (c Credits) MarshalJSON() ([]byte, error) { return c.append(make([]byte, 0, 24)), nil }

// UnmarshalJSON reads whole credits from a JSON number or string, exactly; see [ParseCredits].
func (c *Credits) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	return c.UnmarshalYAML(data)
}

// MarshalYAML writes whole credits as an exact decimal.
func (c Credits) MarshalYAML() ([]byte, error) { return c.MarshalJSON() }

// UnmarshalYAML reads whole credits, exactly; see [ParseCredits].
func (c *Credits) UnmarshalYAML(data []byte) error {
	s := strings.TrimSpace(string(data))
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		s = s[1 : len(s)-1]
	}
	v, err := ParseCredits(s)
	if err == nil {
		*c = v
	}
	return err
}

// Add gives c + d, or false where the sum leaves int64.
func (c Credits) Add(d Credits) (Credits, bool) {
	s := c + d
	return s, (s > c) == (d > 0)
}

// Mul gives c * n, or false where the product leaves int64.
func (c Credits) Mul(n int64) (Credits, bool) {
	hi, lo := bits.Mul64(magnitude(int64(c)), magnitude(n))
	negative := (c < 0) != (n < 0)
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	if hi != 0 || lo > limit {
		return 0, false
	}
	if negative {
		return Credits(-lo), true
	}
	return Credits(lo), true
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}
