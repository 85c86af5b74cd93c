package follow

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"souk/bus"
)

// A sender that is asked for a piece of a body answers within so long, or is asked again, so often.
const (
	pieceWithin = 3 * time.Second
	pieceTries  = 3
)

// A body comes whole within so long, and a second more for each megabyte, so that nobody who gives a piece
// now and then is waited for; and within bodyMost: less than hubs have agents wait for a first token, so that
// no agent is to blame.
const (
	bodyWithin = 10 * time.Second
	bodyMost   = 25 * time.Second
)

// BodyWithin is how long a body is waited for.
func BodyWithin(l *bus.Large) time.Duration {
	return min(bodyMost, bodyWithin+time.Duration(l.Bytes>>20)*time.Second)
}

// PieceEvery is the least time between pieces that one process asks for, or a client sends: 26 MB a second,
// which each has in its share of the bus.
const PieceEvery = 20 * time.Millisecond

// paceBurst bounds the messages that follow on one another after a time of nothing: 16 MB of pieces.
const paceBurst = 32

// Pace bounds how soon messages follow on one another, those of many who ask or answer, so that a process
// does not exceed its share of the bus.
type Pace struct {
	Every time.Duration

	mu   sync.Mutex
	next time.Time
}

// Wait waits for one's turn.
func (p *Pace) Wait(ctx context.Context) {
	p.mu.Lock()
	now := time.Now()
	if saved := now.Add(-paceBurst * p.Every); p.next.Before(saved) {
		p.next = saved
	}
	p.next = p.next.Add(p.Every)
	turn := p.next
	p.mu.Unlock()
	Pause(ctx, turn.Sub(now))
}

// ErrBody marks a body that its sender does not give, or not as he said.
var ErrBody = errors.New("the body does not come from its sender as the task says")

// Body has the large body of a task from who sent it; me asks. What is lost is asked for again.
func Body(ctx context.Context, b bus.Bus, me, sender string, l *bus.Large, pace *Pace) ([]byte, error) {
	token := rand.Text()
	came := make(chan bus.BodyPiece, 2)
	sub, err := b.Subscribe(bus.PieceSubject(me, token, sender), "", func(m bus.Msg) {
		var p bus.BodyPiece
		if bus.Decode(m.Data, &p) == nil {
			p.Data = bytes.Clone(p.Data)
			select {
			case came <- p:
			default: // twice
			}
		}
	})
	if err != nil {
		return nil, err
	}
	defer sub.Stop()
	late, end := time.NewTimer(0), time.NewTimer(BodyWithin(l))
	defer late.Stop()
	defer end.Stop()
	var body []byte
	for tries := 0; len(body) < l.Bytes; {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-end.C:
			return nil, fmt.Errorf("%w: %d of its %d bytes came within %v", ErrBody, len(body), l.Bytes, BodyWithin(l))
		case p := <-came:
			switch {
			case p.At != len(body): // an earlier one, asked for twice
			case len(p.Data) == 0:
				return nil, fmt.Errorf("%w: %s has it no more", ErrBody, sender)
			case len(p.Data) != min(bus.MaxBody, l.Bytes-p.At):
				return nil, fmt.Errorf("%w: a piece of %d bytes at %d of %d", ErrBody, len(p.Data), p.At, l.Bytes)
			default:
				if body == nil {
					body = make([]byte, 0, l.Bytes)
				}
				body, tries = append(body, p.Data...), 0
				late.Reset(0)
			}
		case <-late.C:
			if tries++; tries > pieceTries {
				return nil, fmt.Errorf("%w: %s was silent for %v", ErrBody, sender, pieceTries*pieceWithin)
			}
			pace.Wait(ctx)
			data, err := bus.Encode(&bus.BodyAsk{SHA256: l.SHA256, At: len(body), Token: token})
			if err == nil {
				err = b.Publish(bus.Msg{Subject: bus.BodySubject(sender, me), Data: data})
			}
			if err != nil {
				return nil, err
			}
			late.Reset(pieceWithin)
		}
	}
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], l.SHA256) {
		return nil, fmt.Errorf("%w: what came has another hash", ErrBody)
	}
	return body, nil
}
