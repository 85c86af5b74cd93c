package fleet

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Of tasks whose forecasts are nearly the same, and say nothing, nothing follows for one whose forecast is
// another: no more than its own forecast says of how much longer it is.
func TestForecastsThatAreAllAlikeTellNothing(t *testing.T) {
	wrong := 0
	for seed := range uint64(20) {
		var s Service
		rng := rand.New(rand.NewPCG(seed, 1))
		for range 200 {
			s.Ended(3*time.Second+time.Duration(rng.IntN(20))*time.Millisecond,
				time.Second+time.Duration(rng.IntN(4000))*time.Millisecond)
		}
		if got := s.Of(4 * time.Second); got > s.Mean()+1500*time.Millisecond {
			wrong++
			t.Logf("seed %d: mean %v, of a forecast of 4 s %v", seed, s.Mean(), got)
		}
	}
	if wrong > 0 {
		t.Errorf("%d of 20", wrong)
	}
}

// A task is expected to keep a slot for as long as the mean where forecasts said nothing, for as long as its
// own forecast where these came true, and in between where half of what they said did.
func TestServiceIsDrawnToTheClass(t *testing.T) {
	for _, test := range []struct {
		name  string
		kept  func(i int, forecast time.Duration) time.Duration
		short time.Duration // what is expected of a forecast of 1 s, where the mean is 2
	}{
		{"they say nothing", func(i int, _ time.Duration) time.Duration {
			return time.Duration(1+2*(i/2%2)) * time.Second
		}, 2 * time.Second},
		{"they come true", func(_ int, f time.Duration) time.Duration { return f }, 1200 * time.Millisecond},
		{"half comes true", func(_ int, f time.Duration) time.Duration { return f/2 + time.Second },
			1600 * time.Millisecond},
	} {
		var s Service
		if got := s.Of(time.Hour); got != usualService {
			t.Fatalf("of what nothing is known %v is expected", got)
		}
		for i := range 400 {
			forecast := time.Duration(1+2*(i%2)) * time.Second
			s.Ended(forecast, test.kept(i, forecast))
		}
		got, off := s.Of(time.Second), 150*time.Millisecond
		if got < test.short-off || got > test.short+off {
			t.Errorf("%s: %v is expected of a task of a second, want some %v", test.name, got, test.short)
		}
		if most := s.Of(365 * 24 * time.Hour); most > 10*s.Mean() || s.Of(0) < s.Mean()/10 {
			t.Errorf("%s: of a forecast of a year %v, of none %v", test.name, most, s.Of(0))
		}
	}
}
