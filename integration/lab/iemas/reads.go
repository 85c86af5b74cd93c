package iemas

import (
	"slices"
	"time"

	"souk/integration/lab/learned"
	"souk/integration/lab/virtual"
)

// reads is a router that has learned. Of a turn it reads the question for which that stands, of which answers
// were judged, and not the dialogue's own.
type reads struct {
	virtual.Policy
	w    *World
	rows []learned.Row // of the set that questions are of, in its order
}

// reading has a learned rule read the questions that turns stand for; other rules stay as they are.
func (w *World) reading(router string, p virtual.Policy) (virtual.Policy, error) {
	if !slices.Contains(learned.Names(), router) {
		return p, nil
	}
	data, err := learned.Recorded()
	if err != nil {
		return nil, err
	}
	return &reads{p, w, data.Set("routeprofile").Rows}, nil
}

// Arrive implements virtual.Policy.
func (r *reads) Arrive(now time.Time, q *virtual.Request, v *virtual.View) int {
	q.Stand(r.rows[r.w.row[r.w.question(q)]].Question)
	return r.Policy.Arrive(now, q, v)
}
