package vllmsim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"

	"souk/agentd/kvevent"
	"souk/agentd/vllm/zmtp"
)

// publisher is vLLM's: a PUB socket, which listens or connects by the engine's rule, and a ROUTER that says
// again what it said. Its life is the engine's: numbers begin at 0.
type publisher struct {
	cfg    KVEvents // with the ports that were taken
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	seq    uint64
	buffer []published
	subs   map[chan published]struct{}
}

type published struct {
	seq     [8]byte
	payload []byte
}

// highWater bounds the batches that wait for a subscriber before the next are lost to it.
const highWater = 4096

// bufferSteps is the replay's default capacity in batches.
const bufferSteps = 10_000

// publish starts one.
func publish(cfg KVEvents) (*publisher, error) {
	cfg.BufferSteps = cmp.Or(cfg.BufferSteps, bufferSteps)
	p := &publisher{cfg: cfg, subs: map[chan published]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	source := kvevent.Source{Endpoint: cfg.Endpoint, Replay: cfg.Replay}
	endpoint, connect, _ := source.Publisher()
	var err error
	p.cfg.Endpoint, err = p.serves(cfg.Endpoint, endpoint, !connect, "PUB", p.serve)
	if replay, _ := source.Replays(); replay != "" && err == nil {
		p.cfg.Replay, err = p.serves(cfg.Replay, replay, true, "ROUTER", p.replay)
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("vllmsim: publishing events: %w", err)
	}
	return p, nil
}

// serves serves whoever is met at an endpoint, and returns its name with the port that it has.
func (p *publisher) serves(name, endpoint string, listen bool, as string, serve func(*zmtp.Conn)) (string,
	error) {
	addr, err := zmtp.Connections(p.ctx, &p.done, endpoint, listen, func(error) {}, func(nc net.Conn) bool {
		defer context.AfterFunc(p.ctx, func() { _ = nc.Close() })()
		if c, err := zmtp.Meet(nc, as); err == nil {
			serve(c)
			_ = c.Close()
		}
		return true
	})
	if a, ok := addr.(*net.TCPAddr); ok {
		name = fmt.Sprintf("%s:%d", name[:strings.LastIndexByte(name, ':')], a.Port)
	}
	return name, err
}

func (p *publisher) close() {
	p.cancel()
	p.done.Wait()
}

// say publishes a batch: to who listens now, unless it is lost, and to whoever asks later.
func (p *publisher) say(payload []byte, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := published{payload: payload}
	binary.BigEndian.PutUint64(b.seq[:], p.seq)
	p.seq++
	if len(p.buffer) == p.cfg.BufferSteps {
		p.buffer = p.buffer[1:]
	}
	p.buffer = append(p.buffer, b)
	for sub := range p.subs {
		if lost {
			break
		}
		select {
		case sub <- b:
		default:
		}
	}
}

// serve publishes to one subscriber until it leaves.
func (p *publisher) serve(c *zmtp.Conn) {
	queue, gone := make(chan published, highWater), make(chan struct{})
	p.done.Go(func() {
		defer close(gone)
		for {
			m, err := c.Read()
			if err != nil {
				return
			}
			topic, subscribed := m.Frames[0], m.Command == "SUBSCRIBE"
			if m.Command == "" && len(topic) > 0 && topic[0] == 1 {
				topic, subscribed = topic[1:], true
			}
			if subscribed && bytes.HasPrefix([]byte(p.cfg.Topic), topic) {
				p.mu.Lock()
				p.subs[queue] = struct{}{}
				p.mu.Unlock()
			}
		}
	})
	defer func() {
		p.mu.Lock()
		delete(p.subs, queue)
		p.mu.Unlock()
	}()
	for {
		select {
		case b := <-queue:
			if c.Write([]byte(p.cfg.Topic), b.seq[:], b.payload) != nil {
				return
			}
		case <-gone:
			return
		}
	}
}

// replay says again what is asked for, as vLLM does.
func (p *publisher) replay(c *zmtp.Conn) {
	for {
		m, err := c.Read()
		if err != nil {
			return
		}
		if m.Command != "" || len(m.Frames) != 2 || len(m.Frames[1]) != 8 {
			continue
		}
		p.mu.Lock()
		all := p.buffer
		p.mu.Unlock()
		for _, b := range all {
			if bytes.Compare(b.seq[:], m.Frames[1]) >= 0 &&
				c.Write(nil, []byte(p.cfg.Topic), b.seq[:], b.payload) != nil {
				return
			}
		}
		if c.Write(nil, nil, bytes.Repeat([]byte{0xff}, 8), nil) != nil {
			return
		}
	}
}
