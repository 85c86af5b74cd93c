package market

import (
	"fmt"
	"math/bits"
	"time"
)

// Wait is what it would be worth to a task to wait for a full agent instead of taking a slot now, as the hub
// forecast it from the task's own terms. A task that is served now gives that up. So Loss is subtracted from
// the weight of each of its edges, and the task gets a slot only where that is worth more than waiting.
// Values, holds and receipts are the same as without it.
type Wait struct {
	Loss   Credits       `json:"loss"`  // u0 > 0: Sum
	Agent  AgentID       `json:"agent"` // which the task would wait for; it may have no free slot
	Time   time.Duration `json:"time"`  // to the first token: the wait and then the TTFT there
	Value  Credits       `json:"value"` // of an answer there after that time, at most what was reserved
	Cost   Credits       `json:"cost"`
	Toll   Credits       `json:"toll"`   // <= 0: known before any bid is read
	Charge Credits       `json:"charge"` // <= 0: congestion charge of the agent's last tier
	Price  Credits       `json:"price"`  // >= 0: slot price of the agent in Round
	Round  uint64        `json:"round"`  // an earlier round of this journal; 0: there is none, and no price
	Share  uint32        `json:"share"`  // of the sum that counts, in millionths; it falls as the task waits
}

// FullShare is a [Wait.Share] of 100 %.
const FullShare = 1_000_000

// Sum is what waiting is worth: max(0, Value - Cost - fee + Toll + Charge - Price) x Share / 1,000,000,
// rounded down. It is exact for every wait that [Round.Validate] passes.
func (w *Wait) Sum(fee Credits) Credits {
	whole := w.Value - w.Cost - fee + w.Toll + w.Charge - w.Price
	if whole <= 0 || w.Share == 0 {
		return 0
	}
	if w.Share >= FullShare {
		return whole
	}
	hi, lo := bits.Mul64(uint64(whole), uint64(w.Share))
	share, _ := bits.Div64(hi, lo, FullShare) // hi < FullShare: the second factor is
	return Credits(share)
}

// loss is what a task gives up when it is served now: what waiting is worth to it.
func (t *Task) loss() Credits {
	if t.Wait == nil {
		return 0
	}
	return t.Wait.Loss
}

// validateWait judges a task's wait. Whether the forecast is fair cannot be told from the record.
func (r *Round) validateWait(w *Wait) error {
	switch {
	case r.Rule.Pricing == PricingPosted:
		return fmt.Errorf("has one under pricing %q, which weighs no waiting", PricingPosted)
	case w.Agent == "" || len(w.Agent) > MaxID:
		return fmt.Errorf("agent has %d bytes, want 1 to %d", len(w.Agent), MaxID)
	case w.Time < 0:
		return fmt.Errorf("time is %v, want 0 or more", w.Time)
	case w.Value < -MaxCredits || w.Value > MaxCredits:
		return fmt.Errorf("value is %s, want at most %s credits in size", w.Value, MaxCredits)
	case w.Cost < 0 || w.Cost > MaxCredits || w.Price < 0 || w.Price > MaxCredits:
		return fmt.Errorf("cost is %s and price %s, want 0 to %s credits", w.Cost, w.Price, MaxCredits)
	case w.Toll > 0 || w.Toll < -MaxCredits || w.Charge > 0 || w.Charge < -MaxCredits:
		return fmt.Errorf("toll is %s and charge %s, want %s to 0 credits", w.Toll, w.Charge, -MaxCredits)
	case w.Round >= r.Number && w.Round > 0:
		return fmt.Errorf("its price is of round %d, want one before this", w.Round)
	case w.Round == 0 && w.Price > 0:
		return fmt.Errorf("its price is %s of no round", w.Price)
	case w.Share > FullShare:
		return fmt.Errorf("share is %d, want at most %d", w.Share, FullShare)
	case w.Loss <= 0 || w.Loss != w.Sum(r.Fee):
		return fmt.Errorf("loss is %s, and its parts sum to %s; none is written where waiting is worth "+
			"nothing", w.Loss, w.Sum(r.Fee))
	}
	return nil
}
