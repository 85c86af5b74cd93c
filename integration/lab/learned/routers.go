package learned

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"souk/integration/lab/runs"
)

// kind is a way to learn.
type kind struct {
	name  string
	train func(p *problem) weights
	score func(t *tape, w weights, x *matrix, tasks []int) *matrix
	needs []string // the weights that scoring needs
}

var kinds = []kind{
	{"mf", trainMF, scoreMF, []string{"text", "models", "out"}},
	{"graph", trainGraph, scoreGraph, []string{"centres", "task", "text", "models"}},
	{"gmt", trainGMT, scoreGMT, []string{"centres", "question", "ask", "models", "of", "key", "value",
		"context",
		"own", "keys", "ratings"}},
	{"dual-contrastive", trainDual, scoreDual, []string{"straight", "hidden", "out", "models"}},
}

// Names are the routers' names.
func Names() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// Router scores models for a question.
type Router struct {
	Name   string
	Models []string
	of     kind
	parts  [Folds]weights
}

// Score says of each model how good its answer would be, in figures of the router's own: logits, or cosines.
// They are rounded, as the last bits of a sum differ between machines.
func (r *Router) Score(q *Question) []float64 {
	x := newMatrix(1, 1+Size)
	q.vector(x.V)
	w := r.parts[q.Fold]
	var task []int
	if c := w["centres"]; c != nil {
		task = []int{nearest(c, x.V)}
	}
	scores := r.of.score(&tape{}, w, x, task).V
	for m, s := range scores {
		scores[m] = math.Round(s*(1<<20)) / (1 << 20)
	}
	return scores
}

// Train learns every router of every group for each part from the others, and writes the weights.
func Train(data *Data, seed uint64) ([]byte, error) {
	var text strings.Builder
	var all []*tensor
	for _, g := range Groups {
		set, _, err := data.Join(&g)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(&text, g.Name, strings.Join(set.Models, " "))
		made, err := runs.Each(context.Background(), len(kinds)*Folds, 0, nil, func(i int) (weights, error) {
			return kinds[i/Folds].learn(set, data.Cards, i%Folds, seed)
		})
		if err != nil {
			return nil, err
		}
		for i, w := range made {
			for _, name := range kinds[i/Folds].needs {
				all = append(all, asBytes(tensorName(g.Name, kinds[i/Folds].name, i%Folds, name), w[name]))
			}
		}
	}
	return encode(text.String(), all), nil
}

// learn learns from all parts of a set but one.
func (k *kind) learn(set *Set, cards map[string]Card, fold int, seed uint64) (weights, error) {
	p := &problem{set: set, cards: cards, random: rand.New(rand.NewPCG(seed,
		ID(set.Name+k.name)+uint64(fold)))}
	for i := range set.Rows {
		if set.Rows[i].Fold != fold {
			p.rows = append(p.rows, &set.Rows[i])
		}
	}
	if len(p.rows) == 0 {
		return nil, fmt.Errorf("%s: no row is outside of part %d", set.Name, fold)
	}
	return k.train(p), nil
}

func tensorName(group, kind string, fold int, name string) string {
	return fmt.Sprintf("%s/%s/%d/%s", group, kind, fold, name)
}

// Decode reads the routers of a group from a weights file.
func Decode(data []byte, group string) (all []*Router, err error) {
	text, tensors, err := decode(data)
	if err != nil {
		return nil, err
	}
	var models []string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == group {
			models = words[1:]
		}
	}
	if models == nil {
		return nil, fmt.Errorf("weights: there is no group %s", group)
	}
	for _, k := range kinds {
		r := &Router{Name: k.name, Models: models, of: k}
		for fold := range Folds {
			r.parts[fold] = weights{}
			for _, need := range k.needs {
				name := tensorName(group, k.name, fold, need)
				t := tensors[name]
				if t == nil {
					return nil, fmt.Errorf("weights: %s is missing", name)
				}
				r.parts[fold][need] = t.matrix()
			}
			if err := r.check(fold); err != nil {
				return nil, err
			}
		}
		all = append(all, r)
	}
	return all, nil
}

// check says which weights do not fit each other.
func (r *Router) check(fold int) error {
	w := r.parts[fold]
	shape := map[string][2]int{"models": {len(r.Models), w["models"].C}}
	wide := w["models"].C
	for _, name := range []string{"text", "task", "question", "ask", "straight", "hidden"} {
		shape[name] = [2]int{1 + Size, wide}
	}
	shape["out"], shape["context"], shape["own"] = [2]int{1, wide}, [2]int{1, wide}, [2]int{1, wide}
	for _, name := range []string{"of", "key", "value"} {
		shape[name] = [2]int{wide, wide}
	}
	if c := w["centres"]; c != nil {
		shape["centres"] = [2]int{c.R, 1 + Size}
		shape["keys"], shape["ratings"] = [2]int{gmtPast * c.R, wide}, [2]int{gmtPast * c.R, wide}
	}
	switch r.Name {
	case "graph": // halves
		shape["text"], shape["task"] = [2]int{1 + Size, wide / 2}, [2]int{1 + Size, wide / 2}
	case "dual-contrastive":
		shape["out"] = [2]int{wide, wide}
	}
	for _, name := range slices.Sorted(maps.Keys(w)) {
		if m := w[name]; m.R < 1 || shape[name] != [2]int{m.R, m.C} {
			return fmt.Errorf("weights: %s of router %s has %d by %d numbers, want %d by %d", name,
				r.Name, m.R,
				m.C, shape[name][0], shape[name][1])
		}
	}
	return nil
}

//go:embed data/routers.weights
var packedRouters []byte

// Routers returns the routers that lie beside the code and score the models of a group; see [Groups].
func Routers(group string) ([]*Router, error) { return Decode(packedRouters, group) }

// WeightBytes counts the bytes of all weights that are built in.
func WeightBytes() int { return len(packedRouters) + len(packedEncoder) }

// Texts returns the routers of questions with texts, by name.
var Texts = sync.OnceValue(func() map[string]*Router {
	all, err := Routers("texts")
	if err != nil {
		panic(fmt.Sprintf("learned: the weights that are built in: %v", err))
	}
	by := map[string]*Router{}
	for _, r := range all {
		by[r.Name] = r
	}
	return by
})
