package vllm

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"souk/agentd/kvevent"
	"souk/agentd/vllm/zmtp"
	"souk/bus/follow"
)

// How often an engine is asked where it publishes: until it answers, and later on, since it may have been
// started anew with other flags.
const (
	sourceFirst = 2 * time.Second
	sourceAgain = time.Minute
)

// Events implements agentd.Engine.
func (e *Engine) Events(ctx context.Context, deliver func(kvevent.Update)) {
	configured := e.cfg.KVEvents
	switch configured.Endpoint {
	case kvevent.NoEvents:
		return
	case "":
	default:
		if err := Events(ctx, configured, deliver); err != nil {
			deliver(kvevent.Update{Blind: true, Why: err.Error()})
		}
		return
	}
	var hearing *kvevent.Source
	stop, pause := func() {}, sourceFirst
	defer func() { stop() }()
	for {
		source, err := e.source(ctx)
		if err == nil && (hearing == nil || source != *hearing) {
			stop()
			hearing, stop, pause = &source, hear(ctx, source, deliver), sourceAgain
		}
		if !follow.Pause(ctx, follow.Jitter(pause)) {
			return
		}
	}
}

// hear has what a source says delivered until stop.
func hear(ctx context.Context, source kvevent.Source, deliver func(kvevent.Update)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		if source.Endpoint == "" {
			deliver(kvevent.Update{Blind: true, Why: "the engine says nothing of its cache: it wants " +
				"--kv-events-config"})
		} else if err := Events(ctx, source, deliver); err != nil {
			deliver(kvevent.Update{Blind: true, Why: err.Error()})
		}
	})
	return func() { cancel(); done.Wait() }
}

// source asks the engine where it publishes; nowhere, if it does not know.
func (e *Engine) source(ctx context.Context) (kvevent.Source, error) {
	status, body, err := e.ask(ctx, "/kv_event_sources", nil)
	if err != nil || status != 200 {
		if status == 404 { // of before 2026
			err = nil
		}
		return kvevent.Source{}, err
	}
	return readSources(body)
}

// readSources reads what an engine says of its publishers: one of each rank of its data parallel group.
func readSources(body []byte) (s kvevent.Source, err error) {
	var ranks map[string]struct {
		On        bool   `json:"enable_kv_cache_events"`
		Publisher string `json:"publisher"`
		Endpoint  string `json:"endpoint"`
		Replay    string `json:"replay_endpoint"`
	}
	if err := json.Unmarshal(body, &ranks); err != nil {
		return s, fmt.Errorf("/kv_event_sources: %w", err)
	}
	for _, r := range ranks {
		// Of several ranks each has its cache, and nobody says which of them a request meets.
		if len(ranks) == 1 && r.On && r.Publisher == "zmq" {
			s = kvevent.Source{Endpoint: r.Endpoint, Replay: r.Replay}
		}
	}
	return s, nil
}

// Events delivers what a source publishes, in order and without holes, until ctx ends. It fails where the
// source cannot be one.
func Events(ctx context.Context, source kvevent.Source, deliver func(kvevent.Update)) error {
	if err := source.Validate(); err != nil {
		return fmt.Errorf("kv_events.%w", err)
	}
	endpoint, listen, _ := source.Publisher()
	replay, _ := source.Replays()
	var sub *zmtp.Sub
	for said := false; ; said = true {
		var err error
		if sub, err = zmtp.Subscribe(endpoint, listen); err == nil {
			break
		}
		if !said {
			deliver(kvevent.Update{Blind: true, Why: err.Error() + taken(endpoint)})
		}
		if !follow.Pause(ctx, follow.Jitter(time.Second)) {
			return nil
		}
	}
	defer sub.Close()
	l := &listener{order: kvevent.Order{Replay: replay != ""}, replay: replay, deliver: deliver}
	for {
		select {
		case h := <-sub.C:
			l.heard(ctx, h)
		case <-ctx.Done():
			return nil
		}
	}
}

// taken says what to write where it may be the engine who listens at an endpoint.
func taken(endpoint string) string {
	port := endpoint[strings.LastIndexByte(endpoint, ':')+1:]
	return fmt.Sprintf("; an engine connects to an endpoint of one host: for one that listens, write tcp://*:%s",
		port)
}

// listener handles the messages of a publisher and its replay.
type listener struct {
	order   kvevent.Order
	decoder kvevent.Decoder
	replay  string
	deliver func(kvevent.Update)

	leader uint64 // the connection that is listened to; 0: none
	next   uint64 // the newest that came beside it, and has said nothing yet; 0: none
	failed error  // why the replay last gave no answer
}

// heard takes what a connection said. Where there are several, the newest that says anything is believed:
// the others are of lives before, or of nobody. When that one ends, the newest that waits beside it is: a new
// life may be there before the last one's end is seen.
func (l *listener) heard(ctx context.Context, h zmtp.Heard) {
	switch {
	case h.Err != nil:
		if h.Peer == l.next {
			l.next = 0
		}
		if h.Peer != l.leader {
			return
		}
		if l.leader = 0; l.next > 0 {
			l.follow(ctx, l.next)
		}
		return
	case h.Frames != nil && (len(h.Frames) != 3 || len(h.Frames[1]) != 8):
		return // nothing of ours: what it stands for will be missed
	case h.Peer > l.leader && (l.leader == 0 || h.Frames != nil):
		l.follow(ctx, h.Peer)
	case h.Peer > l.leader:
		l.next = h.Peer
	}
	if h.Peer == l.leader && h.Frames != nil {
		l.apply(ctx, l.order.Live(binary.BigEndian.Uint64(h.Frames[1]), h.Frames[2]))
	}
}

// follow listens to a connection from now on.
func (l *listener) follow(ctx context.Context, peer uint64) {
	if l.leader = peer; l.next <= peer {
		l.next = 0
	}
	l.apply(ctx, l.order.Joined())
}

const (
	askAgain = 300 * time.Millisecond // before the replay is asked once more for what it did not say
	askQuiet = 3 * time.Second        // after which a replay that says nothing is given up
)

// apply delivers what is due, and asks the replay as long as something is wanted of it: what is published
// meanwhile waits.
func (l *listener) apply(ctx context.Context, out kvevent.Out) {
	l.hand(&out)
	for pause := time.Duration(0); out.Ask; pause = askAgain {
		if pause > 0 && !follow.Pause(ctx, follow.Jitter(pause)) {
			return
		}
		whole, question := false, [][]byte{nil, binary.BigEndian.AppendUint64(nil, out.From)}
		out = kvevent.Out{}
		err := zmtp.Request(ctx, l.replay, askQuiet, question, func(f [][]byte) bool {
			if len(f) != 4 || len(f[2]) != 8 {
				return true // none of a replay's
			}
			seq := binary.BigEndian.Uint64(f[2])
			if whole = int64(seq) == -1; whole {
				return false
			}
			out = l.order.Replayed(seq, f[3])
			l.hand(&out)
			return !out.Ask
		})
		if ctx.Err() != nil {
			return
		}
		if l.failed = err; !out.Ask {
			out = l.order.ReplayEnd(whole)
			l.hand(&out)
		}
	}
}

// hand delivers what is due.
func (l *listener) hand(out *kvevent.Out) {
	if out.Reset != kvevent.Keep {
		l.decoder = kvevent.Decoder{}
		if l.failed != nil && out.Reset == kvevent.Blind {
			out.Why += ": " + l.failed.Error()
		}
		l.deliver(kvevent.Update{Restarted: out.Reset == kvevent.Restarted, Blind: out.Reset == kvevent.Blind,
			Why: out.Why})
	}
	for _, payload := range out.Apply {
		b, err := l.decoder.Decode(payload)
		switch {
		case err != nil:
			l.deliver(kvevent.Update{Blind: true, Why: err.Error()})
		case b.Lost:
			l.deliver(kvevent.Update{Blind: true, Why: "an event that takes blocks away cannot be read"})
		case len(b.Events)+b.Unknown+b.Bad > 0:
			l.deliver(kvevent.Update{Batch: b})
		}
	}
}
