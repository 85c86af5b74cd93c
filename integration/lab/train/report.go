package train

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"souk/classifier/model"
)

// Both are the names that a model gave rows: once with all its labels, and once with some labels counted as
// others.
type Both struct{ All, Merged []Judged }

func (b *Both) add(c Both) {
	b.All = append(b.All, c.All...)
	b.Merged = append(b.Merged, c.Merged...)
}

func judgeBoth(m *model.Model, rows []Row, rename map[string]string) Both {
	return Both{Judge(m, rows, nil), Judge(m, rows, rename)}
}

// Figures say how good the training is. Nothing here was measured on rows that the judged model had learned
// from.
type Figures struct {
	Rows        int
	Rename      map[string]string
	Temperature float64
	Held        Both      // the held-out part, by the model
	Folds       Both      // the training part, each row by a model that left its fold out
	Chat        Both      // the held-out part of the chat-shaped rows, by the model
	LeftOut     []LeftOut // each source by a model that saw no row of it
}

// LeftOut is one source, judged by a model that learned from the other sources alone.
type LeftOut struct {
	Source string
	Judged Both // rows whose label some other source has too
	Alone  int  // rows whose label no other source has: nothing could name them
}

// Measure trains on the training part of both sets of rows, judges the rest, and returns the weights file.
func Measure(rows, chat []Row, rename map[string]string, p Params) ([]byte, *Figures, error) {
	training, test := Split(rows)
	chatTraining, chatTest := Split(chat)
	all := slices.Concat(training, chatTraining)
	weights, err := Train(all, p)
	if err != nil {
		return nil, nil, err
	}
	m, err := model.Decode(weights)
	if err != nil {
		return nil, nil, err
	}
	f := &Figures{Rows: len(all), Rename: rename, Temperature: m.Temperature,
		Held: judgeBoth(m, test, rename), Chat: judgeBoth(m, chatTest, rename)}
	for fold := range Folds {
		_, rest := part(all, inFold(fold))
		out, _ := part(training, inFold(fold))
		b, err := predict(rest, out, rename, m.Temperature, p)
		if err != nil {
			return nil, nil, err
		}
		f.Folds.add(b)
	}
	for _, source := range distinct(rows, func(r Row) string { return r.Source }) {
		left, err := leaveOut(slices.Concat(rows, chat), rows, source, rename, m.Temperature, p)
		if err != nil {
			return nil, nil, err
		}
		f.LeftOut = append(f.LeftOut, left)
	}
	return weights, f, nil
}

// leaveOut trains without a source and judges it.
func leaveOut(all, rows []Row, source string, rename map[string]string, temperature float64,
	p Params) (LeftOut, error) {
	ofSource := func(r Row) bool { return r.Source == source }
	_, rest := part(all, ofSource)
	its, _ := part(rows, ofSource)
	labels := LabelsOf(rest)
	out, alone := part(its, func(r Row) bool { return slices.Contains(labels, r.Domain) })
	left := LeftOut{Source: source, Alone: len(alone)}
	if len(labels) < 2 {
		return left, nil // a single source: nothing is left to learn from
	}
	var err error
	left.Judged, err = predict(rest, out, rename, temperature, p)
	return left, err
}

// predict trains on some rows and judges others, with the temperature of the whole model.
func predict(training, rows []Row, rename map[string]string, temperature float64, p Params) (Both, error) {
	labels := LabelsOf(training)
	w := Fit(Samples(training, labels), len(labels), p)
	weights, err := w.Encode(labels, temperature)
	if err != nil {
		return Both{}, err
	}
	m, err := model.Decode(weights)
	if err != nil {
		return Both{}, err
	}
	return judgeBoth(m, rows, rename), nil
}

// Write prints the figures as the data statement's second half.
func (f *Figures) Write(out io.Writer) {
	line := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	pair := func(name string, b Both) {
		all, merged := Tally(b.All), Tally(b.Merged)
		line("| %s | %d | %.3f | %.3f | %.3f | %.3f |", name, all.Rows(), merged.Accuracy(), merged.MacroF1(),
			all.Accuracy(), all.MacroF1())
	}
	var counted []string
	for from, to := range f.Rename {
		counted = append(counted, fmt.Sprintf("`%s` as `%s`", from, to))
	}
	slices.Sort(counted)
	line("Learned from %d rows; %d rows of the domain prompts and %d chat-shaped ones are held out. "+
		"*Merged* counts\n%s.\n",
		f.Rows, len(f.Held.All), len(f.Chat.All), strings.Join(counted, " and "))
	line("| judged on | rows | merged accuracy | merged macro-F1 | accuracy, all labels | macro-F1, all " +
		"labels |")
	line("|---|---|---|---|---|---|")
	pair("held-out domain prompts", f.Held)
	pair(fmt.Sprintf("training part, %d-fold", Folds), f.Folds)
	pair("held-out chat-shaped rows", f.Chat)
	line("\nOne source left out of training altogether, and judged. A label that no other source has " +
		"cannot be found; such\nrows are counted in the last column only.\n")
	line("| source left out | rows | merged accuracy | accuracy | named general | rows without a label " +
		"elsewhere |")
	line("|---|---|---|---|---|---|")
	for _, l := range f.LeftOut {
		general := 0
		for _, j := range l.Judged.Merged {
			if j.Named == "general" {
				general++
			}
		}
		n := len(l.Judged.All)
		line("| %s | %d | %.3f | %.3f | %.3f | %d |", l.Source, n, Tally(l.Judged.Merged).Accuracy(),
			Tally(l.Judged.All).Accuracy(), float64(general)/float64(max(1, n)), l.Alone)
	}
	line("\nHeld-out domain prompts, merged:\n\n%s\n", Tally(f.Held.Merged).Markdown())
	line("All labels:\n\n%s\n", Tally(f.Held.All).Markdown())
	line("Is the confidence true? Temperature %.2f; names given to held-out domain prompts, merged:\n",
		f.Temperature)
	line("| confidence | rows | mean confidence | right |")
	line("|---|---|---|---|")
	for _, b := range Calibration(f.Held.Merged) {
		if b.Rows > 0 {
			line("| %.1f to %.1f | %d | %.2f | %.2f |", b.From, b.To, b.Rows, b.Mean,
				float64(b.Right)/float64(b.Rows))
		}
	}
}
