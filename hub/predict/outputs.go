package predict

import (
	"math"

	"souk/bus/bounded"
)

// Source names the client of a task and describes the task, as far as that tells how long its answer may be.
type Source struct {
	Client, Role string
	Session      uint64 // 0: none
	Prompt       int    // tokens, as the door estimated them
	Turn         int    // of the session
	Most         int    // tokens that the answer may have; 0: that is not known
}

// Bounds of what is kept of the lengths of answers, some 15 MB: a client with any number of sessions or roles
// is known by its latest, and forgets no other's.
const (
	sessionsEach = 1024
	sessionsKept = 1 << 16
	clientsKept  = 1 << 14
	rolesEach    = 16
	rolesKept    = 1 << 16
	// pseudo is the number of answers of the wider mean with which a narrower one begins.
	pseudo = 4
	// ofSession counts them for a session: its answers are more alike than those of a role.
	ofSession = 2
	// answersKept is after how many answers of a client one counts a third.
	answersKept = 200
	// What all clients' answers are like is the mean of the clients that were heard of last, each of whom
	// counts as so many answers at most, however many it had.
	latest, countsMost = 64, 8
)

// Outputs expects how long answers are: by those of the session before, drawn to those of its client's role,
// to those of the hub. A gate adds a correction by the task's features. Not for concurrent use.
type Outputs struct {
	rest     Gate                    // nil: none
	x        [outputFeatures]float64 // scratch
	hub      mean
	clients  *bounded.Cache[struct{}, string, mean]
	roles    *bounded.Cache[string, theirs[string], mean] // by client
	sessions *bounded.Cache[string, theirs[uint64], mean] // likewise
}

// theirs is a client's role or session.
type theirs[K comparable] struct {
	client string
	key    K
}

// NewOutputs has seen no answer.
func NewOutputs(gates Gates) *Outputs {
	o := &Outputs{
		clients:  bounded.New[struct{}, string, mean](clientsKept, 0),
		roles:    bounded.New[string, theirs[string], mean](rolesKept, rolesEach),
		sessions: bounded.New[string, theirs[uint64], mean](sessionsKept, sessionsEach)}
	if gates != nil {
		o.rest = gates(outputFeatures)
	}
	o.clients.Gone = func(name string, _ *mean) {
		o.roles.DropOwner(name)
		o.sessions.DropOwner(name)
	}
	return o
}

// drawn returns the mean shrunk to another value, which has the weight of so many answers.
func (m *mean) drawn(to, weight float64) float64 {
	if m == nil {
		return to
	}
	return (m.Sum + float64(weight*to)) / (m.Weight + weight)
}

// Expect returns the expected tokens of the answer to a task; assumed are those where nothing is known.
func (o *Outputs) Expect(s Source, assumed int) int {
	at := o.means(&s, assumed)
	if o.rest != nil && o.rest.Open() {
		if at += o.rest.Add(o.points(&s, at), nil); s.Most > 0 {
			at = min(at, float64(s.Most))
		}
	}
	return max(1, int(math.Floor(at+0.5)))
}

// outputFeatures counts the features of the gate for lengths: tokens of the prompt, the turn, the most tokens
// that the answer may have, and the length expected without it.
const outputFeatures = 4

func (o *Outputs) points(s *Source, means float64) []float64 {
	bounded := func(n int) float64 { return float64(min(max(0, n), 1e7)) }
	o.x = [...]float64{bounded(s.Prompt), bounded(s.Turn), bounded(s.Most), means}
	return o.x[:]
}

// means returns the expected length with nothing added.
func (o *Outputs) means(s *Source, assumed int) float64 {
	at := o.hub.drawn(float64(assumed), pseudo)
	at = o.roles.Peek(theirs[string]{s.Client, s.Role}).drawn(at, pseudo)
	if s.Session != 0 {
		at = o.sessions.Peek(theirs[uint64]{s.Client, s.Session}).drawn(at, ofSession)
	}
	return at
}

// count takes in an answer.
func (m *mean) count(tokens float64) {
	const keep = 1 - 1.0/answersKept
	m.Sum, m.Weight = float64(m.Sum*keep)+tokens, float64(m.Weight*keep)+1
}

// Learn takes in the tokens of an answer; assumed is the length where nothing is known.
func (o *Outputs) Learn(s Source, tokens, assumed int) {
	n := float64(min(max(0, tokens), 1e7))
	all, _ := o.clients.Add(struct{}{}, s.Client)
	at := o.means(&s, assumed)
	if o.rest != nil {
		o.rest.Learn(o.points(&s, at), nil, n-at, say(all.Weight, o.hub.Weight))
	}
	all.count(n)
	o.hub = o.clientsMean()
	role, _ := o.roles.Add(s.Client, theirs[string]{s.Client, s.Role})
	role.count(n)
	if s.Session != 0 {
		m, _ := o.sessions.Add(s.Client, theirs[uint64]{s.Client, s.Session})
		m.count(n)
	}
}

// clientsMean is the mean of the means of the clients heard of last. It has the weight of all their answers.
func (o *Outputs) clientsMean() (all mean) {
	weight, heard := 0.0, 0
	for _, m := range o.clients.Of(struct{}{}) {
		if m.Weight > 0 {
			w := min(m.Weight, countsMost)
			weight += w
			all.Sum += float64(w * m.value())
			all.Weight += m.Weight
		}
		if heard++; heard >= latest {
			break
		}
	}
	if weight > 0 {
		all.Sum *= all.Weight / weight
	}
	return all
}
