package gateway

import (
	"io"
	"net/http"
	"time"
)

// toEnd notes whether a body was read to its end.
type toEnd struct {
	of *request
	io.ReadCloser
	read bool
}

func (b *toEnd) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read = b.read || err == io.EOF
	return n, err
}

// restWithin bounds the wait for the rest of a body that is of no use any more.
const restWithin = time.Second

// leaveBody bounds the wait of net/http for what nobody has read, before it writes the answer.
func (s *Server) leaveBody(w http.ResponseWriter) {
	rest, now := min(restWithin, s.c.BodyWithin), time.Now()
	to := http.NewResponseController(w)
	to.SetReadDeadline(now.Add(rest))
	to.SetWriteDeadline(now.Add(rest + s.c.WriteWithin))
}
