package gateway

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/openai"
)

// resume goes on with a stream of which the client has a part.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, k *key) error {
	if r.Method != http.MethodGet { // HEAD would take the stream away from who reads it
		return noEndpoint(r)
	}
	if r.ContentLength != 0 { // while it is not read, nobody sees that its sender leaves
		w.Header().Set("Connection", "close")
		return refuse(bus.CodeBadRequest, "a stream is asked for by GET without a body: leave it out")
	}
	last := -1
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return refuse(bus.CodeBadRequest, "header Last-Event-ID: %.40q is not the id of an "+
				"event: write the last that was read, or leave it out", text)
		}
		last = int(n)
	}
	s.mu.Lock()
	a := s.kept[keptKey{s.keys.about(k).ID, r.PathValue("task")}]
	s.mu.Unlock()
	if a == nil || !a.asked.Stream {
		return refuse(bus.CodeAnswerGone,
			"no stream of this name is kept for this key: it has ended, or was "+
				"asked for without X-Souk-Resume: on, or at another gateway")
	}
	return s.give(w, r, a, last)
}

// give writes an answer to whoever asked, from an event on.
func (s *Server) give(w http.ResponseWriter, r *http.Request, a *answer, last int) error {
	if of := requestIn(r); !of.began {
		of.line.Task = a.shape.ID
	}
	reader, news, err := a.attach(last)
	if err != nil {
		return err
	}
	gone := context.AfterFunc(r.Context(), func() { a.left(reader) })
	defer func() {
		if gone() {
			a.left(reader)
		}
	}()
	if a.asked.Stream {
		return s.stream(w, r, a, reader, news)
	}
	if err := a.await(r); err != nil {
		return err
	}
	a.mu.Lock()
	refused, object, results := a.refused, a.object, a.results
	a.mu.Unlock()
	if refused != nil {
		return refused
	}
	h := heads{w.Header(), make([]string, 0, 8)}
	h.named(a.shape.ID, bus.Accepted{Hub: results[0].Hub, Agent: results[0].Agent})
	cost, paid := openai.Sums(results)
	h.set("X-Souk-Cost", cost.String())
	h.set("X-Souk-Paid", paid.String())
	if r := results[0].Receipt; r != nil && len(results) == 1 {
		h.set("X-Souk-Receipt", r.ID)
	}
	h.set("Content-Type", "application/json")
	if len(object) > counted {
		h.set("Content-Length", strconv.Itoa(len(object)))
	}
	s.bound(w)
	w.Write(object)
	return nil
}

// counted is the length of an answer up to which net/http itself says it. One header less is much less work:
// a map of at most eight is small.
const counted = 2 << 10

// heads are headers of an answer, whose values share one array.
type heads struct {
	http.Header
	values []string
}

// set sets a header, whose name is canonical.
func (h *heads) set(name, value string) {
	n := len(h.values)
	h.values = append(h.values, value)
	h.Header[name] = h.values[n : n+1 : n+1]
}

func (h *heads) named(task string, by bus.Accepted) {
	h.set("X-Souk-Task", task)
	if by.Hub != "" {
		h.set("X-Souk-Hub", by.Hub)
		h.set("X-Souk-Agent", by.Agent)
	}
}

// stream writes events as they come. All that it waits for comes on news.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, a *answer, reader int,
	news chan struct{}) error {
	var rang atomic.Bool
	timer := time.AfterFunc(s.c.VerdictWithin, func() {
		rang.Store(true)
		follow.Nudge(news)
	})
	defer timer.Stop()
	for !a.settled() && !rang.Swap(false) {
		if r.Context().Err() != nil {
			if err := a.await(r); err != nil {
				return err
			}
			break
		}
		if !a.readBy(reader) { // nothing is said on news any more
			return errTaken()
		}
		<-news
	}
	by, refused := a.begin()
	if refused != nil {
		<-a.over // then it is known what is paid all the same
		_, refused = a.begin()
		return refused
	}
	h := heads{w.Header(), make([]string, 0, 6)}
	h.set("Content-Type", "text/event-stream")
	h.set("Cache-Control", "no-cache")
	h.set("X-Accel-Buffering", "no") // proxies are to pass events on as they come
	h.named(a.shape.ID, by)
	on := http.NewResponseController(w)
	var said, bounded time.Time // when something was written last, and when its time was set: not each time
	write := func(data []byte) bool {
		if said = time.Now(); said.Sub(bounded) > s.c.WriteWithin/16 {
			bounded = said
			on.SetWriteDeadline(said.Add(s.c.WriteWithin))
		}
		_, err := w.Write(data)
		return err == nil && on.Flush() == nil
	}
	for timer.Reset(s.c.CommentEvery); ; <-news {
		data, all, mine := a.next(reader)
		switch {
		case !mine && r.Context().Err() != nil:
			write(a.lastEvent(a.leaves()))
			return nil
		case !mine:
			write(a.lastEvent(errTaken()))
			return nil
		case (len(data) > 0 || said.IsZero()) && !write(data): // the status goes out without an event, too
			return nil
		case all:
			if a.kept {
				write([]byte(openai.EndOfIDs))
			}
			return nil
		}
		if !rang.Swap(false) {
			continue
		}
		left := time.Until(said.Add(s.c.CommentEvery))
		if left <= 0 {
			if !write([]byte(openai.Comment(a.kept))) {
				return nil
			}
			left = s.c.CommentEvery
		}
		timer.Reset(left)
	}
}

func errTaken() *refusal {
	return refuse(bus.CodeAnswerGone, "another request reads this answer now: one at a time can")
}

// await waits for the answer's end, or, where that does not wait for its reader, for whoever asked to leave.
func (a *answer) await(r *http.Request) error {
	gone := r.Context().Done()
	if !a.kept {
		gone = nil
	}
	select {
	case <-a.over:
		return nil
	case <-gone:
		return a.leaves()
	}
}
