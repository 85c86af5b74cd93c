// Package flood plays a hostile member who attacks the servers of a market with its own creds and
// certificate, by ordinary clients, and measures what others notice.
package flood

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/natsauth"
)

// NATS is a client's flood: connections that hear everything that the client may, many times over, and read
// none of it, and some that ask what many answer.
type NATS struct {
	URL   string
	Name  string
	Creds natsauth.Source

	Connections, Subscriptions int // that read nothing
	Askers                     int // connections that ask

	Again time.Duration // how soon one that was closed comes again; 0: at once
}

// Did counts what a flood opened, sent and was refused.
type Did struct {
	Opened, Closed int64 // connections: opened, and closed by the server
	Asked          int64 // requests
	Refused        int64 // of them
}

func (d Did) String() string {
	return fmt.Sprintf("%d connections opened, %d closed by the server, %d requests, %d refused", d.Opened, d.Closed,
		d.Asked, d.Refused)
}

// deaf is a connection that can stop reading.
type deaf struct {
	net.Conn
	stop, end chan struct{}
	once      sync.Once
}

func (d *deaf) Read(b []byte) (int, error) {
	select {
	case <-d.stop:
		<-d.end
		return 0, net.ErrClosed
	default:
	}
	n, err := d.Conn.Read(b)
	select {
	case <-d.stop: // what came meanwhile is not looked at
		<-d.end
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (d *deaf) Close() error {
	d.once.Do(func() { close(d.end) })
	return d.Conn.Close()
}

// dialer makes connections of which the last can be made deaf.
type dialer struct{ last *deaf }

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).Dial(network, address)
	if err != nil {
		return nil, err
	}
	d.last = &deaf{Conn: c, stop: make(chan struct{}), end: make(chan struct{})}
	return d.last, nil
}

func (f NATS) connect(d *dialer) (*nats.Conn, error) {
	i, err := f.Creds()
	if err != nil {
		return nil, err
	}
	options := []nats.Option{nats.Name(f.Name), nats.NoReconnect(), nats.Timeout(5 * time.Second),
		nats.UserJWT(func() (string, error) { return i.JWT(), nil }, i.Sign),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	if d != nil {
		options = append(options, nats.SetCustomDialer(d))
	}
	return nats.Connect(f.URL, options...)
}

// Run floods until ctx ends: who is cut off comes again at once.
func (f NATS) Run(ctx context.Context) Did {
	var d struct{ opened, closed, asked, refused atomic.Int64 }
	var all sync.WaitGroup
	again := func(do func() error) {
		all.Go(func() {
			for ctx.Err() == nil {
				if do() != nil {
					d.refused.Add(1)
				}
				if ctx.Err() == nil {
					d.closed.Add(1)
				}
				select {
				case <-time.After(f.Again):
				case <-ctx.Done():
				}
			}
		})
	}
	never := make(chan *nats.Msg) // nothing is taken from it
	for range f.Connections {
		again(func() error {
			conn := &dialer{}
			nc, err := f.connect(conn)
			if err != nil {
				return err
			}
			defer nc.Close()
			d.opened.Add(1)
			for i := range f.Subscriptions {
				subject := []string{bus.InboxOf(f.Name) + ".>", bus.ReplySubject(f.Name, "*", "*"),
					bus.StatusSubject("*")}[i%3]
				if _, err := nc.ChanSubscribe(subject, never); err != nil {
					return err
				}
			}
			nc.FlushTimeout(5 * time.Second)
			close(conn.last.stop)
			// who reads nothing hears of its end by writing alone
			for t := time.NewTicker(100 * time.Millisecond); ; {
				select {
				case <-t.C:
					if nc.Publish(bus.DoorCancelSubject(f.Name, ""), nil) == nil && !nc.IsClosed() {
						continue
					}
				case <-ctx.Done():
				}
				t.Stop()
				break
			}
			return nil
		})
	}
	for range f.Askers {
		again(func() error {
			nc, err := f.connect(nil)
			if err != nil {
				return err
			}
			defer nc.Close()
			d.opened.Add(1)
			reply := bus.InboxOf(f.Name) + ".x"
			for ctx.Err() == nil {
				for range 100 {
					if nc.PublishRequest(bus.TaskSubject(f.Name, ""), reply, nil) != nil {
						return nil
					}
					d.asked.Add(1)
				}
				if nc.FlushTimeout(5*time.Second) != nil {
					return nil
				}
			}
			return nil
		})
	}
	all.Wait()
	return Did{d.opened.Load(), d.closed.Load(), d.asked.Load(), d.refused.Load()}
}
