package classifier

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"souk/bus"
	"souk/bus/reader"
	"souk/market"
)

// Config says what the door lets in and how it chooses among hubs.
type Config struct {
	// of this door, unique among doors; part of the subject on which it collects answers
	ID string `yaml:"id"`

	// keys the hashes that name sessions and roles; the same at every door of a market
	SessionKey string `yaml:"session_key"`

	// Labels renames labels of the model to labels that hubs serve. A label that is not named keeps its
	// name.
	Labels        map[string]string `yaml:"labels"`
	General       string            `yaml:"general"`        // the label of a task whose domain is not clear
	MinConfidence float64           `yaml:"min_confidence"` // 0 to 1: below it a task is General

	MaxPayload            int `yaml:"max_payload"`               // bytes of a request
	MaxOpen               int `yaml:"max_open"`                  // tasks the door waits for at once
	MaxOpenPerClient      int `yaml:"max_open_per_client"`       // of those, tasks of one client
	MaxOpenBytes          int `yaml:"max_open_bytes"`            // bytes of the requests of all open tasks
	MaxOpenBytesPerClient int `yaml:"max_open_bytes_per_client"` // of those, of one client

	Silence   time.Duration `yaml:"silence"`    // an agent that says nothing for so long is given up
	StatusTTL time.Duration `yaml:"status_ttl"` // a hub that says nothing for so long is passed over
	Drain     time.Duration `yaml:"drain"`      // time to finish open tasks when asked to stop

	// which tasks get a line in the log, of those that no gateway sent, which logs its own
	Requests bus.RequestLog `yaml:"requests"`

	// The most that a task may cost whose client names neither max_price nor worth: so much per million
	// tokens of prompt and possible answer. The door vouches for no more, so hubs charge no more. A market of
	// dear models has this at what hubs have such tasks be worth at most: terms.multiple of the dearest card.
	Worth        market.Credits `yaml:"worth"`
	AnswerTokens int            `yaml:"answer_tokens"` // of a possible answer whose max_tokens is not given
}

// Default returns the limits of a door that serves one market.
func Default() Config {
	return Config{
		// a market that others can reach sets its own, so that they cannot guess its sessions
		SessionKey: "souk",

		// Two labels of the training data are sources rather than fields of knowledge.
		Labels:        map[string]string{"government": "general", "cloud_support": "general"},
		General:       "general",
		MinConfidence: 0.4, // below it more than half of the names are wrong (data statement of the model)

		// what the servers carry; a body has its own limit, bus.MaxBody
		MaxPayload:            bus.MaxMessage,
		MaxOpen:               4096,      // tasks wait at their hubs, not here: some hundred are usual
		MaxOpenPerClient:      1024,      // a quarter of the door for one client
		MaxOpenBytes:          128 << 20, // each is held about twice, as read and as sent
		MaxOpenBytesPerClient: 32 << 20,  // a quarter again

		Silence:   8 * time.Second,  // four heartbeats of 2 s
		StatusTTL: 4 * time.Second,  // four of a hub's slowest statuses
		Drain:     20 * time.Second, // less than systemd's 90 s before it kills

		Requests: bus.DefaultRequestLog(),

		Worth:        100 * market.Credit, // twelve times a card of 8
		AnswerTokens: 1024,                // likewise
	}
}

// Validate names every field that cannot be served.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	id := func(field, v string) {
		errs = append(errs, bus.CheckID(field, v))
	}
	id("id", c.ID)
	if len(c.SessionKey) > 256 {
		wrong("session_key: longer than 256 bytes")
	}
	id("general", c.General)
	for _, from := range slices.Sorted(maps.Keys(c.Labels)) {
		id("labels", from)
		id("labels."+from, c.Labels[from])
	}
	errs = append(errs, bus.CheckBounds("min_confidence", c.MinConfidence, 0, 1))
	if c.Worth <= 0 || c.Worth > market.MaxPrice {
		wrong("worth: %s is not above 0 and at most %s credits per million tokens", c.Worth, market.MaxPrice)
	}
	for _, n := range []struct {
		name  string
		v, to int
	}{
		{"max_payload", c.MaxPayload, bus.MaxMessage},
		{"max_open", c.MaxOpen, 1 << 20},
		{"max_open_per_client", c.MaxOpenPerClient, 1 << 20},
		{"max_open_bytes", c.MaxOpenBytes, 1 << 40},
		{"max_open_bytes_per_client", c.MaxOpenBytesPerClient, 1 << 40},
		{"answer_tokens", c.AnswerTokens, bus.MaxTokens},
	} {
		errs = append(errs, bus.CheckBounds(n.name, n.v, 1, n.to))
	}
	for _, d := range []struct {
		name string
		v    time.Duration
	}{
		{"silence", c.Silence}, {"status_ttl", c.StatusTTL}, {"drain", c.Drain},
	} {
		errs = append(errs, bus.CheckBounds(d.name, d.v, time.Nanosecond, 24*time.Hour))
	}
	errs = append(errs, c.Requests.Validate())
	return errors.Join(errs...)
}

// Reader returns the configuration of the machine that reads a collected answer. Such an answer has no
// chunks, only heartbeats and an end.
func (c *Config) Reader() reader.Config {
	return reader.Config{
		MaxChunks: 16, MaxBytes: bus.MaxMessage, AckEvery: 16,
		Quiet: c.Silence, Silence: c.Silence * 3 / 2, Doze: c.Silence / 4, ResumeEvery: c.Silence,
		ResumeWait: c.Silence,
		MaxOutage:  time.Minute, MaxAbsence: awaitHub, MaxAnswer: time.Hour,
	}
}
