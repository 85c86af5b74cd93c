package gateway

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/openai"
)

// Whatever is put and taken, who goes on behind an event gets what followed it, or is told that it is kept
// no more.
func FuzzOutbox(f *testing.F) {
	f.Add([]byte{1, 2, 3, 40, 1, 1}, 2, 100)
	f.Add([]byte{200, 200, 0, 7}, -1, 64)
	f.Fuzz(func(t *testing.T, sizes []byte, last, most int) {
		o := outbox{numbered: true, most: 50 + most&1023}
		var events []string
		for _, n := range sizes {
			text := strings.Repeat(fmt.Sprintf("data: %s\n\n", strings.Repeat("x", int(n))), 1+int(n)%3)
			o.put(0, func(dst []byte) ([]byte, error) { return append(dst, text...), nil })
			for range 1 + int(n)%3 {
				events = append(events, fmt.Sprintf("id: %d\ndata: %s\n\n", len(events),
					strings.Repeat("x", int(n))))
			}
		}
		from, ok := o.after(last)
		if !ok {
			if kept := len(events) - o.lost; last >= o.lost-1 && last < o.lost+kept && kept > 0 {
				t.Fatalf("behind %d nothing is kept, and the first kept of %d is %d", last, len(events), o.lost)
			}
			return
		}
		data, ok := o.take(from)
		if want := strings.Join(events[last+1:], ""); !ok || string(data) != want {
			t.Fatalf("behind %d: %q, want %q", last, data, want)
		}
		if len(o.buf) > o.most && len(o.ids) > 1 {
			t.Errorf("%d bytes of %d are kept", len(o.buf), o.most)
		}
	})
}

// What is not numbered is given once.
func TestAnOutboxIsEmptied(t *testing.T) {
	o := outbox{most: 8}
	taken, all := 0, ""
	for i := range 5 {
		room, _ := o.put(taken, func(dst []byte) ([]byte, error) {
			return fmt.Appendf(dst, "%d....", i), nil
		})
		if room != (i%2 == 0) {
			t.Errorf("put %d: room %v", i, room)
		}
		if i%2 == 1 {
			data, ok := o.take(taken)
			if !ok {
				t.Fatal("what is not taken is kept")
			}
			taken += len(data)
			all += string(data)
		}
	}
	if data, _ := o.take(taken); all+string(data) != "0....1....2....3....4...." {
		t.Errorf("%q and %q", all, data)
	}
}

func TestABucket(t *testing.T) {
	var b bus.Bucket
	at := time.Unix(1, 0)
	got := ""
	for _, ms := range []int{0, 0, 0, 250, 500, 10_000, 10_000, 10_000} {
		wait, ok := take(&b, at.Add(time.Duration(ms)*time.Millisecond), 2)
		got += fmt.Sprint(ok, " ", wait.Milliseconds(), "; ")
	}
	want := "true 0; true 0; false 500; false 250; true 0; true 0; true 0; false 500; "
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A key that says nothing else has as many answers open as a batch of one client, and no more.
func TestWhatAKeyHasOpen(t *testing.T) {
	r, k := newKeyring(Default(), slog.New(slog.DiscardHandler)), &key{APIKey: new(bus.APIKey)}
	n := 0
	for ; r.begin(time.Unix(1, 0), k) == nil; n++ {
	}
	if n != 2048 {
		t.Errorf("%d are open", n)
	}
}

// Tokens are counted for nothing, so of as many bytes as a body may have at once, and then of so many a
// second.
func TestTokensAreCountedOfSoManyBytes(t *testing.T) {
	r, k := newKeyring(Default(), slog.New(slog.DiscardHandler)), &key{}
	now, got := time.Unix(1, 0), ""
	for _, x := range []struct {
		after time.Duration
		n     int
	}{{0, bus.MaxLarge / 2}, {0, bus.MaxLarge / 2}, {0, 1 << 20}, {250 * time.Millisecond, 1 << 20},
		{time.Hour, bus.MaxLarge}, {0, 1}} {
		now = now.Add(x.after)
		if no := r.counted(now, k, x.n); no != nil {
			got += fmt.Sprintf("%s in %d ms; ", asRefusal(no).code, asRefusal(no).retryMS)
		} else {
			got += "ok; "
		}
	}
	if want := "ok; ok; rate_limit_exceeded in 250 ms; ok; ok; rate_limit_exceeded in 1 ms; "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Who comes back for what is kept no more is told what is, in words of what was asked: of the beginning, of
// what follows an event, or of an event that never was.
func TestWhatIsKeptNoMore(t *testing.T) {
	a := &answer{running: 1, asked: &openai.Asked{Stream: true}, shape: openai.Shape{ID: "t1"},
		out: outbox{numbered: true, most: 60}}
	for range 5 { // 20 bytes each with its id: the last three are kept
		a.out.put(0, func(dst []byte) ([]byte, error) { return append(dst, "data: abcd\n\n"...), nil })
	}
	for last, want := range map[int]string{
		-1: "the beginning of this answer is kept no more: it goes on behind event 1 (Last-Event-ID) at " +
			"/v1/streams/t1",
		0: "what follows event 0 of this answer is kept no more: it goes on behind event 1 (Last-Event-ID) " +
			"at /v1/streams/t1",
		7: "this answer has no event 7 yet: its last is 4",
	} {
		_, _, err := a.attach(last)
		if r := asRefusal(err); r.code != bus.CodeAnswerGone || r.message != want || r.task != "t1" {
			t.Errorf("%d: %v", last, err)
		}
	}
}

// A key that may ask once in ages is to come back in a time that can be told, and not at once.
func TestABucketThatFillsInAges(t *testing.T) {
	var b bus.Bucket
	now := time.Unix(1_800_000_000, 0)
	take(&b, now, 1e-12)
	if wait, ok := take(&b, now, 1e-12); ok || wait < time.Hour {
		t.Errorf("wait %v, %v", wait, ok)
	}
}
