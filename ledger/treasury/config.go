package treasury

import (
	"errors"
	"fmt"
	"time"

	"souk/ledger"
)

// Config of a treasury. Default gives every limit; Validate judges and changes nothing.
type Config struct {
	Journal string `yaml:"journal"` // name of the treasury's journal
	// Epoch of this writer: the revision of its leadership key. 0: one more than the last writer's, for a
	// market where nothing else could be writing.
	Epoch int64 `yaml:"epoch"`
	// MaxPending requests wait for a sync at most; beyond, callers are told to come back.
	MaxPending int `yaml:"max_pending"`
	// MaxBatch requests are made durable by one sync at most.
	MaxBatch int `yaml:"max_batch"`
	// Grants remembered for each hub, at least, for hubs whose answer was lost: what one sync of a hub's journal
	// may leave unaccepted, many times over.
	Grants int `yaml:"grants"`
	// MaxHubs bounds the hubs served, since each costs memory and any name may ask.
	MaxHubs int `yaml:"max_hubs"`
	// Drain bounds the time for answering what has arrived when the server is told to stop.
	Drain time.Duration `yaml:"drain"`
}

const (
	// grantsPerReply keeps a reply far below the bus's largest message.
	grantsPerReply = 1024
	// maxEarly bounds returns that wait for one before them: a stopping hub sends one for each client.
	maxEarly = 1 << 16
)

// Default is a good configuration.
func Default() Config {
	return Config{
		Journal:    ledger.Treasury,
		MaxPending: 4096, // a second of requests at what one disk syncs
		MaxBatch:   256,  // a frame of 50 KB
		Grants:     1 << 14,
		MaxHubs:    1024,
		Drain:      5 * time.Second,
	}
}

// Validate names the first field that makes no sense.
func (c Config) Validate() error {
	switch {
	case !ledger.ValidID(c.Journal):
		return fmt.Errorf("treasury: journal: %.80q is not a name: use 1 to 64 letters, digits, '-' or '_'", c.Journal)
	case c.Epoch < 0:
		return errors.New("treasury: epoch: want 0 or more")
	case c.MaxPending < 1 || c.MaxBatch < 1 || c.Grants < grantsPerReply || c.MaxHubs < 1:
		return fmt.Errorf("treasury: limits: want max_pending, max_batch and max_hubs of at least 1, grants of at least %d", grantsPerReply)
	case c.Drain <= 0:
		return errors.New("treasury: drain: want more than 0")
	}
	return nil
}
