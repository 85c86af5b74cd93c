package machines

import (
	"fmt"
	"hash/maphash"
	"time"

	"souk/bus"
	"souk/bus/reader"
	"souk/classifier"
)

// doorPart is a door's process.
type doorPart struct {
	*part
	cfg    classifier.Config
	desk   *classifier.Desk
	table  *classifier.Table
	before sign // the last sign of life but one
	last   sign
	inHand map[string]*job
	known  map[string]int64
	led    map[string]bool
	all    map[int]*job
	count  int
	key    []byte // of its vouchers
}

type sign struct {
	at    time.Time
	heard *classifier.Table
}

// job is a task on its way through a door.
type job struct {
	d       *doorPart
	number  int
	t       *bus.Task
	inbox   string
	since   time.Time
	again   bool
	heard   *classifier.Table
	verdict sign // when the last was said at the earliest
	placing *classifier.Placing
	looked  struct {
		hub  string
		said bus.LastStatus
	}
	asked  *question
	over   bool
	shares []string // inboxes that wait for the same answer
	due    int
}

func (w *whole) newDoor(name string) *doorPart {
	d := &doorPart{part: w.newPart(name), cfg: classifier.Default()}
	d.cfg.ID = name
	w.doors = append(w.doors, d)
	d.start()
	return d
}

func (d *doorPart) start() {
	w := d.w
	d.desk, d.table = classifier.NewDesk(&d.cfg, maphash.MakeSeed()), &classifier.Table{}
	d.inHand, d.known, d.all = map[string]*job{}, map[string]int64{}, map[int]*job{}
	d.led = map[string]bool{}
	d.up, d.cut, d.knows, d.since = true, false, false, w.now
	d.vouch()
	d.before = sign{w.now, d.table}
	d.last = d.before
	var pulse func()
	pulse = func() {
		asked := sign{w.now, d.table}
		d.on(w.within(2*time.Millisecond), func() {
			if !d.cut {
				d.before, d.last = d.last, asked
			}
			d.on(500*time.Millisecond, pulse)
		})
	}
	d.on(500*time.Millisecond, pulse)
	d.on(0, d.readHubs)
}

func (d *doorPart) kill(back time.Duration) {
	if d.up {
		d.w.note("%s is killed (%d in hand)", d.name, len(d.all))
		d.up, d.sleep = false, time.Time{}
		d.life++
		d.w.after(back, func() {
			d.w.note("%s starts again", d.name)
			d.start()
		})
	}
}

// readHubs reads the registry.
func (d *doorPart) readHubs() {
	g, changed := d.w.registry, false
	for _, domain := range sortedKeys(g.leads) {
		if l := g.leads[domain]; d.known[domain] != l.epoch {
			d.known[domain], changed = l.epoch, true
			d.table = d.table.WithEntry(l.entry, l.epoch, d.w.now)
		}
	}
	for _, journal := range sortedKeys(g.led) {
		if !d.led[journal] {
			d.led[journal] = true
			d.table = d.table.WithLed(journal, d.w.now)
		}
	}
	for _, journal := range sortedKeys(d.led) {
		if g.led[journal].IsZero() {
			delete(d.led, journal)
			d.table = d.table.WithoutLed(journal)
		}
	}
	for _, domain := range sortedKeys(d.known) {
		if g.leads[domain] == nil {
			delete(d.known, domain)
			d.table, changed = d.table.Without(domain, d.w.now), true
		}
	}
	if !changed {
		return
	}
	for _, n := range sortedKeys(d.all) {
		e := d.all[n]
		if e == nil {
			continue
		}
		if q := e.asked; q != nil && !q.ended {
			if e.placing.Tick(d.w.now, d.table); e.placing.Awaits() == "" {
				q.end(nil, errTime)
			}
		}
	}
}

func (d *doorPart) hear(st *bus.Status) { d.table = d.table.WithStatus(st, d.w.now) }

// take takes a reader's task in.
func (d *doorPart) take(t *bus.Task, inbox string) {
	w := d.w
	key := t.Client + "/" + t.ID
	w.tell("%s takes %s, again %d", d.name, key, t.Again)
	e := &job{d: d, t: t, inbox: inbox, since: d.before.at, heard: d.before.heard}
	if no := d.desk.Enter(t.Client, 100); no != nil {
		e.say(bus.Answer{Result: classifier.Refusal(no, t.Client, "", t)})
		return
	}
	d.count++
	e.number = d.count
	d.all[e.number] = e
	if no := classifier.Judge(t, w.now); no != nil {
		e.answer(bus.Answer{Result: classifier.Refusal(no, t.Client, "", t)})
		return
	}
	want := d.desk.Label(t, "general", 0.9)
	e.again = classifier.MayBePlaced(t, e.since, w.now)
	t.Reply, t.Token = bus.ReplyTo(t.Client, t.ID), ""
	first := d.inHand[key]
	if t.Again > 0 && first != nil && classifier.SameQuestion(first.t, t) {
		first.shares = append(first.shares, inbox)
		if q := first.asked; q != nil && !q.ended {
			first.placing.Doubt(w.now)
			q.end(nil, errTime)
		}
		d.desk.Answered(t.Client, 100, true, true, &bus.Answer{Accepted: &bus.Accepted{}})
		delete(d.all, e.number)
		return
	}
	e.placing = d.desk.Place(w.now, t, true, want)
	if first == nil {
		d.inHand[key] = e
	}
	place := func() {
		t.Again, t.AgeMS, t.FirstMS = 0, 0, 0
		e.placing.Tick(w.now, d.table)
		e.goOn()
	}
	if e.again {
		e.find(func(hub string, all bool) {
			e.placing.Found(hub, all, classifier.MayBeOver(e.t, true, e.since, d.w.now))
			place()
		})
		return
	}
	place()
}

// find asks all hubs whether they know a task.
func (e *job) find(then func(hub string, all bool)) {
	d := e.d
	e.heard = d.table
	hubs := d.table.Hubs
	placed := e.again || classifier.MayBePlaced(e.t, e.since, d.w.now)
	missed := placed && d.table.Misses(d.w.now, classifier.FirstSent(e.t, e.since))
	left, all, done := len(hubs), len(hubs) > 0 && !missed, false
	if left == 0 {
		then("", false)
		return
	}
	for _, h := range hubs {
		domain := h.Entry.Domain
		q := classifier.OwnerLookup(e.t)
		e.toHub(domain, q, time.Second, func(a *bus.Answer, err error) {
			left--
			known, sure := false, false
			if err == nil {
				known, sure = h.Knows(a)
			}
			all = all && sure
			switch {
			case done:
			case known:
				done = true
				then(domain, true)
			case left == 0:
				done = true
				then("", all)
			}
		})
	}
}

// toHub sends a task to whoever listens on a domain's subject.
func (e *job) toHub(domain string, t *bus.Task, within time.Duration,
	done func(*bus.Answer, error)) *question {
	d, w := e.d, e.d.w
	m := copied(w, t)
	var to []*part
	hubs := map[*part]*hubPart{}
	for _, h := range w.hubs {
		if h.domain == domain && h.leading {
			to, hubs[h.part] = append(to, h.part), h
		}
	}
	return w.ask(d.part, to, false, within, func(p *part, inbox string) bool {
		h := hubs[p]
		if !h.leading {
			return false
		}
		v := m()
		v.Door, v.Inbox = d.name, inbox
		w.tell("%s hears %s/%s of %s, %d bytes, heard %v", h.name, v.Client, v.ID, d.name, len(v.Body),
			v.LastStatus)
		h.step(v)
		return true
	}, func(m bus.Message, err error) {
		a, _ := m.(*bus.Answer)
		w.tell("%s has of %s for %s/%s: %s %v", d.name, domain, t.Client, t.ID, words(a), err)
		if a == nil && err == nil {
			err = errTime
		}
		done(a, err)
	})
}

// goOn does what the placing wants.
func (e *job) goOn() {
	d, w := e.d, e.d.w
	if hub := e.placing.Cancels(); hub != "" {
		d.cancelAt(hub, e.t)
	}
	out := e.placing.Ready()
	e.due++
	switch {
	case e.over:
	case out.Answer != nil:
		e.answer(*out.Answer)
	case out.Send != "":
		e.t.LastStatus = nil
		e.t.Voucher = d.voucher(e.t, &out.Vouch)
		if classifier.MayBeAsked(e.t, true) {
			h := e.heard.LastStatus(out.Send)
			if e.looked.hub == out.Send {
				h = e.looked.said
			}
			e.t.LastStatus = &h
		}
		hub := out.Send
		e.asked = e.toHub(hub, e.t, out.Until.Sub(w.now), func(a *bus.Answer, err error) {
			e.verdict = d.before
			switch {
			case err == nil && a.Lookup != nil:
				e.looked.hub, e.looked.said = hub, *a.Lookup
			case err == nil && a.SoleOwner:
				e.looked.hub, e.heard = "", e.verdict.heard
			}
			e.placing.Step(w.now, d.table, a, err, e.verdict.at)
			e.goOn()
		})
	case out.Find:
		e.find(func(hub string, all bool) {
			e.placing.Found(hub, all, classifier.MayBeOver(e.t, true, e.since, d.w.now))
			e.placing.Tick(w.now, d.table)
			e.goOn()
		})
	case !out.Wake.IsZero():
		due := e.due
		d.on(out.Wake.Sub(w.now), func() {
			if due == e.due {
				e.placing.Tick(w.now, d.table)
				e.goOn()
			}
		})
	}
}

func (e *job) answer(a bus.Answer) {
	d, key := e.d, e.t.Client+"/"+e.t.ID
	e.over = true
	delete(d.all, e.number)
	if d.inHand[key] == e {
		delete(d.inHand, key)
	}
	d.desk.Answered(e.t.Client, 100, true, e.t.Again > 0, &a)
	e.say(a)
}

func words(a *bus.Answer) string {
	switch {
	case a == nil:
		return "nothing"
	case a.Accepted != nil:
		return "accepted by " + a.Accepted.Agent
	}
	return fmt.Sprintf("%s %s %v %v", a.Result.Code, a.Result.Message, a.Lookup, a.SoleOwner)
}

func (e *job) say(a bus.Answer) {
	w := e.d.w
	w.tell("%s answers %s/%s: %s", e.d.name, e.t.Client, e.t.ID, words(&a))
	c := copied(w, &a)
	for _, inbox := range append([]string{e.inbox}, e.shares...) {
		w.answer(e.d.part, inbox, false, func() bus.Message { return c() })
	}
}

func (d *doorPart) cancelAt(hub string, t *bus.Task) {
	w := d.w
	m := copied(w, &bus.Cancel{Client: t.Client, Task: t.ID})
	for _, h := range w.hubs {
		if h.domain == hub {
			w.say(d.part, h.part, true, func() {
				v := m()
				v.Sender = d.name
				h.step(v)
			})
		}
	}
}

func (d *doorPart) cancel(client, task string) {
	if e := d.inHand[client+"/"+task]; e != nil {
		e.placing.Cancel()
		if hub := e.placing.Cancels(); hub != "" {
			d.cancelAt(hub, e.t)
		}
	}
}

// readerPart reads one answer.
type readerPart struct {
	*part
	client string
	task   *bus.Task
	m      *reader.Stream
	asked  int
	ask    *question
	until  time.Time
	due    int
	over   bool
	end    *bus.Result
	err    error
	again  bool // it asked once more, when all faults had ended
	bytes  int  // of the answer
}

var readerConfig = reader.Config{MaxChunks: 4096, MaxBytes: 4 << 20, AckEvery: 3, Quiet: 3 * time.Second,
	Silence: 6 * time.Second, Doze: 2 * time.Second, ResumeEvery: time.Second, ResumeWait: 5 * time.Second,
	MaxOutage: time.Minute, MaxAbsence: 15 * time.Second, AskAgain: 2 * time.Second}

func (w *whole) submit(client string, t *bus.Task) *readerPart {
	r := &readerPart{part: w.newPart(client + "-" + t.ID), client: client, task: t}
	w.readers[client+"."+t.ID] = r
	w.order = append(w.order, r)
	r.m = reader.New(readerConfig, t, w.now)
	r.do()
	return r
}

// lost reports whether the reader was told that nobody knows what became of its task.
func (r *readerPart) lost() bool {
	if r.end != nil {
		return r.end.Receipt == nil && (r.end.Code == bus.CodeUnknown || r.end.Code == bus.CodeUnavailable)
	}
	return bus.CodeOf(r.err) != bus.CodeCancelled
}

// askAgain has everybody who does not know what became of a task ask for it once more, as they are told to.
func (w *whole) askAgain() {
	for _, r := range w.order {
		if !r.over || !r.lost() {
			continue
		}
		w.tell("%s asks after its end: %v", r.name, r.err)
		t := *r.task
		t.Again, t.DeadlineMS, t.Resume, t.Attempt = bus.AgainUnheard, 0, nil, 0
		r.task, r.over, r.end, r.err, r.until, r.again = &t, false, nil, nil, time.Time{}, true
		r.bytes = 0
		r.m = reader.New(readerConfig, &t, w.now)
		r.do()
	}
}

func (r *readerPart) hear(from string, c *bus.Chunk) {
	if !r.over {
		r.m.Hear(r.w.now, from, c)
		r.do()
	}
}

func (r *readerPart) do() {
	w := r.w
	for {
		c, ok := r.m.Next()
		if !ok {
			break
		}
		r.bytes += len(c.Text)
	}
	out := r.m.Ready()
	if out.CancelTask {
		for _, d := range w.doors {
			w.say(r.part, d.part, true, func() { d.cancel(r.client, r.task.ID) })
		}
		if q := r.ask; q != nil {
			r.on(2*time.Second, func() { q.end(nil, bus.ErrClosed) })
		}
	}
	for i := range out.Controls {
		c := copied(w, &out.Controls[i].StreamControl)
		a := w.agent(out.Controls[i].Agent)
		w.say(r.part, a.part, true, func() { a.heard(r.client, c()) })
	}
	if out.Submit != nil {
		r.submit(out.Submit)
	}
	if r.m.Over() && !r.over {
		r.over, r.end, r.err = true, r.m.Result(), r.m.Err
	}
	r.due++
	if due := r.due; !out.Wake.IsZero() && !r.over {
		r.on(out.Wake.Sub(w.now), func() {
			if due == r.due {
				r.m.Step(w.now, reader.Bus{Since: r.connected()})
				r.m.Tick(w.now)
				r.do()
			}
		})
	}
}

func (r *readerPart) submit(t *bus.Task) {
	w := r.w
	if r.ask != nil {
		r.ask.end(nil, bus.ErrClosed)
	}
	r.asked++
	n := r.asked
	w.tell("%s asks, again %d, resume %v", r.name, t.Again, t.Resume)
	if t.Again == 0 || r.until.IsZero() {
		r.until = w.now.Add(11 * time.Minute)
	}
	var to []*part
	doors := map[*part]*doorPart{}
	for _, i := range w.r.Perm(len(w.doors)) {
		if d := w.doors[i]; d.there() && len(to) == 0 {
			to, doors[d.part] = append(to, d.part), d
		}
	}
	m := copied(w, t)
	r.ask = w.ask(r.part, to, false, r.until.Sub(w.now), func(p *part, inbox string) bool {
		v := m()
		v.Client = r.client
		doors[p].take(v, inbox)
		return true
	}, func(m bus.Message, err error) {
		if n != r.asked || r.over {
			return
		}
		a, _ := m.(*bus.Answer)
		r.m.Step(w.now, reader.Verdict{Answer: a, Err: err})
		r.do()
	})
}
