package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/regular"
	"souk/classifier"
	"souk/classifier/model"
	door "souk/classifier/serve"
	"souk/cmd/daemon"
)

// config is the door's file.
type config struct {
	daemon.Common `yaml:",inline"`
	Market        daemon.Market `yaml:"market"`
	// weights made by `lab train`; empty: the shipped ones
	Model      string            `yaml:"model"`
	Classifier classifier.Config `yaml:"classifier"`
}

// example is the file in --help; a test reads it as a configuration.
const example = daemon.MarketExample +
	`model: ""                         # weights made by "lab train"; empty: the shipped ones
classifier:                       # every field has a default, see below
  id: door-a                      # the name in its creds if not given
  min_confidence: 0.4             # below it a task goes to the general hub
  labels: {government: general, cloud_support: general}
  worth: 100                      # per million tokens: the most that a task without a price may cost
  silence: 8s                     # an agent that says nothing for so long is given up
  requests: {log: all, sample: 1} # tasks with a line in the log: all, errors or off; of a gateway's it has none
  max_open: 4096
  max_open_per_client: 1024
`

func role() daemon.Role[*config] {
	return daemon.Role[*config]{
		Name:  "classifier",
		As:    bus.RoleDoor,
		Short: "The door of the market: it names each task's domain and chooses its hub",
		Long: `classifier takes tasks from NATS on souk.v1.task.<client>[.<gateway>], names the domain of each, and
passes it to a hub. Several doors share the tasks of one market, each with an id of its own. On SIGTERM it
takes no more tasks and lets those in hand finish.`,
		Example: example,
		New: func() *config {
			return &config{Common: daemon.Default(), Market: daemon.DefaultMarket(),
				Classifier: classifier.Default()}
		},
		Serve: serve,
	}
}

func serve(ctx context.Context, p *daemon.Process, c *config) error {
	m := model.Default()
	if c.Model != "" {
		var err error
		if m, err = readModel(c.Model); err != nil {
			return err
		}
	}
	l, err := p.Connect(ctx, c.Market, bus.RoleDoor, c.IDs())
	if err != nil {
		return err
	}
	defer l.Close()
	s, err := door.New(c.Classifier, door.Deps{Bus: l.Bus, Registry: l.Registry, Model: m, Log: p.Log,
		Spans: p.Spans, Meter: p.Meter()})
	if err != nil {
		return err
	}
	p.Serving(s.Ready(), func() any { return s.Stats() })
	p.Lacks(s.Deaf)
	id := c.Classifier.ID
	return p.Alone(ctx, l, bus.DoorKey(id), bus.RoleDoor, "classifier.id", id, s.Run)
}

func readModel(path string) (*model.Model, error) {
	data, err := regular.Read(path, model.MostBytes)
	if err != nil {
		return nil, err
	}
	m, err := model.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func (c *config) IDs() bus.IDs { return bus.IDs{Name: c.Classifier.ID} }

// Complete gives the door an id where it has none.
func (c *config) Complete() error {
	if c.Classifier.ID == "" {
		c.Classifier.ID = cmp.Or(c.Market.Named(), "door-"+strings.ToLower(rand.Text()[:8]))
	}
	var errs []error
	if c.Model != "" {
		if _, err := readModel(c.Model); err != nil {
			errs = append(errs, fmt.Errorf("model: %w", err))
		}
	}
	return errors.Join(append(errs, c.Classifier.Validate(), c.Market.Validate())...)
}

// Drain is the time for open tasks.
func (c *config) Drain() time.Duration { return c.Classifier.Drain + 2*time.Second }
