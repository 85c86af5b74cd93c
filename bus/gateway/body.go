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
	most := s.mostBody(r.ContentLength)
	switch coding := r.Header.Get("Content-Encoding"); {
	case coding != "" && !strings.EqualFold(coding, "identity"):
		return nil, refuse(bus.CodeBadRequest, "Content-Encoding %.40q is not taken: send the body as "+
			"it is", coding)
	case r.ContentLength > int64(most):
		w.Header().Set("Connection", "close")
		return nil, refuse(bus.CodeTooLarge, "body of %d bytes, at most %d are taken, pictures and sound included: "+
			"send a smaller one", r.ContentLength, most)
	}
	whole, known := most+1, r.ContentLength >= 0 // a byte more, for the end to show
	if known {
		whole = int(r.ContentLength) + 1
	}
	if known { // else it would be read in vain
		if err := room.may(whole); err != nil {
			return nil, err
		}
	}
	var body []byte
	from := io.Reader(r.Body)
	if !known { // else it has no more than its header says
		from = http.MaxBytesReader(w, r.Body, int64(most))
	}
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
				most)
		case err != nil:
			w.Header().Set("Connection", "close")
			return nil, s.noBody(err)
		}
	}
}

// What the longest context on sale has room for, whatever it is made of: in some scripts, written with
// escapes, a token has dozens of bytes, and a picture of 1,500 tokens often a megabyte.
const (
	bytesPerToken  = 1 << 10
	bytesOfPicture = 4 << 20 // one, also where the context is short
)

// mostBody is the size up to which a body is read that says to have so many bytes, or nothing with -1.
func (s *Server) mostBody(came int64) int {
	switch {
	case s.c.MaxBody > 0:
		return s.c.MaxBody
	case came >= 0 && came <= bus.MaxBody:
		return bus.MaxBody
	}
	longest, now := 0, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hubs {
		if now.Sub(h.at) >= silent {
			continue
		}
		for i := range h.status.Models {
			m := &h.status.Models[i]
			if longest = max(longest, m.MaxModelLen); m.Pools != "" || m.MaxModelLen == 0 {
				return bus.MaxLarge // it takes many texts at once, or does not say
			}
		}
	}
	if longest == 0 {
		return bus.MaxLarge
	}
	return min(bus.MaxLarge, bytesOfPicture+bytesPerToken*longest)
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
