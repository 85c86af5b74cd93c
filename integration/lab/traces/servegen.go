package traces

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"souk/cmd/replay"
)

const (
	ratesEnd   = "-trace.csv"
	lengthsEnd = "-dataset.json"
	window     = 600.0  // seconds between two rates
	mostDrawn  = 50_000 // requests that are drawn; a client of a week has millions
)

// lengths holds the token counts of prompts and of answers by window. These windows are longer than those of
// rates.
type lengths map[int][2]sizes

// at returns the latest lengths known at a second.
func (l lengths) at(second int) (both [2]sizes, known bool) {
	latest := -1
	for from := range l {
		if from <= second {
			latest = max(latest, from)
		}
	}
	both, known = l[latest]
	return both, known
}

// sizes are numbers of tokens, ascending, and the share of requests that have no more.
type sizes struct {
	tokens []int
	upTo   []float64
}

func (s sizes) at(u float64) int {
	i, _ := slices.BinarySearch(s.upTo, u)
	return s.tokens[min(i, len(s.tokens)-1)]
}

// draw makes requests from the rates of a client and from the lengths beside them, as ServeGen's own
// construct.generate_workload does: as many in a window as its rate says, apart by its distribution and
// scaled to the window, each with the lengths of one and the same quantile. No more than most are drawn.
func (t *Trace) draw(lines *replay.Lines, of lengths, most int, seed uint64) error {
	t.Timed, t.Drawn = true, true
	random := rand.New(rand.NewPCG(seed, 0x73657276))
	last := -window
	return t.each(lines, func(line []byte) error {
		cells, err := fields(line)
		if err != nil {
			return err
		}
		if len(cells) != 6 {
			return fmt.Errorf("%d columns; a window has its second, rate, variation, distribution and two "+
				"parameters", len(cells))
		}
		var x [6]float64
		for i := range x {
			if i == 3 || cells[3] == "" && i > 0 {
				continue
			}
			x[i], err = strconv.ParseFloat(cells[i], 64)
			if err != nil || math.IsNaN(x[i]) || math.IsInf(x[i], 0) {
				return fmt.Errorf("column %d: %.40q is no number", i+1, cells[i])
			}
		}
		n := math.Ceil(x[1] * window)
		both, known := of.at(int(max(-1, min(x[0], maxMS))))
		gap, err := apart(cells[3], x[4], x[5], random)
		switch why := when(1000*x[0], 1000*last); {
		case err != nil:
			return err
		case why != "":
			t.leave(why, lines.Number)
		case gap == nil || x[1] == 0: // nobody asked
			last = x[0]
		case !known:
			t.leave("a window of which no lengths are known", lines.Number)
		case !(x[1] > 0 && n <= MaxRows):
			t.leave("a rate below 0, or of more requests than can be played", lines.Number)
		case len(t.Chains) >= most:
			t.leave(fmt.Sprintf("windows after %d requests were drawn", most), lines.Number)
		default:
			last = x[0]
			t.window(1000*x[0], int(n), most, gap, both, random)
		}
		return nil
	})
}

// window draws the requests of one, of n the first that are not too many.
func (t *Trace) window(ms float64, n, most int, gap func() float64, of [2]sizes, random *rand.Rand) {
	gaps, sum := make([]float64, min(n, most)), 0.0
	for i := range gaps {
		gaps[i] = gap()
		sum += gaps[i]
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return
	}
	for _, g := range gaps {
		ms += g / sum * 1000 * window * float64(len(gaps)) / float64(n)
		u := random.Float64()
		t.alone(ms, of[0].at(u), of[1].at(u))
	}
}

// apart draws times between requests; nil: there were none.
func apart(name string, shape, scale float64, random *rand.Rand) (func() float64, error) {
	// beyond which a distribution is no more than one gap that is longer than the window
	const least, most = 1e-2, 1e6
	if name != "" && !(shape >= least && shape <= most && scale > 0 && scale <= most) {
		return nil, fmt.Errorf("%s of shape %v and scale %v: a shape is from %g to %g, a scale above 0 and up "+
			"to that", name, shape, scale, least, most)
	}
	switch name {
	case "":
		return nil, nil
	case "Gamma":
		return distuv.Gamma{Alpha: shape, Beta: 1 / scale, Src: random}.Rand, nil
	case "Weibull":
		return distuv.Weibull{K: shape, Lambda: scale, Src: random}.Rand, nil
	}
	return nil, fmt.Errorf("distribution %.40q is neither Gamma nor Weibull", name)
}

// lengthsBeside reads the lengths of the client whose rates a file has.
func lengthsBeside(file string) (lengths, error) {
	base := strings.TrimSuffix(strings.TrimSuffix(file, ".gz"), ratesEnd) + lengthsEnd
	for _, path := range []string{base, base + ".gz"} {
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		of, err := readLengths(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return of, nil
	}
	return nil, fmt.Errorf("the lengths of its requests are read from %s, and there is no such file", base)
}

// readLengths reads an object of windows, in each of which the chances of lengths stand as a dictionary of
// Python.
func readLengths(r io.Reader) (lengths, error) {
	lines, err := replay.NewLines(r)
	if err != nil {
		return nil, err
	}
	var text []byte
	for {
		line, err := lines.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if text = append(append(text, line...), '\n'); len(text) > 64<<20 {
			return nil, fmt.Errorf("line %d: more than 64 MB", lines.Number)
		}
	}
	var in map[string]map[string]string
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	of := lengths{}
	for at, fields := range in {
		second, err := strconv.Atoi(at)
		if err != nil {
			return nil, fmt.Errorf("window %.40q is no number of seconds", at)
		}
		var both [2]sizes
		for i, name := range []string{"input_tokens", "output_tokens"} {
			if both[i], err = readSizes(fields[name]); err != nil {
				return nil, fmt.Errorf("window %d: %s: %w", second, name, err)
			}
		}
		if len(both[0].tokens) > 0 && len(both[1].tokens) > 0 {
			of[second] = both
		}
	}
	return of, nil
}

// readSizes reads {757: 0.0025, 758: 0.013}.
func readSizes(text string) (s sizes, err error) {
	text = strings.TrimSpace(text)
	inner, ok := strings.CutPrefix(text, "{")
	inner, end := strings.CutSuffix(inner, "}")
	if !ok || !end {
		return s, fmt.Errorf("%.40q is no dictionary of chances", text)
	}
	chance := map[int]float64{}
	sum := 0.0
	for pair := range strings.SplitSeq(inner, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, ":")
		tokens, err := strconv.Atoi(strings.TrimSpace(key))
		p, bad := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || bad != nil || tokens < 0 || tokens > MaxTokens || !(p >= 0 && p <= 1) {
			return s, fmt.Errorf("%.40q: a number of tokens up to %d, and its chance", pair, MaxTokens)
		}
		chance[max(1, tokens)] += p
		sum += p
		s.tokens = append(s.tokens, max(1, tokens))
	}
	slices.Sort(s.tokens)
	s.tokens = slices.Compact(s.tokens)
	if len(s.tokens) > 0 && !(sum > 0) {
		return sizes{}, errors.New("no length has a chance")
	}
	upTo := 0.0
	for _, n := range s.tokens {
		upTo += chance[n] / sum
		s.upTo = append(s.upTo, upTo)
	}
	return s, nil
}
