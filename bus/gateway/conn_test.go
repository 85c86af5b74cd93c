package gateway

import (
	"net"
	"net/http"
	"sync"
	"testing"
)

// chatty is a connection on which bytes come as long as somebody reads.
type chatty struct{ net.Conn }

func (chatty) Read(p []byte) (int, error) { return len(p), nil }
func (chatty) Close() error               { return nil }

// With HTTP/2 a connection is read while its requests begin and end: what was counted of headers is given
// back once, whatever comes between, and nothing is counted of what is read after the connection's end.
func TestAHeaderCountsOnce(t *testing.T) {
	s := &Server{}
	s.memory.most = 1 << 30
	for range 200 {
		c := &conn{Conn: chatty{}, memory: &s.memory, traffic: &s.measures}
		var both sync.WaitGroup
		both.Go(func() {
			p := make([]byte, 3*freeHeader)
			for range 100 {
				if _, err := c.Read(p); err != nil {
					t.Error(err)
				}
			}
		})
		both.Go(func() {
			for range 50 {
				c.serve(true)
				changed(c, http.StateIdle)
			}
			c.Close()
		})
		both.Wait()
		changed(c, http.StateClosed)
		if used, headers := s.memory.used.Load(), s.memory.headers.Load(); used != 0 || headers != 0 {
			t.Fatalf("%d bytes are still counted, %d of headers", used, headers)
		}
	}
}
