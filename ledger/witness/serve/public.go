package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"souk/ledger/checkpoint"
)

// Public witnesses are asked one by one each, beside everything else: one that is silent delays what only it
// could prove.
const (
	askWithin = 10 * time.Second
	// least and most time between two questions to one witness
	askEvery, askMost = 5 * time.Second, 5 * time.Minute
	maxAnswer         = 16 << 10
)

// asking is how a public witness was found to be.
type asking struct {
	busy bool
	next time.Time // not asked before
	wait time.Duration
}

// submit has public witnesses cosign the last checkpoint, until ctx ends.
func (k *Keeper) submit(ctx context.Context) {
	look := time.Tick(askEvery)
	for {
		select {
		case <-k.told:
		case <-look:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		k.mu.Lock()
		for _, w := range k.party.Public() {
			a := k.asked[w.Name]
			if a == nil {
				a = &asking{}
				k.asked[w.Name] = a
			}
			if a.busy || now.Before(a.next) {
				continue
			}
			a.busy = true
			k.done.Go(func() { k.submitTo(ctx, w, a) })
		}
		k.mu.Unlock()
	}
}

// submitTo asks one witness, once more at once where it has cosigned another size than was thought.
func (k *Keeper) submitTo(ctx context.Context, w checkpoint.Witness, a *asking) {
	again, err := k.once(ctx, w)
	if err == nil && again {
		_, err = k.once(ctx, w)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	says := "it fails" // once, whatever the errors are
	if a.wait = min(max(askEvery, 2*a.wait), askMost); err == nil {
		a.wait, says = askEvery, ""
	}
	a.busy, a.next = false, time.Now().Add(a.wait)
	if ctx.Err() == nil && k.note("public "+w.Name, says) {
		k.log.Warn("a witness does not cosign; it is asked again", "witness", w.Name, "url", w.URL, "err", err)
	}
}

// once asks a witness. again says that it wants a proof from another size on.
func (k *Keeper) once(ctx context.Context, w checkpoint.Witness) (again bool, err error) {
	k.mu.Lock()
	body, err := k.party.Submit(w)
	k.mu.Unlock()
	if body == nil || err != nil {
		return false, err
	}
	url := strings.TrimSuffix(w.URL, "/") + "/add-checkpoint"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	answer, err := k.client.Do(r)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return false, err
	case len(said) > maxAnswer:
		return false, errors.New("its answer is too long")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch answer.StatusCode {
	case http.StatusOK:
		n, err := k.party.Answered(w, body, said)
		if err == nil && n != nil {
			err = k.cfg.Tree.Keep(n)
		}
		return false, err
	case http.StatusConflict:
		size, err := strconv.ParseInt(strings.TrimSpace(string(said)), 10, 64)
		if err != nil {
			return false, fmt.Errorf("it answers 409 %.80q", said)
		}
		return true, k.party.Conflict(w, size)
	}
	return false, fmt.Errorf("it answers %s %.200q", answer.Status, said)
}
