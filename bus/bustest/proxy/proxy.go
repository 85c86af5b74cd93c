// Package proxy is a way to a server that can be cut, frozen, slowed and led elsewhere.
package proxy

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Proxy forwards TCP connections to a server and can be told to lose them.
type Proxy struct {
	listener net.Listener
	done     sync.WaitGroup

	mu     sync.Mutex
	target string
	change *sync.Cond // state, delay or conns
	state  state
	delay  time.Duration
	conns  map[net.Conn]bool
}

type state int

const (
	passing state = iota
	cut           // connections are reset, new ones closed at once
	frozen        // connections stay, nothing passes: a black hole
	closed
)

// New listens on a free port of the loopback and forwards to target, host:port.
func New(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{listener: listener, target: target, conns: map[net.Conn]bool{}}
	p.change = sync.NewCond(&p.mu)
	p.done.Add(1)
	go p.accept()
	return p, nil
}

// Addr is host:port where clients connect.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut resets all connections and takes no new ones.
func (p *Proxy) Cut() { p.set(cut) }

// Freeze lets nothing pass, and tells nobody.
func (p *Proxy) Freeze() { p.set(frozen) }

// Heal lets everything pass again; what was held back by Freeze arrives.
func (p *Proxy) Heal() { p.set(passing) }

// Redirect cuts all connections; those made from now on go to another target.
func (p *Proxy) Redirect(target string) {
	p.Cut()
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Heal()
}

// Delay holds back every piece of data for d, in both directions.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.set(closed)
	p.listener.Close()
	p.done.Wait()
}

func (p *Proxy) set(s state) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == closed {
		return
	}
	p.state = s
	if s == cut || s == closed {
		for c := range p.conns {
			if tcp, ok := c.(*net.TCPConn); ok {
				tcp.SetLinger(0) // a reset, as from a machine that has lost its memory
			}
			c.Close()
		}
		clear(p.conns)
	}
	p.change.Broadcast()
}

func (p *Proxy) accept() {
	defer p.done.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.done.Add(1)
		go p.serve(client)
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer p.done.Done()
	defer client.Close()
	if !p.keep(client) {
		return
	}
	defer p.drop(client)
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return // the client sees its connection close, as it would without us
	}
	defer server.Close()
	if !p.keep(server) {
		return
	}
	defer p.drop(server)
	back := make(chan struct{})
	go func() {
		defer close(back)
		p.copy(client, server)
		client.Close()
	}()
	p.copy(server, client)
	server.Close()
	<-back
}

// keep remembers a connection so that it can be cut. It refuses while nothing may connect.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == cut || p.state == closed {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) copy(to io.Writer, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !p.gate() {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// gate waits until data may pass, and reports whether it may.
func (p *Proxy) gate() bool {
	p.mu.Lock()
	for p.state == frozen {
		p.change.Wait()
	}
	s, delay := p.state, p.delay
	p.mu.Unlock()
	if delay > 0 {
		<-time.After(delay)
	}
	return s == passing
}
