package predict

import (
	"errors"
	"fmt"
	"time"
)

// Prior is the forecast for an agent that nobody has seen run.
type Prior struct {
	Base     time.Duration `yaml:"base"`         // TTFT of a fully cached prompt on an idle engine
	PerToken time.Duration `yaml:"per_token"`    // added per uncached prompt token
	PerTask  time.Duration `yaml:"per_task"`     // added per task that decodes on the agent
	Slowest  time.Duration `yaml:"slowest_itl"`  // slowest between tokens, until a slower one is seen
	Share    float64       `yaml:"output_share"` // of max_tokens that an answer uses
	Weight   float64       `yaml:"weight"`       // tasks that the prior counts as
	Memory   float64       `yaml:"memory"`       // tasks of an agent after which what was seen counts a third
}

// DefaultPrior describes an 8B to 32B model on one GPU: some 8,000 prompt tokens a second, a few milliseconds
// per running task. It fades after the first few tasks.
func DefaultPrior() Prior {
	return Prior{
		Base: 30 * time.Millisecond, PerToken: 120 * time.Microsecond, PerTask: 2 * time.Millisecond,
		Slowest: 100 * time.Millisecond, Share: 0.4, Weight: 2, Memory: 200,
	}
}

// Validate judges a prior and changes nothing.
func (p Prior) Validate() error {
	var errs []error
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"base", p.Base}, {"per_token", p.PerToken}, {"per_task", p.PerTask}, {"slowest_itl", p.Slowest}} {
		if d.v < 0 || d.v > time.Minute {
			errs = append(errs, fmt.Errorf("%s: %v is not from 0 to 1m", d.name, d.v))
		}
	}
	if p.Slowest <= 0 {
		errs = append(errs, errors.New("slowest_itl: must be above 0, or no answer is given time to end"))
	}
	if !(p.Share >= 0 && p.Share <= 1) {
		errs = append(errs, fmt.Errorf("output_share: %v is not from 0 to 1", p.Share))
	}
	if !(p.Weight > 0 && p.Weight <= 1000) {
		errs = append(errs, fmt.Errorf("weight: %v is not above 0 and at most 1000", p.Weight))
	}
	if !(p.Memory >= 1 && p.Memory <= 1e6) {
		errs = append(errs, fmt.Errorf("memory: %v is not from 1 to 1e6", p.Memory))
	}
	return errors.Join(errs...)
}
