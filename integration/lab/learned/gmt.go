package learned

import "math"

// GMTRouter (Xie et al. 2025, arXiv 2511.08590; github.com/ulab-uiuc/GMTRouter, src/graph.py, commit
// 74e82fa): a graph of users, sessions, questions, models and rated answers. What a user is, is gathered by
// attention over the few rated answers of the user's past; a model then attends to user and question, and
// a layer over that and the model says how the user would rate its answer.
//
// The data has neither users nor sessions. A benchmark stands for a user who asks questions of one kind,
// and eight of its questions that were learned from are its past; a question's user is the one whose mean
// sketch is nearest. There is one layer of attention over the past where theirs has two over the whole
// graph, and no dropout.

const (
	gmtWide  = 32
	gmtHeads = 4
	gmtPast  = 8
)

func trainGMT(p *problem) weights {
	models := len(p.set.Models)
	w := weights{"centres": p.centres(), "question": p.drawn(1+Size, gmtWide, 0.1),
		"ask": p.drawn(1+Size, gmtWide, 0.1), "models": p.drawn(models, gmtWide, 0.5),
		"of": p.drawn(gmtWide, gmtWide, 0.2), "key": p.drawn(gmtWide, gmtWide, 0.2),
		"value": p.drawn(gmtWide, gmtWide, 0.2), "context": p.drawn(1, gmtWide, 0.3), "own": p.drawn(1,
			gmtWide, 0.3)}
	past := p.past(w["centres"].R, gmtPast)
	x, rated := vectors(past), newMatrix(len(past), 1+Size+models)
	for i, r := range past {
		copy(rated.row(i), x.row(i))
		for m, s := range r.Scores {
			if !math.IsNaN(s) {
				rated.row(i)[1+Size+m] = 2*s - 1
			}
		}
	}
	rest := weights{"past": p.drawn(1+Size, gmtWide, 0.1), "rated": p.drawn(rated.C, gmtWide, 0.1)}
	all := weights{"past": rest["past"], "rated": rest["rated"]}
	for name, m := range w {
		if name != "centres" {
			all[name] = m
		}
	}
	p.learn(all, func(t *tape, rows []*Row) {
		w["keys"], w["ratings"] = t.mul(x, rest["past"]), t.mul(rated, rest["rated"])
		p.fit(scoreGMT(t, w, vectors(rows), nearestAll(w["centres"], rows)), rows)
	})
	w["keys"], w["ratings"] = (&tape{}).mul(x, rest["past"]), (&tape{}).mul(rated, rest["rated"])
	return w
}

func scoreGMT(t *tape, w weights, x *matrix, users []int) *matrix {
	from := make([]int, len(users))
	for i, u := range users {
		from[i] = gmtPast * u
	}
	user := t.attend(t.mul(x, w["ask"]), w["keys"], w["ratings"], from, gmtPast)
	question := t.mul(x, w["question"])
	logits := t.cross(t.mul(w["models"], w["of"]), t.mul(user, w["key"]), t.mul(question, w["key"]),
		t.mul(user, w["value"]), t.mul(question, w["value"]), w["context"])
	own := t.pair(t.relu(w["models"]), w["own"]) // a column
	row := newMatrix(1, own.R)
	copy(row.V, own.V)
	t.then(func() { axpy(1, row.G, own.G) })
	return t.add(logits, row)
}

// cross has for each question and model out . relu(what the model finds of user and question), by heads: each
// takes of the two values the more of the one whose key is more like the model's.
func (t *tape) cross(models, userKey, key, userValue, value, out *matrix) *matrix {
	wide := models.C / gmtHeads
	root := math.Sqrt(float64(wide))
	logits := newMatrix(key.R, models.R)
	share := make([]float64, key.R*models.R*gmtHeads) // of the user
	for i := range key.R {
		for m := range models.R {
			for head := range gmtHeads {
				from, to := head*wide, (head+1)*wide
				model, sum := models.row(m)[from:to], 0.0
				uk, qk := userKey.row(i)[from:to], key.row(i)[from:to]
				for d, x := range model {
					sum += x * (uk[d] - qk[d])
				}
				a := logistic(sum / root)
				share[(i*models.R+m)*gmtHeads+head] = a
				uv, qv := userValue.row(i)[from:to], value.row(i)[from:to]
				for d, x := range out.V[from:to] {
					logits.row(i)[m] += x * max(0, a*uv[d]+(1-a)*qv[d])
				}
			}
		}
	}
	t.then(func() {
		for i := range key.R {
			for m := range models.R {
				g := logits.gain(i)[m]
				for head := range gmtHeads {
					from, to := head*wide, (head+1)*wide
					a, of := share[(i*models.R+m)*gmtHeads+head], 0.0
					uv, qv := userValue.row(i)[from:to], value.row(i)[from:to]
					for d, o := range out.V[from:to] {
						x := a*uv[d] + (1-a)*qv[d]
						if x <= 0 {
							continue
						}
						out.G[from+d] += g * x
						userValue.gain(i)[from+d] += g * o * a
						value.gain(i)[from+d] += g * o * (1 - a)
						of += g * o * (uv[d] - qv[d])
					}
					of *= a * (1 - a) / root
					uk, qk := userKey.row(i)[from:to], key.row(i)[from:to]
					for d, x := range models.row(m)[from:to] {
						models.gain(m)[from+d] += of * (uk[d] - qk[d])
						userKey.gain(i)[from+d] += of * x
						key.gain(i)[from+d] -= of * x
					}
				}
			}
		}
	})
	return logits
}
