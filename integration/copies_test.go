package integration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/market"
)

// operator copies, moves and puts back directories of a hub and of the treasury, and starts and kills their
// processes, at random, while a client spends.
type operator struct {
	*stall
	r    *rand.Rand
	seed uint64
	dirs map[string][]*directory // by role
	log  []string
	// names of records, by role: those that the other side was told of, and all that anybody was
	told, all map[string]records
	lost      bool // what was taken in was lost before the other side was told of it
	alike     bool // both roles run on older copies, which no one can tell
	counts    map[string]int
	acked     map[string]bus.Code // by hold and task
	turn      chan struct{}       // lets the agent at all of this, while the operator waits

	mu    sync.Mutex
	late  *rand.Rand      // of the agent
	known map[string]bool // dispatches that it serves, or has served
}

// waits lets the agent have its turns while f waits.
func (o *operator) waits(f func()) {
	o.turn <- struct{}{}
	f()
	<-o.turn
}

// directory is an original, or a copy of one, in which a process may run.
type directory struct {
	path    string
	p       *process
	touched bool // written over or moved since its process began
	alike   bool // an older copy of the other role has worked beside its process, and may have confirmed it
}

// works reports whether its process takes something in.
func (d *directory) works(role string) bool {
	switch {
	case d.p == nil:
		return false
	case role == hubRole:
		return d.p.hub.Leading() && d.p.hub.Refuses() == ""
	default:
		return d.p.bank.Leading() && d.p.bank.Closed() == ""
	}
}

type records map[string]bool

// missing are names that are not in r. Marks say only what the other side's journal has.
func (r records) missing(names records) (all []string) {
	for name := range names {
		if !r[name] && !strings.HasPrefix(name, "mark ") {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

const hubRole, bankRole = "general", "treasury"

var otherRole = map[string]string{hubRole: bankRole, bankRole: hubRole}

// note adds a line to what a failure shows.
func (o *operator) note(format string, args ...any) {
	o.log = append(o.log, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (o *operator) fail(format string, args ...any) {
	o.t.Helper()
	for _, ds := range o.dirs {
		for _, d := range ds {
			if d.p != nil {
				o.note("%s says %s", d.path, d.p.log.String())
			}
		}
	}
	o.t.Fatalf("seed %d: %s\n%s", o.seed, fmt.Sprintf(format, args...), strings.Join(o.log, "\n"))
}

// read returns the names of a journal's records.
func (o *operator) read(path string) records {
	all := records{}
	err := journal.Read(path, func(f ledger.Frame) error {
		for _, r := range f.Records {
			all[fmt.Sprintf("%v %s %x", r.Kind, r.ID, r.Salt)] = true
		}
		return nil
	})
	if err != nil {
		o.fail("%s: %v", path, err)
	}
	return all
}

// working finds the directory on which a role's leader takes something in.
func (o *operator) working(role string) *directory {
	for _, d := range o.dirs[role] {
		if !d.touched && d.works(role) {
			return d
		}
	}
	return nil
}

// confirms notes, where the process of a directory works, and what it writes lacks what the other side was
// told of, that it may confirm those that run beside it.
func (o *operator) confirms(role string, d *directory, written string) {
	if !d.works(role) || !lacksAny(o.read(written), o.told[role]) {
		return
	}
	for _, other := range o.dirs[otherRole[role]] {
		other.alike = other.p != nil
	}
}

// tells is longer than it takes until hub and treasury have told each other all.
const tells = 7 * time.Second

// pass lets time pass, and notes what the two sides have told each other.
func (o *operator) pass(d time.Duration) {
	for ; d > 0; d -= tells {
		hub, bank := o.working(hubRole), o.working(bankRole)
		o.waits(func() { time.Sleep(min(d, tells)) }) // virtual
		for role := range otherRole {
			if at := o.working(role); at != nil {
				o.confirms(role, at, at.path)
			}
		}
		if d < tells || hub == nil || bank == nil || o.working(hubRole) != hub ||
			o.working(bankRole) != bank {
			continue
		}
		for role, at := range map[string]*directory{hubRole: hub, bankRole: bank} {
			for name := range o.read(at.path) {
				if o.all[role][name] || strings.HasPrefix(name, "mark ") {
					o.told[role][name] = true
				}
			}
		}
	}
}

// judge fails where what was just taken in stands in a journal that lacks what the other side was told of.
func (o *operator) judge(role string, at *directory, what string) {
	o.t.Helper()
	if at == nil {
		o.fail("%s was acknowledged, and is nowhere", what)
	}
	have := o.read(at.path)
	other := o.working(otherRole[role])
	if missing := have.missing(o.told[role]); len(missing) > 0 {
		if at.alike || other != nil && lacksAny(o.read(other.path), o.told[otherRole[role]]) {
			o.counts["both alike old"]++
			o.alike = true
			return
		}
		o.fail("%s is taken in %s, which lacks %d records that the other side was told of: %v", what, at.path,
			len(missing), missing)
	}
	maps.Copy(o.all[role], have)
	if other != nil {
		maps.Copy(o.all[otherRole[role]], o.read(other.path))
	}
}

// lacksAny minds marks, too.
func lacksAny(have, want records) bool {
	for name := range want {
		if !have[name] {
			return true
		}
	}
	return false
}

// find is the directory whose running process has a record that names what.
func (o *operator) find(role, what string) (at *directory) {
	for _, d := range o.dirs[role] {
		if d.p == nil || at != nil {
			continue
		}
		_ = journal.Read(d.path, func(f ledger.Frame) error { // one that was moved away cannot be read
			for _, r := range f.Records {
				if strings.Contains(r.ID, what) || r.Hold != nil && r.Hold.Task == what {
					at = d
				}
			}
			return nil
		})
	}
	return at
}

func (o *operator) begin(role string, d *directory) {
	if d.p != nil {
		return
	}
	o.note("start %s on %s", role, d.path)
	d.touched, d.alike = false, false
	var p *process
	o.waits(func() {
		if role == bankRole {
			p = o.treasury(d.path, nil)
		} else {
			p = o.hub(hubRole, d.path)
		}
	})
	d.p = p
}

// end kills the process of a directory, whose journal may be elsewhere by now.
func (o *operator) end(role string, d *directory, written string) {
	if d.p != nil {
		o.confirms(role, d, written)
		o.note("kill %s", d.path)
		o.waits(d.p.kill)
		d.p = nil
	}
}

// answer acts as the agent: it serves a dispatch after a while, and repeats its completion until that is
// acknowledged.
func (o *operator) answer(m bus.Msg) {
	var d bus.Dispatch
	if err := bus.Decode(m.Data, &d); err != nil {
		o.t.Error(err)
		return
	}
	o.mu.Lock()
	known := o.known[d.Hold+d.Task.ID]
	o.known[d.Hold+d.Task.ID] = true
	wait := time.Duration(o.late.IntN(40)) * time.Second
	o.mu.Unlock()
	data, err := bus.Encode(&bus.DispatchReply{Agent: "a-1", Boot: d.Boot, Hold: d.Hold})
	if err == nil {
		err = o.me.Publish(bus.Msg{Subject: m.Reply, Data: data})
	}
	if err != nil {
		o.t.Error(err)
	}
	if !known {
		go o.report(&d, wait)
	}
}

func (o *operator) report(d *bus.Dispatch, wait time.Duration) {
	u := market.Usage{Prompt: 100, Output: 10}
	done := &bus.Completion{Agent: "a-1", Boot: 1, Hold: d.Hold, Client: d.Task.Client, Task: d.Task.ID,
		Outcome: bus.OutcomeDone, Finish: "stop", Usage: u, Relayed: 10, TTFTUS: 1, ITLUS: 1,
		Cost: market.Settle(d.Settle, d.Price, d.Tariff, d.Quoted, u, d.CostCap)}
	data, err := bus.Encode(done)
	if err != nil {
		o.t.Error(err)
		return
	}
	for ; ; wait = 5 * time.Second {
		select {
		case <-time.After(wait):
		case <-o.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(o.ctx, 2*time.Second)
		m, err := o.me.Request(ctx, bus.Msg{Subject: bus.CompletionSubject(d.Domain, "a-1"), Data: data})
		cancel()
		var ack bus.CompletionAck
		if err != nil || bus.Decode(m.Data, &ack) != nil || ack.Hold != d.Hold {
			continue
		}
		select {
		case <-o.turn:
		case <-o.ctx.Done():
			return
		}
		told := ack.Code == ""
		for name := range o.told[hubRole] {
			told = told || strings.HasPrefix(name, "hold "+d.Hold+" ")
		}
		at := o.find(hubRole, d.Task.ID)
		if told {
			o.acked[d.Hold+" "+d.Task.ID] = ack.Code
		}
		if at != nil && ack.Code == "" {
			maps.Copy(o.all[hubRole], o.read(at.path))
		}
		o.turn <- struct{}{}
		return
	}
}

// untold reports whether something was taken in of which the other side was not told.
func (o *operator) untold() bool {
	return len(o.told[hubRole].missing(o.all[hubRole])) > 0 ||
		len(o.told[bankRole].missing(o.all[bankRole])) > 0
}

// step does something at random.
func (o *operator) step() {
	role := []string{hubRole, hubRole, bankRole}[o.r.IntN(3)]
	ds := o.dirs[role]
	d := ds[o.r.IntN(len(ds))]
	what := o.r.IntN(12)
	if what >= 7 && what <= 9 { // who kills, or writes over, lets the last seconds be told before
		for i := 0; i < 3 && o.untold(); i++ {
			o.pass(tells)
		}
		o.lost = o.lost || o.untold()
	}
	switch what {
	case 0, 1:
		o.buy()
	case 2, 3:
		o.tasks++
		id := fmt.Sprint("d", o.tasks)
		var r bus.FundsReply
		q := bus.FundsRequest{ID: id, Client: "ann", Amount: market.Credit}
		var err error
		o.waits(func() { err = o.try(bus.LedgerSubject(bus.OpDeposit, o.me.Name()), &q, &r) })
		if err == nil && r.Code == "" {
			o.note("deposit %s", id)
			o.counts["deposits"]++
			o.judge(bankRole, o.find(bankRole, id), id)
		}
	case 4:
		if len(ds) < 4 {
			o.keep(role, d)
		}
	case 5, 6:
		o.begin(role, d)
	case 7:
		o.end(role, d, d.path)
		if o.r.IntN(4) > 0 {
			o.begin(role, ds[o.r.IntN(len(ds))])
		}
	case 8:
		o.putSegments(role, d, ds[o.r.IntN(len(ds))])
	case 9:
		o.move(role, d)
	case 10:
		o.pass(time.Duration(o.r.IntN(20)) * time.Second)
	case 11:
		o.pass(time.Duration(o.r.IntN(200)) * time.Second)
	}
}

// keep makes a copy.
func (o *operator) keep(role string, d *directory) {
	to := o.copied(d.path)
	o.note("copy %s to %s", d.path, to)
	o.dirs[role] = append(o.dirs[role], &directory{path: to})
}

// whole reports whether a directory has all that was ever taken in.
func (o *operator) whole(role string, d *directory) bool {
	return len(o.read(d.path).missing(o.all[role])) == 0
}

// putSegments puts the segments of one directory into another, behind LOCK and LIVES. The last one that has
// all is kept.
func (o *operator) putSegments(role string, d, from *directory) {
	if from == d || d.p != nil {
		return
	}
	others := slices.DeleteFunc(slices.Clone(o.dirs[role]), func(e *directory) bool {
		return e == d || !o.whole(role, e)
	})
	if len(others) == 0 && o.whole(role, d) {
		o.keep(role, d)
	}
	o.note("segments of %s into %s", from.path, d.path)
	wal := filepath.Join(d.path, "wal")
	if os.RemoveAll(wal) != nil || os.CopyFS(wal, os.DirFS(filepath.Join(from.path, "wal"))) != nil {
		o.fail("segments are not copied")
	}
	d.touched = true
}

// move moves a directory away, and back, or leaves a copy of another in its place.
func (o *operator) move(role string, d *directory) {
	ds := o.dirs[role]
	o.tasks++
	away := fmt.Sprint(d.path, ".away", o.tasks)
	o.note("move %s away", d.path)
	if err := os.Rename(d.path, away); err != nil {
		o.fail("%v", err)
	}
	d.touched = d.touched || d.p != nil
	if o.r.IntN(2) == 0 {
		o.pass(time.Duration(o.r.IntN(3000)) * time.Millisecond)
	}
	if from := ds[o.r.IntN(len(ds))]; o.r.IntN(3) == 0 && from != d {
		o.note("%s comes to %s", from.path, d.path)
		if err := os.CopyFS(d.path, os.DirFS(from.path)); err != nil {
			o.fail("%v", err)
		}
		o.pass(3 * time.Second)
		o.end(role, d, away)
		if len(ds) < 5 {
			o.dirs[role] = append(ds, &directory{path: away})
			return
		}
		if o.whole(role, d) {
			return
		}
	}
	if err := os.RemoveAll(d.path); err != nil { // what its process made there meanwhile
		o.fail("%v", err)
	}
	if err := os.Rename(away, d.path); err != nil {
		o.fail("%v", err)
	}
	o.end(role, d, d.path)
}

// buy has the hub serve a task.
func (o *operator) buy() {
	m := o.task(hubRole, "ann")
	var a bus.Answer
	var err error
	o.waits(func() { err = o.try(bus.HubTaskSubject("general", "door"), m, &a) })
	if err != nil || a.Accepted == nil {
		return
	}
	o.note("task %s is accepted", m.ID)
	o.counts["tasks"]++
	o.judge(hubRole, o.find(hubRole, m.ID), m.ID)
}

// finish starts one of those that have all for each role, and fails where the market then does not work, or
// what was acknowledged is not paid. Where none has all, or something was lost untold, it has nothing to ask.
func (o *operator) finish() {
	for role, ds := range o.dirs {
		for _, d := range ds {
			o.end(role, d, d.path)
		}
		i := slices.IndexFunc(ds, func(d *directory) bool { return o.whole(role, d) })
		if i < 0 {
			return
		}
		o.begin(role, ds[i])
	}
	if o.lost {
		return
	}
	o.pass(3 * time.Minute)
	at := o.working(hubRole)
	if at == nil || o.working(bankRole) == nil {
		o.fail("those that have all do not work")
	}
	o.waits(func() { time.Sleep(2 * time.Minute) }) // virtual
	o.counts["finished"]++
	held, paid := map[string]string{}, map[string]bool{}
	err := journal.Read(at.path, func(f ledger.Frame) error {
		for _, r := range f.Records {
			switch {
			case r.Hold != nil && r.Kind == ledger.KindHold:
				held[strings.TrimSuffix(r.ID, "/hold")] = r.Hold.Task
			case r.Kind == ledger.KindCapture:
				hold, _, _ := strings.Cut(r.ID, "/capture")
				paid[hold] = true
			}
		}
		return nil
	})
	if err != nil {
		o.fail("%v", err)
	}
	for id, code := range o.acked {
		hold, task, _ := strings.Cut(id, " ")
		if held[hold] != task { // of another history
			continue
		}
		o.counts["acknowledged"]++
		if code != "" || !paid[hold] {
			o.fail("hold %s of %s was acknowledged %q, and paid: %v", hold, task, code, paid[hold])
		}
	}
}

// Copies of a hub's and the treasury's directories are made, put back and started at random, over and beside
// the originals. What one side was told of is never missing where the other takes something in, but where
// both are older copies alike. In the end those that have all work, and pay what they acknowledged.
func TestCopiesAtRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	seeds := 3
	if os.Getenv("SOUK_SOAK") != "" {
		seeds = 300
	}
	counts := map[string]int{}
	for range seeds {
		seed := rand.Uint64() >> 20
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inStall(t, func(s *stall) { copiesAtRandom(s, seed, counts) })
		})
		if t.Failed() {
			break
		}
	}
	t.Log(counts)
}

func copiesAtRandom(s *stall, seed uint64, counts map[string]int) {
	o := &operator{stall: s, r: rand.New(rand.NewPCG(seed, 1)), seed: seed, counts: counts,
		dirs:  map[string][]*directory{},
		told:  map[string]records{hubRole: {}, bankRole: {}},
		all:   map[string]records{hubRole: {}, bankRole: {}},
		known: map[string]bool{}, acked: map[string]bus.Code{}, turn: make(chan struct{}, 1),
		late: rand.New(rand.NewPCG(seed, 2))}
	for role := range otherRole {
		o.dirs[role] = []*directory{{path: s.dir(role)}}
	}
	s.agent, s.ends = o.answer, true
	o.begin(bankRole, o.dirs[bankRole][0])
	s.fund("ann", 400*market.Credit)
	o.judge(bankRole, o.dirs[bankRole][0], "the first deposit")
	o.begin(hubRole, o.dirs[hubRole][0])
	o.buy()
	o.pass(tells)
	for i := 0; i < 60 && !o.alike; i++ {
		o.step()
	}
	if !o.alike {
		o.finish()
	}
}
