package learned

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Line is how good the answers are of whoever chooses models for the questions of a set.
type Line struct {
	Who       string
	Quality   float64 // mean
	Low, High float64 // in which 95 of 100 samples of as many questions lie
	More      float64 // beside the best single model, of the same questions
	MoreLow   float64
	MoreHigh  float64
	Unseen    [3]float64 // the same, its bounds behind it, of the parts by which nothing was chosen
	Size      float64    // mean size of the models chosen, in thousands of millions of parameters; 0: unknown
	Router    bool       // it has learned
}

// Who chooses beside routers.
const (
	Single = "best single model"
	Oracle = "oracle"
)

// Samples counts how often questions are drawn anew for an interval.
const Samples = 2000

// Judge lets routers choose for each question of a set, and others beside them: the best single model and the
// best of each task, found as routers learn, from the other parts; whoever draws; and who knows all answers.
func Judge(data *Data, set *Set, routers []*Router, seed uint64) (lines []Line, err error) {
	single := make([]int, Folds)
	task := make([]map[string]int, Folds)
	for fold := range Folds {
		single[fold] = set.Best(func(r *Row) bool { return r.Fold != fold })
		task[fold] = map[string]int{}
		for i := range set.Rows {
			if name := set.Rows[i].Task; task[fold][name] == 0 {
				task[fold][name] = 1 + set.Best(func(r *Row) bool { return r.Fold != fold && r.Task == name })
			}
		}
	}
	random := rand.New(rand.NewPCG(seed, 0x6a756467))
	best := scored(set, func(r *Row) int { return single[r.Fold] })
	add := func(who string, learns bool, choose func(r *Row) int) {
		chosen := make([]int, len(set.Rows))
		for i := range chosen {
			chosen[i] = choose(&set.Rows[i])
		}
		i := -1
		got := scored(set, func(*Row) int { i++; return chosen[i] })
		line := Line{Who: who, Router: learns}
		more := make([]float64, len(got))
		for i := range got {
			more[i] = got[i] - best[i]
		}
		line.Quality, line.Low, line.High = interval(got, seed)
		line.More, line.MoreLow, line.MoreHigh = interval(more, seed)
		var unseen []float64
		for i := range more {
			if set.Rows[i].Fold >= tuned {
				unseen = append(unseen, more[i])
			}
		}
		line.Unseen[0], line.Unseen[1], line.Unseen[2] = interval(unseen, seed)
		for _, m := range chosen {
			c, ok := data.Cards[set.Models[m]]
			if !ok {
				line.Size = 0
				break
			}
			line.Size += c.Size / float64(len(chosen))
		}
		lines = append(lines, line)
	}
	add("random", false, func(*Row) int { return random.IntN(len(set.Models)) })
	add(Single, false, func(r *Row) int { return single[r.Fold] })
	for _, router := range routers {
		place := make([]int, len(set.Models))
		for m, name := range set.Models {
			if place[m] = slices.Index(router.Models, name); place[m] < 0 {
				return nil, fmt.Errorf("router %s has learned nothing of %s", router.Name, name)
			}
		}
		add(router.Name, true, func(r *Row) int {
			scores, at := router.Score(&r.Question), 0
			for m := range set.Models {
				if scores[place[m]] > scores[place[at]] {
					at = m
				}
			}
			return at
		})
	}
	add("best of each task, told it", false, func(r *Row) int { return task[r.Fold][r.Task] - 1 })
	add(Oracle, false, func(r *Row) int {
		at := 0
		for m, x := range r.Scores {
			if x > r.Scores[at] || math.IsNaN(r.Scores[at]) {
				at = m
			}
		}
		return at
	})
	return lines, nil
}

// scored has the score of each row's answer; one that nobody knows is none.
func scored(set *Set, choose func(r *Row) int) (all []float64) {
	for i := range set.Rows {
		x := set.Rows[i].Scores[choose(&set.Rows[i])]
		if math.IsNaN(x) {
			x = 0
		}
		all = append(all, x)
	}
	return all
}

// interval is a mean, and between what bounds the means of 95 % of samples lie, by the bootstrap.
func interval(of []float64, seed uint64) (mean, low, high float64) {
	random := rand.New(rand.NewPCG(seed, 0x626f6f74))
	for _, x := range of {
		mean += x
	}
	means := make([]float64, Samples)
	for k := range means {
		sum := 0.0
		for range of {
			sum += of[random.IntN(len(of))]
		}
		means[k] = sum / float64(len(of))
	}
	slices.Sort(means)
	return mean / float64(len(of)), means[Samples/40], means[Samples-1-Samples/40]
}
