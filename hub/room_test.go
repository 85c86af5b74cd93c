package hub_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// fullHouse is a crowdHouse whose only slot is taken, and whose clients c0 to c9 have money.
func fullHouse(t *testing.T, waiting int) *house {
	h := crowdHouse(t, waiting, nil)
	h.busy("a-1", "llama", 1)
	for i := range 10 {
		h.prepaid[fmt.Sprint("c", i)] = 1_000_000 * market.Credit
	}
	return h
}

// comes sends a task a moment after the last, and says what was refused for it: client, task and why.
func (h *house) comes(client, id string, change ...func(*bus.Task)) (refused []string) {
	h.t.Helper()
	from := len(h.messages)
	h.now = h.now.Add(time.Microsecond)
	h.must(h.step(h.task(client, id, change...)))
	for _, l := range h.messages[from:] {
		if a, ok := l.Body.(*bus.Answer); ok && a.Result != nil {
			refused = append(refused, fmt.Sprintf("%s/%s %s", a.Result.Client, a.Result.Task, a.Result.Code))
		}
	}
	return refused
}

// One client has filled the room. Each of another that comes takes the place of its last to come, until both
// have as many; so it goes with a third. Who was sent away is told why, and its money is free again.
func TestAFullRoomIsShared(t *testing.T) {
	const places = 2048
	h := fullHouse(t, places)
	for i := range places {
		if got := h.comes("c0", fmt.Sprint("t", i)); len(got) > 0 {
			t.Fatal(got)
		}
	}
	if got := h.comes("c0", "more"); !slices.Equal(got, []string{"c0/more no_room"}) {
		t.Fatalf("one more of its own: %v", got)
	}
	if h.n.Status().Room != 1 {
		t.Errorf("there is room for %d, want 1: another client's", h.n.Status().Room)
	}
	each := h.n.Money().Reserved("c0") / places
	for i := range places / 2 {
		want := fmt.Sprintf("c0/t%d no_room", places-1-i)
		if got := h.comes("c1", fmt.Sprint("t", i)); !slices.Equal(got, []string{want}) {
			t.Fatalf("task %d of another: %v, want %s", i, got, want)
		}
	}
	if got := h.comes("c1", "more"); !slices.Equal(got, []string{"c1/more no_room"}) {
		t.Fatalf("both have as much: %v", got)
	}
	if h.n.Money().Reserved("c0") != each*places/2 || h.n.Money().Reserved("c1") != each*places/2 ||
		h.n.Stats().Waiting != places {
		t.Errorf("%s and %s are reserved for %d that wait", h.n.Money().Reserved("c0"), h.n.Money().Reserved("c1"),
			h.n.Stats().Waiting)
	}
	for i, want := range []string{"c1/t1023", "c0/t1023", "c1/t1022", "c0/t1022"} { // who came last of both
		if got := h.comes("c2", fmt.Sprint("t", i)); !slices.Equal(got, []string{want + " no_room"}) {
			t.Fatalf("task %d of a third: %v", i, got)
		}
	}
	last := h.messages[len(h.messages)-1].Body
	for _, l := range h.messages {
		if a, ok := l.Body.(*bus.Answer); ok && a.Result != nil && a.Result.Task == "t1023" {
			last = a
		}
	}
	why := "2048 tasks wait, all that may, and no client has more among them than "
	if a, ok := last.(*bus.Answer); !ok || !strings.Contains(a.Result.Message, why) || a.Result.RetryMS == 0 {
		t.Errorf("it is told %+v", last)
	}
}

// As many clients as places have a task each: whoever comes is refused, and nobody is sent away.
func TestAFullRoomOfManyClients(t *testing.T) {
	const places = 2048
	h := fullHouse(t, places)
	for i := range places {
		client := fmt.Sprintf("m%04d", i)
		h.prepaid[client] = market.Credit
		if got := h.comes(client, "t"); len(got) > 0 {
			t.Fatal(got)
		}
	}
	for _, client := range []string{"c0", "m0000", "a", "z"} {
		h.prepaid[client] = market.Credit
		if got := h.comes(client, "u"); !slices.Equal(got, []string{client + "/u no_room"}) {
			t.Fatalf("one of %s: %v", client, got)
		}
	}
	if h.n.Status().Room != 0 || h.n.Stats().Waiting != places || h.n.MostOfOne() != 1 {
		t.Errorf("room for %d, %d wait, %d of one client", h.n.Status().Room, h.n.Stats().Waiting, h.n.MostOfOne())
	}
}

// A client without money does not empty the room: its task waits for the money first, and takes nobody's
// place before it is there.
func TestWhoCannotPayTakesNobodysPlace(t *testing.T) {
	h := fullHouse(t, 4)
	for i := range 4 {
		h.comes("c0", fmt.Sprint("t", i))
	}
	if got := h.comes("nobody", "t"); !slices.Equal(got, []string{"nobody/t unknown_client"}) {
		t.Fatal(got)
	}
	h.silent = true
	if got := h.comes("c1", "late"); len(got) > 0 || h.n.Stats().Waiting != 4 ||
		!h.n.Knows("c0", "t3") {
		t.Fatalf("%v; %d wait", got, h.n.Stats().Waiting)
	}
	h.silent = false
	from := len(h.messages)
	pending := h.pending
	h.pending = nil
	for _, f := range pending {
		h.must(h.step(h.treasury(f)))
	}
	if len(h.messages) == from || h.answerTo("inbox.c0.t3") != "no_room" || h.n.Stats().Waiting != 4 ||
		!h.n.Knows("c1", "late") {
		t.Errorf("%d wait, c0's last was told %q", h.n.Stats().Waiting, h.answerTo("inbox.c0.t3"))
	}
}

// Who is refused, and who is sent away, does not depend on what anybody bids: the same tasks come with terms
// that are scaled, drawn anew and dealt out otherwise, and the same are refused at the same moments.
func TestNoBidDecidesWhoHasRoom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	sent, refused := 0, 0
	for n := range uint64(20) {
		play := func(terms []bus.Terms) (story []string) {
			rng := rand.New(rand.NewPCG(seed, n))
			h := fullHouse(t, 16)
			for i, bid := range terms {
				client := fmt.Sprint("c", rng.IntN(1+rng.IntN(6)))
				id := fmt.Sprint("t", i)
				for _, x := range h.comes(client, id, func(m *bus.Task) { m.Terms = bid }) {
					if story = append(story, id+": "+x); strings.HasPrefix(x, client+"/"+id+" ") {
						refused++
					} else {
						sent++
					}
				}
			}
			return story
		}
		rng := rand.New(rand.NewPCG(seed, 100+n))
		var terms []bus.Terms
		for range 80 {
			x := randomTerms(rng)
			x.MaxPrice = nil // which may be below any cost
			terms = append(terms, x)
		}
		first := play(terms)
		other := slices.Clone(terms)
		rng.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		scaled := slices.Clone(terms)
		for i := range scaled {
			w := *scaled[i].Worth * 100
			scaled[i].Worth = &w
		}
		for _, x := range [][]bus.Terms{other, scaled} {
			if second := play(x); !slices.Equal(first, second) {
				t.Fatalf("round %d: %q, and with other bids %q", n, first, second)
			}
		}
	}
	if sent == 0 || refused == 0 {
		t.Errorf("%d were sent away, %d refused: the test sees little", sent, refused)
	}
}

// Limits follow the slots that there are: as many tasks as have one are taken beside those that may wait, and
// fewer once their agent has left.
func TestRoomFollowsSlots(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.MaxWaiting = 4 })
	for i := range 100 {
		h.join(fmt.Sprint("a-", i), "llama", 10, 0.9, card(1, 1, 4))
	}
	for i := range 10 {
		h.prepaid[fmt.Sprint("c", i)] = 1_000_000 * market.Credit
	}
	for i := range 1004 {
		if got := h.comes(fmt.Sprint("c", i%10), fmt.Sprint("t", i)); len(got) > 0 {
			t.Fatalf("task %d: %v", i, got)
		}
	}
	if got := h.comes("c0", "more"); !slices.Equal(got, []string{"c0/more no_room"}) {
		t.Errorf("one more than slots and places: %v", got)
	}
	if s := h.n.Status(); s.Room != 0 || s.Waiting != 4 {
		t.Errorf("%d wait, and there is room for %d", s.Waiting, s.Room)
	}
	for i := range 100 {
		h.leave(fmt.Sprint("a-", i))
	}
	if s := h.n.Status(); s.Room != 0 || s.Slots != 0 || s.Waiting != 4 {
		t.Errorf("%d slots and %d that wait: room for %d", s.Slots, s.Waiting, s.Room)
	}
}
