package gateway

import (
	"cmp"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/client"
	"souk/bus/openai"
)

// part is the answer to one of the tasks of an answer. What comes of it is taken in by whoever brings it, one
// at a time, so that nobody else need wake for it.
type part struct {
	a     *answer
	i     int
	ended func() // called once, after all of it
	known func() // nil, or called once it is known whether an agent has it, and perhaps again

	again bool     // it was held back before
	why   *refusal // then: with which words
	doubt error    // what was said when nobody knew what became of it; nil: that is known
	asked int      // how often it was sent again since

	over atomic.Bool // nothing of it is of any use any more, or until it is asked for again

	mu     sync.Mutex
	stream *client.Stream
	bought bool
	take   func(*bus.Chunk, *bus.Result) error // once something has come
	chunk  bus.Chunk                           // that came last
}

// start has its tasks asked. Where they may come again, each under its id, the first goes before the others:
// who has that one may have the others. Nobody else buys any of them, for an answer that is not given then.
func (a *answer) start() {
	left := new(atomic.Int32)
	left.Store(int32(len(a.asked.Tasks)))
	ended := func() {
		switch {
		case left.Add(-1) > 0:
		case a.asked.Stream:
			a.finish()
		default:
			go a.finish() // it writes all of the answer; who brings chunks must not wait
		}
	}
	first, n := &part{a: a, ended: ended}, len(a.asked.Tasks)
	others := func() {
		for i := 1; i < n; i++ {
			p := &part{a: a, i: i, ended: ended}
			p.begin()
		}
	}
	if n > 1 && a.named {
		first.known = sync.OnceFunc(func() {
			go func() { // who brings the news must not wait
				_, sending := a.takes()
				a.s.memory.add(sending) // as it was while the first was asked
				defer a.s.memory.add(-sending)
				others()
			}()
		})
		first.begin()
		return
	}
	first.begin()
	others()
}

// begin has the task asked. Even a panic, which net/http survives, leaves no answer open: a gateway that
// closes would wait for that for ever.
func (p *part) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		if fault := recover(); fault != nil {
			p.fail(refuse(bus.CodeInternal, "the gateway failed, which is a fault of ours: ask again"))
			panic(fault)
		}
	}()
	left := p.a.givenUp()
	switch late := p.again && p.a.late(time.Now()); {
	case (left || late) && p.doubt != nil:
		p.fail(p.doubt)
		return
	case left:
		p.fail(errLeft)
		return
	case late:
		p.fail(p.why)
		return
	}
	p.over.Store(false)
	stream, err := p.a.payer.Begin(p.a.asked.Tasks[p.i], p.news)
	if err != nil {
		p.fail(cmp.Or(p.doubt, err))
		return
	}
	p.stream = stream
	p.a.hold(p.i, stream)
}

// news is called by the stream: it takes in what has come.
func (p *part) news() {
	if p.over.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pump()
}

// verdict reports whether an agent has the task. The lock is held.
func (p *part) verdict() bool {
	if p.bought {
		return true
	}
	known, err := p.stream.Verdict()
	switch {
	case !known:
		return false
	case err != nil && p.again && p.tooLate(bus.CodeOf(err)):
		p.fail(p.why) // that it waited for
		return false
	case err != nil:
		if p.doubt != nil && bus.CodeOf(err).Unsaid() {
			err = p.doubt // as it was
		} else {
			p.doubt = nil
		}
		if !p.holdBack(err) && !p.askAgain(err) {
			p.fail(err)
		}
		return false
	}
	p.bought = true
	p.a.buy(1)
	if p.again { // there may be enough for more
		go p.a.goOn()
	}
	p.tellKnown()
	return true
}

// askedAgain is how often a task is sent again of which nobody has said what became of it.
const askedAgain = 3

// askAgain has a task sent once more, in a second, two and four, where the market says that it does not know
// what became of it: a hub that stops, or is started again, may have it. Whoever sent it is to send it again
// under its id, by which it is looked for first, and served and paid once; but who asked for it over HTTP has
// not heard of that id. It reports whether it is sent again. The lock is held.
func (p *part) askAgain(err error) bool {
	if bus.CodeOf(err) != bus.CodeUnknown || errors.Is(err, bus.ErrClosed) || p.asked == askedAgain ||
		p.a.givenUp() || p.a.late(time.Now()) {
		return false
	}
	p.letGo()
	p.doubt = err
	time.AfterFunc(time.Second<<p.asked, p.begin)
	p.asked++
	return true
}

// pump takes in the chunks that have come. The lock is held.
func (p *part) pump() {
	if p.over.Load() || !p.verdict() {
		return
	}
	for {
		var ok bool
		var err error
		if p.chunk, ok, err = p.stream.Poll(); !ok && err == nil {
			return
		}
		first := p.take == nil
		if first && (ok || err == io.EOF) {
			p.take = p.a.taker(p, p.stream.Accepted())
		}
		switch {
		case ok:
			p.a.came()
			if broken := p.take(&p.chunk, nil); broken != nil {
				p.breakOff(broken)
			}
		case err == io.EOF:
			r, _ := p.stream.Result()
			p.a.ended(p.i, &r)
			if err = p.take(nil, &r); err == nil {
				p.letGo()
				p.end()
				return
			}
		}
		if err != nil {
			p.fail(err)
			return
		}
		if first {
			p.a.poke()
		}
		if p.a.s.memory.over() > 0 {
			if p.a.s.relieve(); p.a.s.memory.full() {
				p.a.makeRoom()
			}
		}
	}
}

// breakOff ends an answer of which the gateway takes no more. The part served is paid, and the gateway waits
// for the end frame, which says how much. The lock is held.
func (p *part) breakOff(why error) {
	p.take = func(*bus.Chunk, *bus.Result) error { return nil }
	p.a.fail(asRefusal(why))
}

// fail ends the part, and with it the answer. What it costs all the same stands in its refusal. The lock is
// held.
func (p *part) fail(err error) {
	p.a.cost(p.i, err)
	unheard := p.unheard(err)
	switch {
	case unheard && p.bought:
		p.a.costUnknown()
	case p.bought:
		p.a.buy(-1)
	case p.known != nil && bus.CodeOf(err) == bus.CodeAnswerGone: // so are the others, which nobody asks for
		p.a.costUnknown()
	case unheard: // no verdict came: an agent may have it
		p.a.costUnknown()
		p.a.buy(1)
	}
	p.letGo()
	p.a.fail(asRefusal(err))
	p.tellKnown()
	p.end()
}

// unheard reports whether an error leaves the task's cost open: its result has not come, or was that nobody
// knows.
func (p *part) unheard(err error) bool {
	code := bus.CodeOf(err)
	_, said := errors.AsType[*client.Refusal](err)
	switch {
	case p.stream == nil: // it was not asked
		return false
	case errors.Is(err, bus.ErrClosed), code == bus.CodeUnknown:
		return true
	}
	// nothing is paid for an agent that failed
	return p.bought && !said && !code.Broken() && !p.a.heardEnd(p.i)
}

func (p *part) tellKnown() {
	if p.known != nil {
		p.known()
	}
}

// letGo lets go of the task. The lock is held.
func (p *part) letGo() {
	p.over.Store(true)
	if p.stream != nil {
		p.a.release(p.i)
		p.stream.Close()
	}
}

// end says that the part is complete. The lock is held.
func (p *part) end() {
	p.a.frees()
	p.ended()
}

// taker takes in what comes of a task. Only now it is known that the engine takes it, and, nearly always,
// whose it is.
func (a *answer) taker(p *part, by bus.Accepted) func(*bus.Chunk, *bus.Result) error {
	shape := a.begun(by, !p.again || a.alone())
	switch {
	case a.form != nil:
		return a.write(shape)
	case a.asked.Stream:
		return a.relay(openai.NewEvents(shape, p.i))
	}
	return a.collect(p.i)
}
