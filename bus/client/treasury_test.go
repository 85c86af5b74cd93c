package client_test

import (
	"strings"
	"testing"

	"souk/bus"
)

// A client takes no word of a treasury that was elected before one that it has heard, says which spoke, and
// what to do; the next one of a later epoch counts.
func TestATreasuryOfAnEarlierEpoch(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		epoch := int64(7)
		s.hear(bus.BalanceSubject("ada", "*"), func(m bus.Msg) {
			var q bus.FundsRequest
			if err := bus.Decode(m.Data, &q); err != nil {
				t.Error(err)
			}
			s.say(m.Reply, &bus.FundsReply{ID: q.ID, Epoch: epoch, Client: "ada", Prepaid: 5})
		})
		for _, c := range []struct {
			epoch int64
			taken bool
		}{{7, true}, {6, false}, {0, false}, {7, true}, {9, true}, {8, false}} {
			epoch = c.epoch
			r, err := s.c.Balance(t.Context(), "ada")
			switch {
			case c.taken && (err != nil || r.Prepaid != 5 || r.Epoch != c.epoch):
				t.Errorf("epoch %d: %+v, %v", c.epoch, r, err)
			case !c.taken && (bus.CodeOf(err) != bus.CodeUnknown || r.Prepaid != 0 ||
				!strings.Contains(err.Error(), "has spoken before")):
				t.Errorf("epoch %d: %+v, %v", c.epoch, r, err)
			}
		}
	})
}
