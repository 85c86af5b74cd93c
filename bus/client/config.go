package client

import (
	"cmp"
	"errors"
	"time"

	"souk/bus"
	"souk/bus/reader"
)

// Config names the client and bounds what it keeps. Zero fields take the values of Default.
type Config struct {
	ID string // the client's id, as the treasury knows it

	BufferBytes int           // unread, of one stream; a reader that is further behind loses it
	MaxStreams  int           // tasks in hand at once
	AckEvery    uint64        // chunks read between two acknowledgements, which let the agent forget them
	MaxWait     time.Duration // for the market's verdict on a task, where ctx sets no earlier end

	// not nil: called with the change in the bytes that all streams of it keep, in steps. It must not wait.
	Grown func(bytes int)
}

// Default returns the limits of a program with some hundred streams.
func Default(id string) Config {
	return Config{
		ID:          id,
		BufferBytes: 4 << 20,          // four of the largest messages
		MaxStreams:  4096,             // the door takes no more from one client either
		AckEvery:    64,               // agents keep some hundred chunks
		MaxWait:     11 * time.Minute, // beyond what the door waits for a hub
	}
}

const (
	buffer      = 4096            // unread chunks of one stream: a minute of a fast one
	heartbeat   = 2 * time.Second // of every agent, at least; after three silent ones it counts as lost
	resumeEvery = time.Second     // between two requests for missing chunks, which take milliseconds
	resumeWait  = 5 * time.Second // longest wait for missing chunks: then nobody has them
	// longest loss of the bus that a stream waits through: as long as it is away, an agent that is not heard
	// is not silent. An agent keeps an ended answer for half of that.
	maxOutage = time.Minute
	// longest absence of the hub that is to find another agent for an answer that broke off: one that was
	// killed is back within a few seconds
	maxAbsence = 15 * time.Second
	// after ctx has ended: to hear of, and cancel, what was accepted at the same moment
	grace = 5 * time.Second
)

func (c Config) filled() (Config, error) {
	if err := bus.CheckID("client", c.ID); err != nil {
		return c, err
	}
	if min(c.BufferBytes, c.MaxStreams) < 0 || c.MaxWait < 0 {
		return c, errors.New("client: negative limit or time")
	}
	d := Default(c.ID)
	c.BufferBytes, c.MaxStreams = cmp.Or(c.BufferBytes, d.BufferBytes), cmp.Or(c.MaxStreams, d.MaxStreams)
	c.AckEvery, c.MaxWait = cmp.Or(c.AckEvery, d.AckEvery), cmp.Or(c.MaxWait, d.MaxWait)
	return c, nil
}

// reader returns the configuration of each stream's machine.
func (c Config) reader() reader.Config {
	return reader.Config{
		MaxChunks: buffer, MaxBytes: c.BufferBytes, AckEvery: c.AckEvery,
		Quiet: heartbeat * 3 / 2, Silence: heartbeat * 3, Doze: heartbeat,
		ResumeEvery: resumeEvery, ResumeWait: resumeWait, MaxOutage: maxOutage,
		MaxAbsence: maxAbsence, AskAgain: heartbeat,
	}
}
