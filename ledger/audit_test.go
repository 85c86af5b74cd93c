package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"souk/market"
)

func TestAHonestJournalHasNoFindings(t *testing.T) {
	for seed := range uint64(5) {
		hub, treasury := trade(t, seed, 300)
		foresee(hub.frames)
		h, tr := audit("h", MaxLevel, store(hub.frames)), audit("t", MaxLevel, store(treasury.frames))
		for _, r := range []Report{h.Finish(), tr.Finish()} {
			for _, f := range r.Findings {
				t.Errorf("seed %d: %s", seed, f)
			}
		}
		for _, f := range Across(tr, []*Audit{h}) {
			t.Errorf("seed %d: %s", seed, f)
		}
		r := h.Finish()
		if r.Rounds < 50 || r.Open != 0 || r.Payments != r.Earned+r.Surplus+r.Fees || r.Surplus == 0 ||
			r.Fees == 0 {
			t.Errorf("seed %d: report %+v", seed, r)
		}
	}
}

// Each mutation of a good journal is found at exactly its level, under its invariant, and no level below sees
// it.
func TestEveryKindOfFraudIsFound(t *testing.T) {
	// first returns the first record of a kind after some rounds, and its frame.
	first := func(frames []Frame, k Kind) (*Frame, *Record) {
		for i := 30; i < len(frames); i++ {
			for j := range frames[i].Records {
				if frames[i].Records[j].Kind == k {
					return &frames[i], &frames[i].Records[j]
				}
			}
		}
		panic("no " + k.String())
	}
	holdOf := func(frames []Frame, id string) *Record {
		for i := range frames {
			for j := range frames[i].Records {
				if frames[i].Records[j].ID == id {
					return &frames[i].Records[j]
				}
			}
		}
		panic("no record " + id)
	}
	contested := func(frames []Frame) (*Frame, *Record) {
		for i := range frames {
			if r := frames[i].Records[0]; r.Kind == KindRound && len(r.Round.Outcome.Prices) > 0 {
				return &frames[i], &frames[i].Records[0]
			}
		}
		panic("no contested round")
	}
	foreseen := func(frames []Frame) *Record {
		for i := range frames {
			if r := &frames[i].Records[0]; r.Kind == KindRound && len(r.Round.Seen) > 0 {
				return r
			}
		}
		panic("no round says what was expected")
	}
	renumber := func(frames []Frame) {
		for i := range frames {
			frames[i].Seq = uint64(i + 1)
		}
	}
	for _, fraud := range []struct {
		name      string
		level     int
		invariant string
		commit    func(frames []Frame) []Frame
	}{
		{"a frame is missing", 0, "I7", func(f []Frame) []Frame { return slices.Delete(f, 40, 41) }},
		{"a frame stands twice", 0, "I7", func(f []Frame) []Frame { return slices.Insert(f, 40, f[39]) }},
		{"a deposed writer", 0, "I7", func(f []Frame) []Frame { f[40].Epoch = 0; return f }},
		{"a clock that went back", 0, "I7", func(f []Frame) []Frame { f[40].Time -= 5000; return f }},
		{"a round is missing", 2, "I9", func(f []Frame) []Frame {
			fr, _ := first(f, KindRound)
			fr.Records = fr.Records[1:]
			return f
		}},
		{"a hold is missing", 2, "I9", func(f []Frame) []Frame {
			fr, _ := first(f, KindRound)
			fr.Records = fr.Records[:1]
			if len(fr.Records) == 0 {
				panic("empty")
			}
			return f
		}},
		{"a round of another chain", 2, "I12", func(f []Frame) []Frame {
			_, r := first(f, KindRound)
			r.Round.Round.Prev[5] ^= 1
			return f
		}},
		{"a hold of a kind that there is not", 2, "I9", func(f []Frame) []Frame {
			fr, _ := first(f, KindRound)
			fr.Records[1].Hold.Kind = "gift"
			return f
		}},
		{"paid for what failed", 2, "I9", func(f []Frame) []Frame {
			_, r := first(f, KindCapture)
			r.Capture.Outcome = "failed"
			return f
		}},
		{"captured twice", 2, "I10", func(f []Frame) []Frame {
			fr, r := first(f, KindCapture)
			fr.Records = append(fr.Records, *r)
			return f
		}},
		{"captured and voided", 2, "I3", func(f []Frame) []Frame {
			fr, r := first(f, KindCapture)
			h := holdOf(f, r.Capture.Hold).Hold
			fr.Records = append(fr.Records, NewVoid("hub-maths", *h, "timeout", r.Salt))
			return f
		}},
		{"captured more than held", 2, "I4", func(f []Frame) []Frame {
			_, r := first(f, KindCapture)
			h := holdOf(f, r.Capture.Hold).Hold
			c := *r.Capture
			c.Cost = h.Amount - h.Premium + 1
			*r = NewCapture("hub-maths", *h, c, r.Salt)
			return f
		}},
		{"money that was never allotted", 2, "I2", func(f []Frame) []Frame {
			for i := 1; i <= 12; i++ {
				r := &f[i].Records[0]
				*r = NewAccept("hub-maths", r.Transfer.Number, r.Transfer.Client, 1, r.Salt)
			}
			return f
		}},
		{"an allotment accepted twice", 2, "I10", func(f []Frame) []Frame {
			return slices.Insert(f, 40, Frame{Version: 1, Epoch: 1, Time: f[40].Time, Records: f[3].Records})
		}},
		{"an allotment skipped", 2, "I11", func(f []Frame) []Frame { return slices.Delete(f, 5, 6) }},
		{"a deposit at a hub", 2, "I7", func(f []Frame) []Frame {
			f[40].Records = append(f[40].Records, NewDeposit("x", "ann", 5, nil, [16]byte{}))
			return f
		}},
		{"legs that do not sum to zero", 3, "I1", func(f []Frame) []Frame {
			_, r := first(f, KindCapture)
			r.Legs[1].Amount++
			return f
		}},
		{"surplus paid to an agent", 3, "I5", func(f []Frame) []Frame {
			_, r := first(f, KindCapture)
			for i := range r.Legs {
				if r.Legs[i].Account == Fee {
					r.Legs[i].Account = Payable("agent-9")
				}
			}
			return f
		}},
		{"another client charged", 3, "I5", func(f []Frame) []Frame {
			_, r := first(f, KindCapture)
			for i := range r.Legs {
				if strings.HasPrefix(r.Legs[i].Account, "client:") {
					r.Legs[i].Account = Avail("client-x")
				}
			}
			return f
		}},
		{"a premium above the certified price", 4, "I6", func(f []Frame) []Frame {
			_, r := first(f, KindHold)
			h := *r.Hold
			h.Premium++
			h.Amount++
			*r = newHold("hub-maths", h, r.Salt)
			return fixCapture(f, h)
		}},
		{"a slot price of the hub's own", 4, "I6", func(f []Frame) []Frame {
			fr, r := contested(f)
			r.Round.Outcome.Prices[0].Price++
			_ = fr
			return f
		}},
		{"an award to a friend", 4, "I6", func(f []Frame) []Frame {
			_, r := contested(f)
			r.Round.Outcome.Awards[0].Agent,
				r.Round.Outcome.Awards[1].Agent = r.Round.Outcome.Awards[1].Agent,
				r.Round.Outcome.Awards[0].Agent
			return f
		}},
		{"a quote that its card does not give", 6, "I5", func(f []Frame) []Frame {
			_, r := first(f, KindHold)
			h := *r.Hold
			h.Prompt, h.Cached = h.Prompt+2, h.Cached+2
			*r = newHold("hub-maths", h, r.Salt)
			return f
		}},
		{"an agent that claims what cannot be", 6, "I5", func(f []Frame) []Frame {
			_, r := first(f, KindCapture)
			r.Capture.Claim = &Claim{Usage: r.Capture.Usage, Relayed: 3, Cost: r.Capture.Cost + 1}
			return f
		}},
		{"a claim set aside that can well be", 6, "I5", func(f []Frame) []Frame {
			_, r := first(f, KindCapture)
			r.Capture.Claim = &Claim{Usage: r.Capture.Usage, Relayed: 3, Cost: r.Capture.Cost}
			return f
		}},
		{"an engine whose usage is not what its ids say", 6, "I5", func(f []Frame) []Frame {
			_, r := first(f, KindCapture)
			r.Capture.Said = &market.Usage{Prompt: 5 * r.Capture.Usage.Prompt, Output: 50}
			return f
		}},
		{"a cost that usage does not explain", 6, "I5", func(f []Frame) []Frame {
			_, r := first(f, KindCapture)
			h := holdOf(f, r.Capture.Hold).Hold
			c := *r.Capture
			c.Cost++
			*r = NewCapture("hub-maths", *h, c, r.Salt)
			return f
		}},
		{"expected otherwise than set aside for", 4, "I6", func(f []Frame) []Frame {
			r := foreseen(f)
			i := slices.IndexFunc(r.Round.Round.Edges, func(e market.Edge) bool {
				aw := r.Round.Outcome.Awards[0]
				return r.Round.Round.Tasks[e.Task].ID == aw.Task &&
					r.Round.Round.Agents[e.Agent].Agent == aw.Agent
			})
			r.Round.Seen[i].Cached++
			return f
		}},
		{"misses billed for hits", 6, "I5", func(f []Frame) []Frame {
			_, r := first(f, KindCapture)
			h := holdOf(f, r.Capture.Hold).Hold
			c := *r.Capture
			c.Usage.Cached++
			*r = NewCapture("hub-maths", *h, c, r.Salt)
			return f
		}},
	} {
		t.Run(fraud.name, func(t *testing.T) {
			hub, _ := trade(t, 3, 300)
			foresee(hub.frames)
			frames := fraud.commit(hub.frames)
			if fraud.level > 0 {
				renumber(frames)
			}
			data := store(frames)
			if fraud.level > 0 && fraud.level != LevelState {
				below := audit("h", fraud.level-1, data).Finish()
				if below.Count != 0 {
					t.Errorf("level %d found %v", fraud.level-1, below.Findings[0])
				}
			}
			r := audit("h", fraud.level, data).Finish()
			if r.Count == 0 {
				t.Fatalf("level %d found nothing", fraud.level)
			}
			f := r.Findings[0]
			if f.Level != fraud.level || f.Invariant != fraud.invariant || f.Expected == "" ||
				f.Found == "" ||
				!strings.HasPrefix(f.Show, "ledger ") {
				t.Errorf("found level %d: %s", f.Level, f)
			}
		})
	}
}

// Tasks of a client that a round prices as another's pay more, or less, for the same slots. The certificate
// of such a round is right, and the audit says whose they are.
func TestTasksPricedAsAnothersAreFound(t *testing.T) {
	premiums := map[string]market.Credits{}
	for _, as := range []string{"ann", "bob"} {
		d := newDesk(t, "hub-maths", RoleHub)
		d.must(NewAccept(d.name, 1, "ann", 10_000_000, d.nextSalt()))
		records := d.oneRound(2, market.Task{ID: "ann/t1", Client: as},
			market.Task{ID: "ann/t2", Client: "ann"}, market.Task{ID: "ann/t3", Client: "ann"})
		premiums[as] = records[1].Hold.Premium
		d.must(records...)
		for level := range MaxLevel + 1 {
			found := audit("h", level, store(d.frames)).Finish().Findings
			if as == "ann" || level < LevelAuctions {
				if len(found) > 0 {
					t.Errorf("as of %s: level %d finds %v", as, level, found)
				}
				continue
			}
			if len(found) != 1 || found[0].Invariant != "I6" || found[0].Record != RoundID(d.name, 1) ||
				found[0].Found != `task ann/t1 as one of "bob"` {
				t.Errorf("level %d finds %v", level, found)
			}
		}
	}
	if premiums["ann"] >= premiums["bob"] {
		t.Errorf("ann pays %s, and %s by the forged round: the test sees nothing", premiums["ann"],
			premiums["bob"])
	}
}

// At posted prices clients stand in line by name, whatever the rule for several tasks, so there each task has
// to name its own, too.
func TestTasksOfNobodyAreFound(t *testing.T) {
	for client, want := range map[string]int{"ann": 0, "": 1, "bob": 1} {
		r := market.Round{Domain: "maths", Number: 1, Tasks: []market.Task{{ID: "ann/t1", Client: client}},
			Rule: market.Rule{Pricing: market.PricingPosted, Settle: market.SettleMetered,
				Clarke: market.ClarkeTask}}
		c := RoundCheck{Journal: "h", Domain: r.Domain, Round: &Round{Round: r, Outcome: clearRound(t, r)}}
		if found := c.Findings(); len(found) != want {
			t.Errorf("a task of ann that names %q: found %v", client, found)
		}
	}
}

// fixCapture makes the end of hold h agree with it.
func fixCapture(frames []Frame, h Hold) []Frame {
	id := HoldID("hub-maths", h.Round, h.Slot)
	for i := range frames {
		for j := range frames[i].Records {
			switch r := &frames[i].Records[j]; {
			case r.Capture != nil && r.Capture.Hold == id:
				*r = NewCapture("hub-maths", h, *r.Capture, r.Salt)
			case r.Void != nil && r.Void.Hold == id:
				*r = NewVoid("hub-maths", h, r.Void.Reason, r.Salt)
			}
		}
	}
	return frames
}

func TestFraudBetweenJournals(t *testing.T) {
	for name, fraud := range map[string]func(hub, treasury *desk){
		"a grant that the treasury never gave": func(h, tr *desk) {
			n := h.book.LastGrant(h.name) + 1
			h.must(NewAccept(h.name, n, "client-0", 5, h.nextSalt()))
		},
		"more accepted than granted": func(h, tr *desk) {
			n := h.book.LastGrant(h.name) + 1
			tr.must(NewGrant(h.name, n, "client-0", 5, "", tr.nextSalt()))
			h.must(NewAccept(h.name, n, "client-0", 6, h.nextSalt()))
		},
		"granted to one and accepted for another": func(h, tr *desk) {
			n := h.book.LastGrant(h.name) + 1
			tr.must(NewGrant(h.name, n, "client-0", 5, "", tr.nextSalt()))
			h.must(NewAccept(h.name, n, "client-1", 5, h.nextSalt()))
		},
		"a return that the hub never made": func(h, tr *desk) {
			tr.must(NewReclaim(h.name, tr.book.LastReturn(h.name)+1, "client-0", 5, tr.nextSalt()))
		},
		"surplus that never left the hub": func(h, tr *desk) {
			tr.must(tr.book.NewOrder(h.name, distribution(1, "client-0", 5), tr.nextSalt()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub, treasury := trade(t, 1, 100)
			fraud(hub, treasury)
			h, tr := audit("h", MaxLevel, store(hub.frames)), audit("t", MaxLevel, store(treasury.frames))
			if n := h.Finish().Count + tr.Finish().Count; n != 0 {
				t.Errorf("%d findings in single journals: each is legal by itself", n)
			}
			found := Across(tr, []*Audit{h})
			if len(found) != 1 || found[0].Invariant != "I11" {
				t.Errorf("found %v", found)
			}
		})
	}
	t.Run("the same journal twice", func(t *testing.T) {
		hub, treasury := trade(t, 1, 100)
		h, tr := store(hub.frames), store(treasury.frames)
		found := Across(audit("t", 6, tr), []*Audit{audit("h", 6, h), audit("copy", 6, h)})
		if len(found) != 1 || found[0].Invariant != "I7" {
			t.Errorf("found %v", found)
		}
	})
	t.Run("charged more than was ever allotted", func(t *testing.T) {
		hub, treasury := trade(t, 1, 100)
		poor := newDesk(t, treasury.name, RoleTreasury)
		for _, f := range treasury.frames[1:] {
			r := f.Records[0]
			if r.Kind == KindGrant {
				r = NewGrant(hub.name, r.Transfer.Number, r.Transfer.Client, 1, "", r.Salt)
			}
			if r.Kind != KindReclaim {
				poor.must(r)
			}
		}
		count := map[string]int{}
		for _, f := range Across(audit("t", MaxLevel, store(poor.frames)),
			[]*Audit{audit("h", MaxLevel, store(hub.frames))}) {
			count[f.Invariant]++
		}
		if count["I11"] != 12 || count["I18"] == 0 {
			t.Errorf("found %v, want 12 grants that differ and clients charged beyond them", count)
		}
	})
	t.Run("written while it is read", func(t *testing.T) {
		hub, treasury := trade(t, 1, 100)
		h := audit("h", MaxLevel, store(hub.frames))
		h.Mark()
		tr := audit("t", MaxLevel, store(treasury.frames))
		// Meanwhile: granted, accepted, returned, reclaimed; of the treasury nothing more is read.
		before := len(hub.frames)
		hub.must(NewAccept(hub.name, hub.book.LastGrant(hub.name)+1, "client-0", 5, hub.nextSalt()))
		for _, s := range store(hub.frames[before:]) {
			h.Frame(s.seq, s.epoch, s.data)
		}
		for _, f := range Across(tr, []*Audit{h}) {
			t.Error(f)
		}
	})
	t.Run("a journal that is not here", func(t *testing.T) {
		hub, treasury := trade(t, 1, 100)
		h, tr := audit("h", MaxLevel, store(hub.frames)), audit("t", MaxLevel, store(treasury.frames))
		if absent := Absent(tr, nil); len(absent) != 1 || absent[0].Journal != hub.name ||
			absent[0].By != "treasury" || absent[0].Record != hub.name+"/grant/1" {
			t.Errorf("%v", absent)
		}
		if absent := Absent(tr, []*Audit{h}); len(absent) != 0 {
			t.Errorf("%v", absent)
		}
		if absent := Absent(nil, []*Audit{h}); len(absent) != 1 || absent[0].Journal != "treasury" ||
			absent[0].By != hub.name {
			t.Errorf("%v", absent)
		}
		idle := newDesk(t, "hub-idle", RoleHub) // it has had nothing from anybody
		if absent := Absent(nil, []*Audit{audit("h", MaxLevel, store(idle.frames))}); len(absent) != 0 {
			t.Errorf("%v", absent)
		}
	})
	t.Run("in flight is no fraud", func(t *testing.T) {
		hub, treasury := trade(t, 1, 100)
		treasury.must(NewGrant(hub.name, treasury.book.LastGrant(hub.name)+1, "client-0", 5, "",
			treasury.nextSalt()))
		hub.must(NewReturn(hub.name, hub.book.LastReturn(hub.name)+1, "client-0", 5, hub.nextSalt()))
		if found := Across(audit("t", 6, store(treasury.frames)),
			[]*Audit{audit("h", 6, store(hub.frames))}); len(found) != 0 {
			t.Errorf("found %v", found)
		}
	})
}

func TestBytesThatAreNoFrame(t *testing.T) {
	hub, _ := trade(t, 2, 100)
	data := store(hub.frames)
	data[20].data = data[20].data[:len(data[20].data)-3]
	r := audit("h", MaxLevel, data).Finish()
	if len(r.Findings) == 0 || !r.Findings[0].Damage || r.Findings[0].Seq != data[20].seq {
		t.Errorf("findings %v, want damage in frame %d first", r.Findings, data[20].seq)
	}
}

func TestFindingsAreBounded(t *testing.T) {
	a := NewAudit("h", 0)
	for seq := range uint64(5000) {
		a.Frame(seq*2+2, 1, []byte{9})
	}
	if r := a.Finish(); len(r.Findings) != MaxFindings || r.Count != 5000 {
		t.Errorf("%d findings kept of %d", len(r.Findings), r.Count)
	}
}

// Levels 0 to 3 take no memory for a record, and keep none.
func TestAnAuditTakesNoMemoryForARecord(t *testing.T) {
	hub, _ := trade(t, 3, 4000)
	data := store(hub.frames)
	var a *Audit
	if n := testing.AllocsPerRun(3, func() { a = audit("h", LevelConservation, data) }); n > 600 {
		t.Errorf("%.0f allocations for 4000 records", n)
	}
	if r := a.Finish(); r.Count > 0 || len(a.book.used) > 0 || len(a.dec.room.holds) > 64 {
		t.Errorf("%d findings; %d uses and %d holds are kept, though none is open", r.Count, len(a.book.used),
			len(a.dec.room.holds))
	}
}

// Rounds that are read into memory of others' are those that were written.
func TestRoundsAreReadIntoUsedMemory(t *testing.T) {
	hub, _ := trade(t, 4, 1500)
	foresee(hub.frames)
	frames := append(hub.frames, newBazaar(t, 5).trade(3)...)
	var used Round
	s := &market.Strings{Pieces: true}
	rounds := 0
	for i := range frames {
		for _, r := range frames[i].Records {
			if r.Kind != KindRound {
				continue
			}
			d := decode(AppendRecord(nil, &r))
			var left raw
			d.body(new(Record), &left)
			if err := left.open(&used, s); err != nil {
				t.Fatal(err)
			}
			again := Record{Kind: KindRound, ID: r.ID, Salt: r.Salt, Round: &used}
			if got := AppendRecord(nil, &again); string(got) != string(AppendRecord(nil, &r)) {
				t.Fatalf("frame %d: read %+v, want %+v", i, used, *r.Round)
			}
			rounds++
		}
	}
	if rounds < 300 {
		t.Errorf("%d rounds", rounds)
	}
}

func benchJournal(b *testing.B, n int) ([]stored, int) {
	hub, _ := tradeOn(b, 1, n, true)
	size := 0
	for _, f := range hub.stored {
		size += len(f.data)
	}
	b.Logf("%d frames, %d records, %d bytes a record", len(hub.stored), hub.records, size/hub.records)
	return hub.stored, hub.records
}

// cpu is the processor time of this process, collector included: what counts on a machine shared with others.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func perCPU(b *testing.B, start time.Duration, each int, unit string) {
	b.ReportMetric(float64(each)*float64(b.N)/(cpu()-start).Seconds(), unit)
}

func BenchmarkLevels0to3(b *testing.B) {
	data, records := benchJournal(b, 300_000)
	b.ReportAllocs()
	b.ResetTimer()
	start := cpu()
	for b.Loop() {
		if r := audit("h", LevelConservation, data).Finish(); r.Count != 0 {
			b.Fatal(r.Findings[0])
		}
	}
	perCPU(b, start, records, "records/cpu-s")
}

func BenchmarkLevel4(b *testing.B) {
	data, _ := benchJournal(b, 50_000)
	rounds := uint64(0)
	b.ReportAllocs()
	b.ResetTimer()
	start := cpu()
	for b.Loop() {
		r := audit("h", LevelAuctions, data).Finish()
		if rounds = r.Rounds; r.Count != 0 {
			b.Fatal(r.Findings[0])
		}
	}
	perCPU(b, start, int(rounds), "rounds/cpu-s")
}

// crowded writes a journal of rounds of 64 tasks that may each have a slot of 16 agents, and all get one.
func crowded(b *testing.B, rounds int) []stored {
	rng := rand.New(rand.NewPCG(9, 9))
	hub := newDesk(b, "hub-maths", RoleHub)
	hub.keep = true
	hub.stored, hub.frames = store(hub.frames), nil
	for i := range 64 {
		hub.must(NewAccept(hub.name, uint64(i+1), fmt.Sprintf("client-%05d", i), 100_000*market.Credit,
			hub.nextSalt()))
	}
	for n := range rounds {
		number, prev := hub.book.LastRound()
		r := market.Round{Domain: "maths", Number: number + 1, Prev: prev, Rule: market.DefaultRule,
			Fee: 1000}
		for a := range 16 {
			r.Agents = append(r.Agents, market.Supply{Agent: market.AgentID(fmt.Sprintf("agent-%04d", a)),
				Seats: []market.Seat{{Slots: 4}}})
		}
		for j := range 64 {
			client := fmt.Sprintf("client-%05d", j)
			r.Tasks = append(r.Tasks,
				market.Task{ID: market.TaskID(fmt.Sprintf("%s/t%d", client, n)), Client: client})
			value := 1_000_000 + rng.Int64N(20_000_000)
			for a := range r.Agents {
				r.Edges = append(r.Edges, market.Edge{Task: j, Agent: a,
					Value: market.Credits(value + rng.Int64N(1_000_000)),
					Cost:  market.Credits(500_000 + rng.Int64N(1_000_000))})
			}
		}
		r.Sort()
		o := clearRound(b, r)
		frame := []Record{unwanted(NewRound(hub.name, r, o, hub.nextSalt()))}
		var ends []Record
		for slot, a := range o.Awards {
			h := holdFor(r, a, slot)
			frame = append(frame, newHold(hub.name, h, hub.nextSalt()))
			ends = append(ends, NewVoid(hub.name, h, "agent_failed", hub.nextSalt()))
		}
		hub.must(frame...)
		hub.must(ends...)
	}
	return hub.stored
}

func BenchmarkLevel4Crowded(b *testing.B) {
	data := crowded(b, 1000)
	rounds, size := uint64(0), 0
	for _, f := range data {
		size += len(f.data)
	}
	b.Logf("%d bytes a round", size/1000)
	b.ReportAllocs()
	b.ResetTimer()
	start := cpu()
	for b.Loop() {
		r := audit("h", LevelAuctions, data).Finish()
		if rounds = r.Rounds; r.Count != 0 {
			b.Fatal(r.Findings[0])
		}
	}
	perCPU(b, start, int(rounds), "rounds/cpu-s")
}

func BenchmarkApplyFrame(b *testing.B) {
	hub, _ := trade(b, 1, 20_000)
	b.ReportAllocs()
	for b.Loop() {
		book := NewBook()
		for _, f := range hub.frames {
			if err := book.ApplyFrame(f); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	hub, _ := trade(b, 1, 2000)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		for i := range hub.frames {
			buf = AppendFrame(buf[:0], &hub.frames[i])
		}
	}
}
