package ledger

import (
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"

	"souk/market"
)

// The life of a settlement: a hold, then a capture or a void.

func (b *Book) applyHold(r *Record) error {
	h, head := r.Hold, &b.head
	k, ok := keyOf(h.Round, h.Slot)
	if named, is := b.key(r.ID); !ok || !is || named != k {
		return broken(ErrIllegal, "I10", r.ID, "id "+HoldID(head.Journal, h.Round, h.Slot), "%q", clip(r.ID))
	}
	if h.Round < head.Round || h.Round == head.Round && h.Slot < head.Held {
		if old := b.open[k]; old != nil && *old == *h {
			return ErrRepeat
		}
		return broken(ErrConflict, "I10", r.ID, "one hold for a slot", "another")
	}
	if err := h.valid(r.ID); err != nil {
		return err
	}
	if h.Round != head.Round || h.Slot != head.Held || head.Held >= head.Awards {
		return broken(ErrOrder, "I9", r.ID,
			fmt.Sprintf("slot %d of %d of round %d", head.Held, head.Awards, head.Round),
			"slot %d of round %d", h.Slot, h.Round)
	}
	avail, held := b.namesOf(h.Client).client()
	b.legs = holdLegs(b.legs[:0], avail, held, h)
	if err := b.post(r, b.legs); err != nil {
		return err
	}
	head.Held++
	b.open[k] = h
	if !b.bare {
		b.undo = append(b.undo, undo{opened: k})
	}
	return nil
}

// valid judges what a hold says, apart from the book.
func (h *Hold) valid(id string) error {
	switch {
	case !ValidID(h.Client) || !ValidID(h.Task) || !ValidID(h.Agent):
		return broken(ErrIllegal, "I17", id, "client, task and agent of 1 to 64 letters, digits, '-' or '_'",
			"%q, %q, %q", clip(h.Client), clip(h.Task), clip(h.Agent))
	case (h.Reader != "" || h.Token != "") && !(ValidID(h.Reader) && ValidID(h.Token)):
		return broken(ErrIllegal, "I17", id, "reader and token likewise, or neither", "%q, %q", clip(h.Reader),
			clip(h.Token))
	case h.Key != "" && !ValidID(h.Key) || !unbroken(h.Request, maxRequest) || !unbroken(h.Tags, maxTags):
		return broken(ErrIllegal, "I17", id, "a key likewise; a request and tags that break no line", "%q, %q, %q",
			clip(h.Key), clip(h.Request), clip(h.Tags))
	case h.Amount < 0 || h.Premium < 0 || h.Fee < 0 || h.Quoted < 0:
		return broken(ErrIllegal, "I2", id, "no negative amount", "hold %s, premium %s, fee %s, quote %s",
			h.Amount, h.Premium, h.Fee, h.Quoted)
	case h.Tariff < 0 || h.Tariff > h.Quoted:
		return broken(ErrIllegal, "I4", id, "a tariff within the quote of "+h.Quoted.String(), "%s", h.Tariff)
	case h.Fee > h.Premium:
		return broken(ErrIllegal, "I5", id, "a fee within the premium of "+h.Premium.String(), "%s", h.Fee)
	case h.Premium > h.Amount:
		return broken(ErrIllegal, "I4", id, "a premium within the hold of "+h.Amount.String(), "%s",
			h.Premium)
	case h.Amount > market.MaxCredits:
		return broken(ErrIllegal, "I15", id, "at most "+market.MaxCredits.String()+" credits", "%s", h.Amount)
	case h.Attempt < 0 || h.Prompt < 0 || h.Cached < 0 || h.Output < 0 || h.MaxTokens < 0 || h.Asserted < 0:
		return broken(ErrIllegal, "I17", id, "no negative count",
			"attempt %d, prompt %d, cached %d, output %d, max_tokens %d, asserted %d", h.Attempt, h.Prompt,
			h.Cached, h.Output, h.MaxTokens, h.Asserted)
	case h.Settle != market.SettleMetered && h.Settle != market.SettleQuoted:
		return broken(ErrIllegal, "I5", id, "settle metered or quoted", "%q", clip(h.Settle))
	case len(h.Model) > maxText || len(h.Kind) > maxID:
		return broken(ErrIllegal, "I15", id,
			fmt.Sprintf("a model of at most %d bytes, a kind of at most %d", maxText, maxID), "%d and %d",
			len(h.Model), len(h.Kind))
	}
	if err := h.Price.Validate(); err != nil {
		return broken(ErrIllegal, "I4", id, "a price card whose worst case bounds its cost", "%v", err)
	}
	return nil
}

// Due returns what a capture pays beside its cost: the premium, by the rule of the hold.
func (h *Hold) Due(c *Capture) market.Credits {
	return market.SettlePremium(h.Settle, c.Outcome == cancelled, h.Premium, h.Fee, h.Quoted, c.Cost,
		h.Amount-c.Cost)
}

// applyEnd ends a hold by a capture or a void.
func (b *Book) applyEnd(r *Record) error {
	holdID, suffix := "", ""
	if r.Kind == KindCapture {
		holdID, suffix = r.Capture.Hold, "/capture"
	} else {
		holdID, suffix = r.Void.Hold, "/void"
	}
	k, ok := b.key(holdID)
	if own, is := strings.CutSuffix(r.ID, suffix); !ok || !is || own != holdID {
		return broken(ErrIllegal, "I10", r.ID, "id "+clip(holdID)+suffix+", of a hold of this journal", "%q",
			clip(r.ID))
	}
	h := b.open[k]
	if h == nil {
		e, known := b.kept.Ended.Of[k]
		switch {
		case !known:
			return broken(ErrEnded, "I3", r.ID, "an open hold",
				"none: it was never made, or ended more than %d holds ago", RememberEnded)
		case e.Kind != r.Kind:
			return broken(ErrEnded, "I3", r.ID, "an open hold", "it ended by a %s", e.Kind)
		case e.Digest != b.digest(r):
			return broken(ErrConflict, "I10", r.ID, "the same "+r.Kind.String()+" as the first",
				"other content")
		}
		return ErrRepeat
	}
	if err := r.validEnd(h); err != nil {
		return err
	}
	avail, held := b.namesOf(h.Client).client()
	if c := r.Capture; c != nil {
		b.legs = captureLegs(b.legs[:0], avail, held, b.namesOf(h.Agent).agent(), h, c)
	} else {
		b.legs = voidLegs(b.legs[:0], avail, held, h)
	}
	if err := b.post(r, b.legs); err != nil {
		return err
	}
	if c := r.Capture; c != nil && !b.bare {
		u := useBy(h, c)
		u.card, u.counts = cardOf(h, c)
		b.fresh = append(b.fresh, u)
	}
	delete(b.open, k)
	b.justEnded = h
	b.kept.Ended.add(k, ended{r.Kind, b.digest(r)})
	if !b.bare {
		b.undo = append(b.undo, undo{hold: h})
	}
	return nil
}

// validEnd judges a capture or void against its hold.
func (r *Record) validEnd(h *Hold) error {
	if v := r.Void; v != nil {
		if v.Reason == "" || len(v.Reason) > maxID {
			return broken(ErrIllegal, "I16", r.ID, fmt.Sprintf("a reason of 1 to %d bytes", maxID), "%q",
				clip(v.Reason))
		}
		return nil
	}
	c := r.Capture
	limit := h.Amount - h.Premium
	switch {
	case c.Cost < 0:
		return broken(ErrIllegal, "I2", r.ID, "a cost of 0 or more", "%s", c.Cost)
	case c.Cost > limit:
		return broken(ErrIllegal, "I4", r.ID,
			fmt.Sprintf("a cost of at most %s, the hold less its premium", limit), "%s", c.Cost)
	case c.Usage.Prompt < 0 || c.Usage.Output < 0 || c.Usage.Cached < 0 || c.Usage.Cached > c.Usage.Prompt ||
		c.TTFTUS < 0:
		return broken(ErrIllegal, "I17", r.ID, "0 <= cached <= prompt, output and ttft not negative",
			"prompt %d, cached %d, output %d, ttft %d us", c.Usage.Prompt, c.Usage.Cached, c.Usage.Output,
			c.TTFTUS)
	case c.Claim != nil && !c.Claim.valid():
		return broken(ErrIllegal, "I17", r.ID, "a claim of 0 <= cached <= prompt, and no negative number",
			"%+v", *c.Claim)
	case c.Said != nil && !(&Claim{Usage: *c.Said}).valid():
		return broken(ErrIllegal, "I17", r.ID, "the engine's usage likewise", "%+v", *c.Said)
	case len(c.Finish) > maxID || len(c.Outcome) > maxID:
		return broken(ErrIllegal, "I15", r.ID, fmt.Sprintf("finish and outcome of at most %d bytes", maxID),
			"%d and %d", len(c.Finish), len(c.Outcome))
	}
	return nil
}

// valid judges the form of a claim: whether it can be true is for the audit.
func (q *Claim) valid() bool {
	u := q.Usage
	return u.Cached >= 0 && u.Cached <= u.Prompt && u.Output >= 0 && q.Relayed >= 0 && q.Most >= 0 &&
		q.Cost >= 0
}

// Lies lists, in words, what cannot be true in a claim on hold h, which was settled at cost. An empty list
// means that all of it can be true. unmetered says that the agent counted its output from what it relayed. An
// engine's own count may be higher, since not every token is text.
func (q *Claim) Lies(h *Hold, unmetered bool, cost market.Credits) (lies []string) {
	u := q.Usage
	if h.MaxTokens > 0 && u.Output > h.MaxTokens {
		lies = append(lies, fmt.Sprintf("%d output tokens, where the stream is cut at %d", u.Output,
			h.MaxTokens))
	}
	if unmetered && u.Output > q.Relayed {
		lies = append(lies, fmt.Sprintf("%d output tokens, counted from the %d that it relayed", u.Output,
			q.Relayed))
	}
	if q.Most > 0 && u.Prompt > q.Most {
		lies = append(lies, fmt.Sprintf("%d prompt tokens, where the hold covers %d", u.Prompt, q.Most))
	}
	if q.Cost != cost {
		lies = append(lies, fmt.Sprintf("a cost of %s, where %s is due", q.Cost, cost))
	}
	return lies
}

// digest names a capture's or void's content, without its salt, for telling a repeat from a conflict. To an
// audit both are wrong.
func (b *Book) digest(r *Record) uint64 {
	if b.bare {
		return 0
	}
	b.scratch = appendPart(b.scratch[:0], r)
	return xxhash.Sum64(b.scratch)
}
