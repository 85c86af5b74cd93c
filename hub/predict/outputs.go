package predict

import (
	"math"
	"slices"

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

// Bounds of what is kept of the lengths of answers, some 10 MB: a client with any number of sessions is known
// by its latest, and forgets no other's.
const (
	sessionsEach = 1024
	sessionsKept = 1 << 16
	clientsKept  = 1 << 14
	rolesEach    = 16
	// pseudo is the number of answers of the wider mean with which a narrower one begins.
	pseudo = 4
	// ofSession counts them for a session: its answers are more alike than those of a role.
	ofSession = 2
	// roleKeep is the factor on the weights of a client's roles when one more comes than are kept.
	roleKeep = 1 - 1.0/64
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
	clients  *bounded.Cache[struct{}, string, *speaker]
	sessions *bounded.Cache[string, sessionOf, mean] // by client
}

type sessionOf struct {
	client string
	key    uint64
}

// speaker is a client.
type speaker struct {
	Name  string
	All   mean
	Roles []entry[string]
}

// entry is the mean of a key.
type entry[K any] struct {
	Key  K
	Mean mean
}

// role is the mean of a role; nil: there is none.
func (c *speaker) role(name string) *mean {
	for i := range c.Roles {
		if c.Roles[i].Key == name {
			return &c.Roles[i].Mean
		}
	}
	return nil
}

// NewOutputs has seen no answer.
func NewOutputs(gates Gates) *Outputs {
	o := &Outputs{
		clients:  bounded.New[struct{}, string, *speaker](clientsKept, 0),
		sessions: bounded.New[string, sessionOf, mean](sessionsKept, sessionsEach)}
	if gates != nil {
		o.rest = gates(outputFeatures)
	}
	o.clients.Gone = func(name string, _ **speaker) { o.sessions.DropOwner(name) }
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
	if c := o.clients.Peek(s.Client); c != nil {
		at = (*c).role(s.Role).drawn(at, pseudo)
		if s.Session != 0 {
			at = o.sessions.Peek(sessionOf{s.Client, s.Session}).drawn(at, ofSession)
		}
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
	c := o.speaker(s.Client)
	at := o.means(&s, assumed)
	if o.rest != nil {
		o.rest.Learn(o.points(&s, at), nil, n-at, say(c.All.Weight, o.hub.Weight))
	}
	c.All.count(n)
	o.hub = o.clientsMean()
	c.answered(s.Role, n)
	if s.Session != 0 {
		m, _ := o.sessions.Add(s.Client, sessionOf{s.Client, s.Session})
		m.count(n)
	}
}

// answered takes in an answer for a role. Where there are as many as may be, one more takes the place of the
// one that counts least, and all others count a little less: so those that are asked for no more make room in
// the end, and those that are asked for once take no other's place.
func (c *speaker) answered(name string, tokens float64) {
	m := c.role(name)
	if m == nil {
		if len(c.Roles) >= rolesEach {
			least := 0
			for i, r := range c.Roles {
				if l := &c.Roles[least]; r.Mean.Weight < l.Mean.Weight ||
					r.Mean.Weight == l.Mean.Weight && r.Key < l.Key {
					least = i
				}
			}
			c.Roles = slices.Delete(c.Roles, least, least+1)
			for i := range c.Roles {
				m := &c.Roles[i].Mean
				m.Sum, m.Weight = m.Sum*roleKeep, m.Weight*roleKeep
			}
		}
		c.Roles = append(c.Roles, entry[string]{Key: name})
		m = &c.Roles[len(c.Roles)-1].Mean
	}
	m.count(tokens)
}

// clientsMean is the mean of the means of the clients heard of last. It has the weight of all their answers.
func (o *Outputs) clientsMean() (all mean) {
	weight, heard := 0.0, 0
	for _, c := range o.clients.Of(struct{}{}) {
		if m := &(*c).All; m.Weight > 0 {
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

// speaker is a client, who is the last now that was heard of.
func (o *Outputs) speaker(name string) *speaker {
	c, made := o.clients.Add(struct{}{}, name)
	if made {
		*c = &speaker{Name: name}
	}
	return *c
}
