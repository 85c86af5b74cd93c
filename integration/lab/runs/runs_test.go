package runs

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestEachKeepsTheOrder(t *testing.T) {
	var said []int
	got, err := Each(t.Context(), 100, 0, func(n int) { said = append(said, n) },
		func(i int) (int, error) { return i * i, nil })
	if err != nil || len(got) != 100 || len(said) != 100 {
		t.Fatalf("%v, %v, %v", got, said, err)
	}
	for i := range got {
		if got[i] != i*i || said[i] != i+1 {
			t.Errorf("run %d gave %d; the %d-th word was %d", i, got[i], i, said[i])
		}
	}
	none, err := Each(t.Context(), 0, 0, nil, func(int) (int, error) { return 0, nil })
	if err != nil || len(none) != 0 {
		t.Errorf("of none: %v, %v", none, err)
	}
}

func TestEachGoesNoFurtherAfterAnError(t *testing.T) {
	var begun []int
	bad := errors.New("bad")
	_, err := Each(t.Context(), 10, 1, nil, func(i int) (int, error) {
		if begun = append(begun, i); i == 3 {
			return 0, bad
		}
		return 0, nil
	})
	if !errors.Is(err, bad) || !slices.Equal(begun, []int{0, 1, 2, 3}) {
		t.Errorf("%v after %v", err, begun)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun = nil
	_, err = Each(ctx, 10, 1, nil, func(i int) (int, error) {
		begun = append(begun, i)
		cancel()
		return 0, nil
	})
	if !errors.Is(err, context.Canceled) || len(begun) != 1 {
		t.Errorf("%v after %v", err, begun)
	}
}

func TestEachPlaysNoMoreAtOnceThanItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, top atomic.Int64
		if _, err := Each(t.Context(), 20, 2, nil, func(int) (int, error) {
			if n := now.Add(1); n > top.Load() {
				top.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return 0, nil
		}); err != nil || top.Load() > 2 {
			t.Errorf("%d at once, %v", top.Load(), err)
		}
	})
}
