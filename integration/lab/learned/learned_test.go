package learned

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// toy is a set of questions of two kinds, of which each is answered well by one model, and a third is
// right half the time; sums of such questions' sketches say which kind they are of.
func toy(n int) *Data {
	random := rand.New(rand.NewPCG(5, 6))
	kinds := []Question{Named("fruit"), Named("metal")}
	d := &Data{Cards: map[string]Card{"a": {Size: 7, In: 1, Out: 1}}}
	for _, g := range Groups {
		for _, name := range g.Sets {
			set := &Set{Name: name, Models: []string{"a", "b", "c"}}
			for i := range n {
				k := i % 2
				r := Row{Question: kinds[k], ID: ID(fmt.Sprint(name, i)), Task: []string{"fruit", "metal"}[k]}
				for d := range r.Sketch {
					r.Sketch[d] += int8(random.IntN(21) - 10)
				}
				r.Fold = FoldOf(r.ID)
				r.Scores = []float64{float64(k), float64(1 - k), float64(random.IntN(2))}
				set.Rows = append(set.Rows, r)
			}
			d.Sets = append(d.Sets, set)
		}
	}
	return d
}

// Routers that learn beside one another learn what each would alone.
func TestRoutersLearnBesideOthers(t *testing.T) {
	data := toy(6)
	side, err := Train(data, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if alone, err := Train(data, 3); err != nil || !bytes.Equal(side, alone) {
		t.Errorf("%d bytes side by side, %d alone: they differ: %v", len(side), len(alone), err)
	}
}

// Every router comes to choose the model that answers a question's kind, and the same seed gives the same
// bytes.
func TestRoutersLearn(t *testing.T) {
	data := toy(100)
	file, err := Train(data, 3)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := data.Join(&Groups[1])
	if err != nil {
		t.Fatal(err)
	}
	var made [3]weights
	for i, seed := range []uint64{3, 3, 4} {
		if made[i], err = kinds[0].learn(set, data.Cards, 0, seed); err != nil {
			t.Fatal(err)
		}
	}
	if w := "models"; !slices.Equal(made[0][w].V, made[1][w].V) || slices.Equal(made[0][w].V, made[2][w].V) {
		t.Error("the same seed gave other weights, or another the same")
	}
	routers, err := Decode(file, "names")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := Judge(data, data.Set("routerarena"), routers, 1)
	if err != nil {
		t.Fatal(err)
	}
	learn := 0
	for _, l := range lines {
		switch {
		case l.Router:
			if learn++; l.Quality < 0.95 || l.More < 0.3 || l.MoreLow > l.More || l.MoreHigh < l.More {
				t.Errorf("%+v", l)
			}
		case l.Who == "oracle" && l.Quality != 1, l.Who == "best single model" && (l.Quality > 0.7 ||
			l.More != 0),
			l.Who == "best of each task, told it" && l.Quality != 1, l.Low > l.Quality, l.High < l.Quality:
			t.Errorf("%+v", l)
		}
	}
	if learn != 4 {
		t.Errorf("%d routers of 4", learn)
	}
	routers[0].Models = []string{"a", "b", "else"}
	if _, err := Judge(data, data.Set("routerarena"), routers, 1); err == nil ||
		!strings.Contains(err.Error(), "nothing of c") {
		t.Errorf("a model that it learned nothing of: %v", err)
	}
}

// No router learns from a question of the part that it answers.
func TestNobodyLearnsWhatItAnswers(t *testing.T) {
	data := toy(60)
	for fold := range Folds {
		k := kind{name: "spy", train: func(p *problem) weights {
			for _, r := range p.rows {
				if r.Fold == fold || FoldOf(r.ID) != r.Fold {
					t.Errorf("part %d learns from a question of part %d", fold, r.Fold)
				}
			}
			if len(p.rows) < 30 {
				t.Errorf("part %d learns from %d questions", fold, len(p.rows))
			}
			return nil
		}}
		if _, err := k.learn(data.Sets[0], data.Cards, fold, 1); err != nil {
			t.Error(err)
		}
	}
	one := &Set{Name: "one", Models: []string{"a", "b"}, Rows: data.Sets[0].Rows[:1]}
	if _, err := kinds[0].learn(one, nil, one.Rows[0].Fold, 1); err == nil {
		t.Error("it learns from nothing")
	}
}

// The weights beside the code are what is learned from the rows beside it.
func TestTheShippedWeightsCanBeMadeAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	if runtime.GOARCH != "amd64" {
		t.Skipf("floating point differs in last bits on %s; the weights were made on amd64", runtime.GOARCH)
	}
	data, err := Recorded()
	if err != nil {
		t.Fatal(err)
	}
	_, shipped, err := decode(packedRouters)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range Groups {
		set, _, err := data.Join(&g)
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range kinds {
			if fold := i; g.Name == "names" || k.name == "mf" {
				w, err := k.learn(set, data.Cards, fold, 1)
				if err != nil {
					t.Fatal(err)
				}
				for _, need := range k.needs {
					name := tensorName(g.Name, k.name, fold, need)
					made := asBytes(name, w[need])
					if s := shipped[name]; s == nil || s.step != made.step || !slices.Equal(s.bytes,
						made.bytes) {
						t.Errorf("%s is not what is shipped: run `lab learn` and commit what it writes", name)
					}
				}
			}
		}
	}
}

// With every group of the shipped rows come four routers, of the models of its sets.
func TestShippedRouters(t *testing.T) {
	data, err := Recorded()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range Groups {
		all, err := Routers(g.Name)
		if err != nil || len(all) != len(Names()) {
			t.Fatalf("%d routers, %v", len(all), err)
		}
		set, _, err := data.Join(&g)
		if err != nil || !slices.Equal(set.Models, all[0].Models) {
			t.Errorf("weights of %v, rows of %v, %v", all[0].Models, set.Models, err)
		}
	}
	if n := WeightBytes(); n > 1<<20 {
		t.Errorf("%d bytes of weights", n)
	}
}

// Whatever is cut off a weights file or changed in it, it is refused.
func TestForeignWeights(t *testing.T) {
	for n := 0; n < len(packedRouters); n += 1 + n/3 {
		if _, err := Decode(packedRouters[:n], "texts"); err == nil || !strings.HasPrefix(err.Error(),
			"weights: ") {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
	changed := bytes.Clone(packedRouters)
	changed[len(changed)/2] ^= 1
	sealed := func(b []byte) []byte {
		sum := crc32.ChecksumIEEE(b[:len(b)-4])
		return append(bytes.Clone(b[:len(b)-4]), byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
	}
	text, all, _ := decode(packedRouters)
	without := func(change func(name string, t *tensor) *tensor) []byte {
		var left []*tensor
		for name, t := range all {
			if t = change(name, t); t != nil {
				left = append(left, t)
			}
		}
		return encode(text, left)
	}
	one := all["texts/mf/0/out"]
	for want, data := range map[string][]byte{
		"begins otherwise": append([]byte("SOUKDOM1"), changed[8:]...),
		"cut or changed":   changed,
		"cut within":       sealed(packedRouters[:len(packedRouters)/2]),
		"texts/mf/0/out is missing": without(func(name string, t *tensor) *tensor {
			if t == one {
				return nil
			}
			return t
		}),
		"out of router mf has 1 by 31": without(func(name string, t *tensor) *tensor {
			if t == one {
				return &tensor{name: name, r: 1, c: 31, step: t.step, bytes: t.bytes[:31]}
			}
			return t
		}),
		"there twice":    encode(text, []*tensor{one, one}),
		"no group texts": encode("names a b\n", nil),
		"are not there": encode(text, []*tensor{{name: "x", r: 1, c: 1, step: float32(math.NaN()),
			bytes: []int8{1}}}),
		"of no encoder": packedRouters,
	} {
		_, err := Decode(data, "texts")
		if want == "of no encoder" {
			_, err = DecodeEncoder(data)
		}
		if want == "cut within" && err != nil && strings.Contains(err.Error(), "are not there") {
			continue // within numbers, as it happens
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := DecodeEncoder(packedEncoder[:1000]); err == nil {
		t.Error("half an encoder was taken")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(Magic))
	f.Add(encode("texts a b\n", []*tensor{{name: "x", r: 1, c: 2, step: 1, bytes: []int8{1, 2}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4 { // behind a checksum that is right
			data = append(bytes.Clone(data), 0, 0, 0, 0)
			sum := crc32.ChecksumIEEE(data[:len(data)-4])
			copy(data[len(data)-4:], []byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)})
		}
		if all, err := Decode(data, "texts"); err == nil && len(all) != len(kinds) {
			t.Errorf("%d routers", len(all))
		}
	})
}

const rowsOf = "set s a b\n00000000000000ff math %s 1 0.5\n"

var someSketch = strings.Repeat("A", 84) + "Ag"

// Rows that are there twice, or say nothing, are left out and counted, as are missing scores; whatever is
// wrong is said with its line.
func TestReadData(t *testing.T) {
	text := "card a 7 0.1 0.2\n" + fmt.Sprintf(rowsOf,
		someSketch) + fmt.Sprintf("00000000000000ff math %s 0 0\n", someSketch) +
		fmt.Sprintf("0a x %s - 1\n\n0b x %[1]s - -\n", someSketch)
	d, err := ReadData(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	s := d.Set("s")
	if len(s.Rows) != 2 || s.Doubled != 1 || s.Empty != 1 || s.Missing != 1 || s.Rows[0].Scores[0] != 1 ||
		!math.IsNaN(s.Rows[1].Scores[0]) || d.Cards["a"] != (Card{7, 0.1, 0.2}) {
		t.Errorf("%+v, %+v", s, d.Cards)
	}
	var out strings.Builder
	if err := s.Write(&out); err != nil {
		t.Fatal(err)
	}
	if again, err := ReadData(strings.NewReader(out.String())); err != nil ||
		fmt.Sprint(again.Sets[0].Rows) != fmt.Sprint(s.Rows) {
		t.Errorf("written and read: %v, %v", again, err)
	}
	for text, want := range map[string]string{
		"":                              "no set",
		"00 x y 1":                      "line 1: it is of no set",
		"set s a":                       "line 1: a set has",
		"set s a b\nset s a b":          "line 2: there are two sets s",
		"card a 7 x 1":                  "line 1: a card",
		"card a -7 1 1":                 "line 1: a card",
		"set s a b\n00 x " + someSketch: "line 2: 3 words, where set s has 5",
		"set s a b\nxy x AAAA 1 1":      "line 2",
		"set s a b\n00 x AAAA 1 1":      "no sketch of 64 bytes",
		fmt.Sprintf(rowsOf, "*"):        "no sketch",
		fmt.Sprintf(rowsOf, someSketch) + fmt.Sprintf("01 x %s 1 1.5",
			someSketch): "line 3: \"1.5\" is no score",
		fmt.Sprintf(rowsOf, someSketch) + fmt.Sprintf("01 x %s 1 NaN", someSketch): "line 3",
	} {
		if _, err := ReadData(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, _, err := d.Join(&Group{"g", []string{"s", "none"}}); err == nil {
		t.Error("a set that is not there was joined")
	}
}

func FuzzReadData(f *testing.F) {
	f.Add(fmt.Sprintf(rowsOf, someSketch))
	f.Add("card a 1 1 1\nset s a b\n")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ReadData(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, s := range d.Sets {
			for _, r := range s.Rows {
				if len(r.Scores) != len(s.Models) || r.Fold < 0 || r.Fold >= Folds {
					t.Errorf("%+v", r)
				}
			}
		}
	})
}

// Sets that share a question are joined there; a score that both have is their mean.
func TestJoin(t *testing.T) {
	nan := math.NaN()
	d := &Data{Sets: []*Set{
		{Name: "one", Models: []string{"a", "b"}, Rows: []Row{{ID: 1, Scores: []float64{1, nan}}, {ID: 2,
			Scores: []float64{0, 1}}}},
		{Name: "two", Models: []string{"b", "c"}, Rows: []Row{{ID: 2, Scores: []float64{0, 0.5}}, {ID: 3,
			Scores: []float64{1, nan}}}},
	}}
	all, both, err := d.Join(&Group{"g", []string{"one", "two"}})
	if err != nil || both != 1 || !slices.Equal(all.Models, []string{"a", "b", "c"}) {
		t.Fatalf("%+v, %d, %v", all, both, err)
	}
	if got := fmt.Sprint(all.Rows[0].Scores, all.Rows[1].Scores,
		all.Rows[2].Scores); got != "[1 NaN NaN] [0 0.5 0.5] [NaN 1 NaN]" {
		t.Error(got)
	}
	if s := d.Sets[0]; len(s.Rows[1].Scores) != 2 || s.Rows[1].Scores[1] != 1 ||
		s.Best(func(*Row) bool { return true }) != 0 {
		t.Errorf("joining changed a set: %+v", s)
	}
}

// Texts that are alike have sketches that are alike; one without a word has none.
func TestSketches(t *testing.T) {
	e := Reader()
	like := func(a, b string) (sum int) {
		x, y := e.Read(a), e.Read(b)
		for d := range x.Sketch {
			sum += int(x.Sketch[d]) * int(y.Sketch[d])
		}
		return sum
	}
	sum, code := "If Tom has 3 apples and buys 4 more, how many apples does he have?",
		"Write a python function to sort a list of numbers."
	if near, far := like(sum, "Ann has 12 pears and sells 5. How many pears are left?"), like(sum,
		code); near <= far {
		t.Errorf("two sums are alike by %d, a sum and a program by %d", near, far)
	}
	if q := e.Read(" \n"); q.Sketch != [Size]int8{} {
		t.Errorf("the sketch of nothing: %v", q.Sketch)
	}
	if a, b := e.Read(sum), e.Read(" "+sum+"\n"); a.Fold != b.Fold {
		t.Error("white space around a question puts it into another part")
	}
	if a, b, c := Named("x_one"), Named("x_two"), Named("y_one"); a == b || a == c {
		t.Error("names have one sketch")
	}
	parts := make([]int, Folds)
	for i := range 5000 {
		parts[FoldOf(ID(fmt.Sprint(i)))]++
	}
	if slices.Min(parts) < 900 {
		t.Errorf("parts have %v of 5000", parts)
	}
}

// An encoder is found in texts alone, and survives its file.
func TestFitEncoder(t *testing.T) {
	var texts []string
	for i := range 80 {
		texts = append(texts, fmt.Sprintf("%s of %d", []string{"apples and pears", "iron and zinc"}[i%2], i))
	}
	made := FitEncoder(texts)
	read, err := DecodeEncoder(made.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if made.Read("iron of 7") != read.Read("iron of 7") || made.Read("iron of 7") == made.Read("pears of 7") {
		t.Error("sketches of an encoder that was written and read are others")
	}
}
