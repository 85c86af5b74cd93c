package hub

import "souk/bus"

// rerate finds out how good the agent's answers are expected to be from now on.
func (a *agent) rerate(n *Node) {
	if a.answers.Rate(n.cfg.Quality) {
		a.forecast = nil
		n.queue.News()
	}
}

// judged takes a client's judgement of an answer.
func (n *Node) judged(m *bus.Feedback) error {
	q, err := n.admission.Judged(m)
	if err != nil {
		return err
	}
	stats := n.stats.Agent(q.Final().Agent)
	stats.Judged++
	stats.Quality += m.Quality
	if a := n.fleet.Find(q.Final().Agent); a != nil && a.Reg().Model == q.Final().Model && q.Domain != "" {
		a.answers.Judge(n.cfg.Quality, q.Domain, m)
		a.rerate(n)
	} // else of what it was then nothing is left
	return nil
}
