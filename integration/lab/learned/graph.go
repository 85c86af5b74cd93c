package learned

import "math"

// GraphRouter (Feng et al., ICLR 2025; github.com/ulab-uiuc/GraphRouter, model/graph_nn.py, commit
// f513909): a graph of tasks, questions and models, with an edge for each recorded answer that says how
// good it was. A question begins as a layer of its task beside one of itself, a model as a layer of its
// description; two layers of messages go from questions along edges to models; and an edge that is not
// there yet is the logistic of the mean product of what its question began as and its model came to. At
// each step some edges are seen, and others are to be told.
//
// Ours has sketches where theirs has a language model's embeddings, and of a model its size and price where
// theirs has a text. Nobody tells a router the task: it is the one whose mean sketch is nearest. There is no
// normalisation of batches.

const (
	graphWide = 32 // of each half
	graphSeen = 128
)

func trainGraph(p *problem) weights {
	w := weights{"centres": p.centres(), "task": p.drawn(1+Size, graphWide, 0.1),
		"text": p.drawn(1+Size, graphWide, 0.1)}
	about := p.about()
	rest := weights{"about": p.drawn(about.C, 2*graphWide, 0.3), "first": p.drawn(2*graphWide,
		2*graphWide, 0.1),
		"second": p.drawn(2*graphWide, 2*graphWide, 0.1), "edge1": p.drawn(1, 2*graphWide, 0.3),
		"edge2": p.drawn(1, 2*graphWide, 0.3)}
	// what models come to when the edges of these questions are seen
	models := func(t *tape, rows []*Row) *matrix {
		begun := beginGraph(t, w, vectors(rows), nearestAll(w["centres"], rows))
		share, mean := newMatrix(about.R, len(rows)), newMatrix(about.R, 1)
		for m := range about.R {
			edges := 0.0
			for _, r := range rows {
				if !math.IsNaN(r.Scores[m]) {
					edges++
				}
			}
			for i, r := range rows {
				if !math.IsNaN(r.Scores[m]) {
					share.row(m)[i] = 1 / edges
					mean.V[m] += r.Scores[m] / edges
				}
			}
		}
		at := t.add(t.mul(about, rest["about"]), t.mul(t.mul(share, begun), rest["first"]))
		at = t.relu(t.add(at, t.mul(mean, rest["edge1"])))
		at = t.add(at, t.mul(t.mul(share, t.relu(begun)), rest["second"]))
		return t.add(at, t.mul(mean, rest["edge2"]))
	}
	all := weights{"text": w["text"], "task": w["task"]}
	for name, m := range rest {
		all[name] = m
	}
	p.learn(all, func(t *tape, rows []*Row) {
		seen := make([]*Row, graphSeen)
		for i := range seen {
			seen[i] = p.rows[p.random.IntN(len(p.rows))]
		}
		w["models"] = models(t, seen)
		logits := scoreGraph(t, w, vectors(rows), nearestAll(w["centres"], rows))
		p.fit(logits, rows)
	})
	w["models"] = models(&tape{}, p.rows)
	return w
}

// beginGraph returns a row for each question: its beginning in the graph.
func beginGraph(t *tape, w weights, x *matrix, tasks []int) *matrix {
	of := newMatrix(x.R, x.C)
	for i, k := range tasks {
		copy(of.row(i), w["centres"].row(k))
	}
	return t.beside(t.mul(of, w["task"]), t.mul(x, w["text"]))
}

func scoreGraph(t *tape, w weights, x *matrix, tasks []int) *matrix {
	return t.pair(beginGraph(t, w, x, tasks), w["models"])
}
