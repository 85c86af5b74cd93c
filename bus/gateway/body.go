package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"souk/bus"
)

// firstRead is the initial buffer of a body: nearly all need no more.
const firstRead = 4 << 10

// readBody reads all of a body, of bounded size; its time is bounded since the request came. It takes room
// for what has come of it, whatever its header says is to come.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, room *share) ([]byte, error) {
	switch coding := r.Header.Get("Content-Encoding"); {
	case coding != "" && !strings.EqualFold(coding, "identity"):
		return nil, refuse(bus.CodeBadRequest, "Content-Encoding %.40q is not taken: send the body as "+
			"it is", coding)
	case r.ContentLength > int64(s.c.MaxBody):
		w.Header().Set("Connection", "close")
		return nil, refuse(bus.CodeTooLarge, "body of %d bytes, at most %d are taken, pictures and sound included: "+
			"send a smaller one", r.ContentLength, s.c.MaxBody)
	}
	whole, known := s.c.MaxBody+1, r.ContentLength >= 0 // a byte more, for the end to show
	if known {
		whole = int(r.ContentLength) + 1
	}
	if known { // else it would be read in vain
		if err := room.may(whole); err != nil {
			return nil, err
		}
	}
	var body []byte
	from := http.MaxBytesReader(w, r.Body, int64(s.c.MaxBody))
	for {
		if len(body) == cap(body) {
			size := min(whole, max(firstRead, 2*cap(body)))
			if err := room.resize(size); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		var large *http.MaxBytesError
		switch {
		case err == io.EOF:
			http.NewResponseController(w).SetReadDeadline(time.Time{})
			return body, nil
		case errors.As(err, &large):
			return nil, refuse(bus.CodeTooLarge, "over %d bytes of body, pictures and sound included: send a smaller one",
				s.c.MaxBody)
		case err != nil:
			w.Header().Set("Connection", "close")
			return nil, s.noBody(err)
		}
	}
}

// noBody says why a body cannot be read.
func (s *Server) noBody(err error) *refusal {
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return refuse(bus.CodeBadRequest, "the body did not come whole within %v: send it faster, or less",
			s.c.BodyWithin)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return refuse(bus.CodeBadRequest, "the body broke off before its end: send it again, whole")
	}
	return refuse(bus.CodeBadRequest, "the body's chunks are malformed, or it broke off: send it again")
}
