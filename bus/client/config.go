package client

import (
	"cmp"
	"errors"
	"time"

	"souk/bus"
	"souk/bus/reader"
)

// Config says who the client is and how much it waits and keeps. Zero fields take the values of Default.
type Config struct {
	ID string // the client's id, as the treasury knows it

	Buffer      int    // unread chunks of one stream; a reader that is further behind loses it
	BufferBytes int    // likewise, in bytes
	MaxStreams  int    // tasks in hand at once
	AckEvery    uint64 // chunks read between two acknowledgements, which let the agent forget them
	// how often an agent is heard at least; after three silent ones it counts as lost
	Heartbeat   time.Duration
	ResumeEvery time.Duration // between two requests for missing chunks
	ResumeWait  time.Duration // longest wait for missing chunks
	// longest loss of the bus that a stream waits through: as long as it is away, an agent that is not heard
	// is not silent
	MaxOutage time.Duration
	// longest absence of the hub that is to find another agent for an answer that broke off
	MaxAbsence time.Duration
	MaxWait    time.Duration // for the market's verdict on a task, where ctx sets no earlier end
	// after ctx has ended: to hear of, and cancel, what was accepted at the same moment
	Grace time.Duration

	// not nil: told how many bytes more all streams of it keep, or fewer, in steps. It must not wait.
	Grown func(bytes int)
}

// Default returns the limits of a program with some hundred streams.
func Default(id string) Config {
	return Config{
		ID:          id,
		Buffer:      4096,             // a minute of a fast stream
		BufferBytes: 4 << 20,          // four of the largest messages
		MaxStreams:  4096,             // the door takes no more from one client either
		AckEvery:    64,               // agents keep some hundred chunks
		Heartbeat:   2 * time.Second,  // of every agent
		ResumeEvery: time.Second,      // a resume takes milliseconds where it works at all
		ResumeWait:  5 * time.Second,  // then nobody has them
		MaxOutage:   time.Minute,      // an agent keeps an ended answer for half of that
		MaxAbsence:  15 * time.Second, // a hub that was killed is back within a few
		MaxWait:     11 * time.Minute, // beyond what the door waits for a hub
		Grace:       5 * time.Second,
	}
}

func (c Config) filled() (Config, error) {
	if err := bus.CheckID("client", c.ID); err != nil {
		return c, err
	}
	d := Default(c.ID)
	if min(c.Buffer, c.BufferBytes, c.MaxStreams) < 0 || min(c.Heartbeat, c.ResumeEvery, c.ResumeWait,
		c.MaxOutage, c.MaxAbsence, c.MaxWait, c.Grace) < 0 {
		return c, errors.New("client: negative limit or time")
	}
	c.Buffer, c.BufferBytes = cmp.Or(c.Buffer, d.Buffer), cmp.Or(c.BufferBytes, d.BufferBytes)
	c.MaxStreams, c.AckEvery = cmp.Or(c.MaxStreams, d.MaxStreams), cmp.Or(c.AckEvery, d.AckEvery)
	c.Heartbeat = cmp.Or(c.Heartbeat, d.Heartbeat)
	c.ResumeEvery, c.ResumeWait = cmp.Or(c.ResumeEvery, d.ResumeEvery), cmp.Or(c.ResumeWait, d.ResumeWait)
	c.MaxOutage, c.MaxAbsence = cmp.Or(c.MaxOutage, d.MaxOutage), cmp.Or(c.MaxAbsence, d.MaxAbsence)
	c.MaxWait, c.Grace = cmp.Or(c.MaxWait, d.MaxWait), cmp.Or(c.Grace, d.Grace)
	return c, nil
}

// reader is what the machine of each stream needs to know of it.
func (c Config) reader() reader.Config {
	return reader.Config{
		MaxChunks: c.Buffer, MaxBytes: c.BufferBytes, AckEvery: c.AckEvery,
		Quiet: c.Heartbeat * 3 / 2, Silence: c.Heartbeat * 3, Doze: c.Heartbeat,
		ResumeEvery: c.ResumeEvery, ResumeWait: c.ResumeWait, MaxOutage: c.MaxOutage,
		MaxAbsence: c.MaxAbsence, AskAgain: c.Heartbeat,
	}
}
