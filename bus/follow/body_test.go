package follow

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/membus"
)

// A body comes in pieces of which some are lost; it is whole, or it is clear that its sender is to blame.
func TestABodyComesInPieces(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), (2*bus.MaxBody+1000)/16)
	for _, c := range []struct {
		name   string
		answer func(ask *bus.BodyAsk, n int) *bus.BodyPiece // to the nth question
		want   string                                       // "": the body
		took   time.Duration
	}{
		{"all of it", func(a *bus.BodyAsk, _ int) *bus.BodyPiece { return pieceOf(body, a.At) }, "", 0},
		{"one is lost", func(a *bus.BodyAsk, n int) *bus.BodyPiece {
			if n == 1 {
				return nil
			}
			return pieceOf(body, a.At)
		}, "", pieceWithin},
		{"each comes twice", func(a *bus.BodyAsk, n int) *bus.BodyPiece {
			if n == 1 { // an earlier one
				return pieceOf(body, 0)
			}
			return pieceOf(body, a.At)
		}, "", pieceWithin},
		{"its sender is gone", func(*bus.BodyAsk, int) *bus.BodyPiece { return nil }, "was silent for 9s", 0},
		{"he has it no more", func(a *bus.BodyAsk, _ int) *bus.BodyPiece { return &bus.BodyPiece{At: a.At} },
			"has it no more", 0},
		{"another body", func(a *bus.BodyAsk, _ int) *bus.BodyPiece {
			return pieceOf(bytes.ToUpper(body), a.At)
		}, "has another hash", 0},
		{"a piece too small", func(a *bus.BodyAsk, _ int) *bus.BodyPiece {
			return &bus.BodyPiece{At: a.At, Data: []byte("x")}
		}, "a piece of 1 bytes", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			world := membus.New(1)
			sender, door := world.Bus("gate"), world.Bus("door")
			defer sender.Close()
			defer door.Close()
			asked := 0
			if _, err := sender.Subscribe(bus.BodySubject("gate", "*"), "", func(m bus.Msg) {
				ask := new(bus.BodyAsk)
				if err := bus.Decode(m.Data, ask); err != nil || bus.LastToken(m.Subject) != "door" {
					t.Errorf("%s: %v", m.Subject, err)
				}
				if p := c.answer(ask, asked); p != nil {
					data, err := bus.Encode(p)
					if err == nil {
						to := bus.PieceSubject("door", ask.Token, "gate")
						err = sender.Publish(bus.Msg{Subject: to, Data: data})
					}
					if err != nil {
						t.Error(err)
					}
				}
				asked++
			}); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			got, err := Body(t.Context(), door, "door", "gate", bus.LargeOf(body), new(Pace))
			switch {
			case c.want != "":
				if !errors.Is(err, ErrBody) || !bytes.Contains([]byte(err.Error()), []byte(c.want)) {
					t.Errorf("%s: %v", c.name, err)
				}
			case err != nil || !bytes.Equal(got, body):
				t.Errorf("%s: %d bytes, %v", c.name, len(got), err)
			case time.Since(began).Round(time.Second) != c.took:
				t.Errorf("%s: after %v", c.name, time.Since(began))
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(context.DeadlineExceeded)
			_, err = Body(ctx, door, "door", "nobody", bus.LargeOf(body), new(Pace))
			if err != context.DeadlineExceeded {
				t.Errorf("nobody waits any more: %v", err)
			}
		})
	}
}

func pieceOf(body []byte, at int) *bus.BodyPiece {
	return &bus.BodyPiece{At: at, Data: body[at:min(len(body), at+bus.MaxBody)]}
}

// A sender that gives a piece now and then holds up nobody: not the door, and not an agent, whose engine
// would be taken for dead.
func TestABodyThatComesTooSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := membus.New(1)
		sender, door := world.Bus("gate"), world.Bus("door")
		defer sender.Close()
		defer door.Close()
		body := bytes.Repeat([]byte("0123456789abcdef"), 64*bus.MaxBody/16)
		asked := 0
		if _, err := sender.Subscribe(bus.BodySubject("gate", "*"), "", func(m bus.Msg) {
			var ask bus.BodyAsk
			if err := bus.Decode(m.Data, &ask); err != nil {
				t.Error(err)
			}
			if asked++; asked%pieceTries > 0 {
				return
			}
			data, err := bus.Encode(pieceOf(body, ask.At))
			if err == nil {
				to := bus.PieceSubject("door", ask.Token, "gate")
				err = sender.Publish(bus.Msg{Subject: to, Data: data})
			}
			if err != nil && !errors.Is(err, bus.ErrClosed) {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		for size, want := range map[int]time.Duration{len(body): 25 * time.Second, 4 << 20: 14 * time.Second,
			2 << 20: 12 * time.Second} {
			synctest.Wait() // for the last word of the one before
			asked, body = 0, body[:size]
			began := time.Now()
			_, err := Body(t.Context(), door, "door", "gate", bus.LargeOf(body), new(Pace))
			if took := time.Since(began); !errors.Is(err, ErrBody) || took != want {
				t.Errorf("%d bytes: after %v, want %v: %v", size, took, want, err)
			}
		}
	})
}

// After a time of nothing so many follow at once, and then each after its time.
func TestAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Pace{Every: 20 * time.Millisecond}
		began := time.Now()
		for range paceBurst {
			p.Wait(t.Context())
		}
		if time.Since(began) > 0 {
			t.Errorf("the first of them took %v", time.Since(began))
		}
		for range 10 {
			p.Wait(t.Context())
		}
		if took := time.Since(began); took != 200*time.Millisecond {
			t.Errorf("ten more took %v", took)
		}
	})
}
