package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/openai"
	"souk/market"
)

// routes are the endpoints.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request, *key) error{
		"POST /v1/chat/completions": s.asking(bus.KindChat),
		"POST /v1/completions":      s.asking(bus.KindCompletion),
		"POST /v1/responses":        s.responding,
		"POST /v1/quote":            s.quote,
		"GET /v1/models":            s.models,
		"GET /v1/models/{id...}":    s.model,
		"GET /v1/balance":           s.balance,
		"GET /v1/streams/{task}":    s.resume,

		"POST /v1/sessions/{session}/end": s.endSession,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.count(func(st *Stats) { st.Requests[pattern]++ })
			if r.Header.Get("Expect") != "" { // net/http writes that it is to go on
				s.bound(w)
			}
			k, err := s.admit(r)
			header := headerCost(r.Header)
			switch {
			case err != nil:
			case !s.memory.take(header):
				err = s.memory.refuse()
			default:
				defer s.memory.add(-header)
				err = h(w, r, k)
			}
			if err != nil {
				s.refuse(w, err)
			}
		})
	}
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, noEndpoint(r))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // net/http waits for the rest of a body that nobody has read
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.c.BodyWithin))
		}
		if len(r.TransferEncoding) > 0 { // a Content-Length beside it might have told a proxy of another end
			w.Header().Set("Connection", "close")
		}
		tidy(r.URL)
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.begin()
		}
		body := &toEnd{ReadCloser: r.Body, read: r.ContentLength == 0}
		r.Body = body
		mux.ServeHTTP(w, r)
		if !body.read {
			s.leaveBody(w)
		}
	})
}

func noEndpoint(r *http.Request) *refusal {
	return refuse(openai.CodeNoEndpoint, "%.20s %.100s is not served here: there are POST "+
		"/v1/chat/completions, /v1/completions, /v1/responses, /v1/quote and "+
		"/v1/sessions/SESSION/end, GET /v1/models, /v1/balance and /v1/streams/TASK", r.Method, r.URL.Path)
}

// tidy leaves out slashes too many, as a base URL that ends with one brings them. Those within a name, which
// are escaped, stay.
func tidy(u *url.URL) {
	if !strings.Contains(u.Path, "//") && !strings.HasSuffix(u.Path, "/") {
		return
	}
	p := u.EscapedPath()
	for strings.Contains(p, "//") {
		p = strings.ReplaceAll(p, "//", "/")
	}
	if len(p) > 1 {
		p = strings.TrimSuffix(p, "/")
	}
	if plain, err := url.PathUnescape(p); err == nil {
		u.Path, u.RawPath = plain, p
	}
}

func (s *Server) count(what func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what(&s.stats)
}

func (s *Server) refuse(w http.ResponseWriter, err error) {
	r := *asRefusal(err)
	s.count(func(st *Stats) { st.Refused[r.code]++ })
	s.bound(w)
	r.write(w)
}

// admit says whose key a request came with.
func (s *Server) admit(r *http.Request) (*key, error) {
	if n := len(r.Header["Authorization"]); n > 1 {
		return nil, refuse(openai.CodeInvalidKey, "header Authorization: given %d times: send it once", n)
	}
	if err := s.awake.await(r.Context()); err != nil {
		return nil, err
	}
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	return s.keys.admit(time.Now(), shownBy(r), address)
}

// shownBy is the secret that a request brings.
func shownBy(r *http.Request) *shown {
	secret := secretOf(r)
	c, known := r.Context().Value(connKey{}).(*conn)
	if known && c.shown != nil && c.shown.secret == secret {
		return c.shown
	}
	p := show(secret)
	if known && p.whole { // others may be as long as a header
		c.shown = p
	}
	return p
}

// secretOf is the key as a request brings it.
func secretOf(r *http.Request) string {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	s.bound(w)
	s.mu.Lock()
	draining := s.draining
	s.mu.Unlock()
	if draining || s.d.Bus.Connected().IsZero() {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "not serving\n")
		return
	}
	io.WriteString(w, "ok\n")
}

func (s *Server) writeJSON(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	s.bound(w)
	w.Write(data)
}

// bound gives a client its time to take what is written next.
func (s *Server) bound(w http.ResponseWriter) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.c.WriteWithin))
}

// list is what is sold now, of what a key may ask for.
func (s *Server) list(k *key) []openai.Model {
	now := time.Now()
	s.mu.Lock()
	var hubs []bus.Status
	for _, h := range s.hubs {
		if now.Sub(h.at) < silent {
			hubs = append(hubs, h.status)
		}
	}
	s.mu.Unlock()
	return openai.Models(hubs, s.keys.about(k).Models)
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request, k *key) error {
	data, err := json.Marshal(struct {
		Object string         `json:"object"`
		Data   []openai.Model `json:"data"`
	}{"list", slices.Concat([]openai.Model{}, s.list(k))})
	if err == nil {
		s.writeJSON(w, data)
	}
	return err
}

func (s *Server) model(w http.ResponseWriter, r *http.Request, k *key) error {
	all, id := s.list(k), r.PathValue("id")
	i := slices.IndexFunc(all, func(m openai.Model) bool { return m.ID == id })
	if i < 0 {
		return refuse(bus.CodeUnknownModel, "model %.200q is not sold here now", id)
	}
	data, err := json.Marshal(all[i])
	if err == nil {
		s.writeJSON(w, data)
	}
	return err
}

// treasuryWithin bounds a question to the treasury.
const treasuryWithin = 5 * time.Second

func (s *Server) balance(w http.ResponseWriter, r *http.Request, k *key) error {
	id := s.keys.about(k).Client
	p, err := s.payer(id)
	if err != nil {
		return err
	}
	defer p.leave()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), treasuryWithin)
	defer cancel()
	reply, err := p.Balance(ctx, id)
	switch bus.CodeOf(err) {
	case "":
	case bus.CodeUnknown: // nothing was to happen, so it may be asked again
		return again(bus.CodeUnavailable, time.Second, "the treasury is silent: ask again shortly")
	default:
		return err
	}
	data, err := openai.EncodeBalance(id, reply)
	if err == nil {
		s.writeJSON(w, data)
	}
	return err
}

// asking serves the endpoint of a kind of task.
func (s *Server) asking(kind string) func(http.ResponseWriter, *http.Request, *key) error {
	return func(w http.ResponseWriter, r *http.Request, k *key) error {
		return s.answering(w, r, k, 2, func(data []byte, room *share) (*answer, error) {
			return s.ask(r, data, data, kind, k, nil, room)
		})
	}
}

// answering reads a body and gives the answer that ask finds or begins for it. While the body is read as JSON
// it takes so many times its room.
func (s *Server) answering(w http.ResponseWriter, r *http.Request, k *key, times int, ask func(data []byte,
	room *share) (*answer, error)) error {
	room := share{of: &s.memory, key: &k.coming}
	defer func() { room.set(0) }()
	data, err := s.readBody(w, r, &room)
	if err != nil {
		return err
	}
	if err := room.resize(times * cap(data)); err != nil {
		return err
	}
	a, err := ask(data, &room)
	room.set(0) // the answer has its own
	if err != nil {
		return err
	}
	return s.give(w, r, a, -1)
}

// responding serves the endpoint of responses, without a store of them: parts of answers may be named for a
// while.
func (s *Server) responding(w http.ResponseWriter, r *http.Request, k *key) error {
	id := s.keys.about(k).ID
	return s.answering(w, r, k, 5, func(data []byte, room *share) (*answer, error) {
		asked, no := openai.ReadResponses(data, func(item string) ([]byte, bool) {
			return s.items.get(time.Now(), id, item)
		})
		if no != nil {
			return nil, no
		}
		chat := asked.Chat
		asked.Chat = nil // as long as the answer it would be kept
		return s.ask(r, data, chat, bus.KindChat, k, asked, room)
	})
}

// firstRead is what room a body has at first: nearly all need no more.
const firstRead = 4 << 10

// readBody reads all of a body, of bounded size; its time is bounded since the request came. It takes room
// for what has come of it, whatever its header says is to come.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, room *share) ([]byte, error) {
	switch coding := r.Header.Get("Content-Encoding"); {
	case coding != "" && !strings.EqualFold(coding, "identity"):
		return nil, refuse(bus.CodeBadRequest, "Content-Encoding %.40q is not taken: send the body as "+
			"it is", coding)
	case r.ContentLength > bus.MaxBody:
		w.Header().Set("Connection", "close")
		return nil, refuse(bus.CodeTooLarge, "body of %d bytes: at most %d are taken", r.ContentLength,
			bus.MaxBody)
	}
	whole, known := bus.MaxBody+1, r.ContentLength >= 0 // a byte more, for the end to show
	if known {
		whole = int(r.ContentLength) + 1
	}
	if known { // else it would be read in vain
		if err := room.may(whole); err != nil {
			return nil, err
		}
	}
	var body []byte
	from := http.MaxBytesReader(w, r.Body, bus.MaxBody)
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
			return nil, refuse(bus.CodeTooLarge, "the body has more than %d bytes", bus.MaxBody)
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
		return refuse(bus.CodeBadRequest, "the body did not come whole within %v", s.c.BodyWithin)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return refuse(bus.CodeBadRequest, "the body broke off before its end")
	}
	return refuse(bus.CodeBadRequest, "the body's chunks are malformed, or it broke off")
}

// keptKey names an answer that can be read again: to its own key alone.
type keptKey struct{ key, answer string }

// resumeHeader asks for a stream that can be gone on with.
const resumeHeader = "X-Souk-Resume"

// idempotencyKey names a request that is served once however often it comes.
const idempotencyKey = "Idempotency-Key"

// ask starts an answer, or finds the one that was asked for already by the very body that came. data is what
// the market is asked. response is not nil where the answer is to be written as one.
func (s *Server) ask(r *http.Request, came, data []byte, kind string, k *key, response *openai.Responses,
	room *share) (*answer, error) {
	about := s.keys.about(k)
	header, resume, err := terms(r.Header)
	if err != nil {
		return nil, err
	}
	asked, no := openai.Ask(data, header, about.Client, kind)
	if no != nil {
		return nil, no
	}
	once := r.Header[idempotencyKey]
	var print [32]byte
	if len(once) > 0 {
		print = fingerprint(came, r.Pattern, asked.Tasks)
	}
	if err := limit(asked, &about); err != nil {
		return nil, err
	}
	a := &answer{key: admitted{k, shownBy(r).hash}, keyID: about.ID, asked: asked,
		kept: resume && asked.Stream, response: response,
		shape: openai.Shape{Kind: kind, Model: asked.Model, Created: time.Now().Unix(), Usage: asked.Usage,
			IDs: asked.IDs}}
	trace := bus.TraceOf(bus.Header(r.Header))
	if len(once) > 1 {
		return nil, twice(idempotencyKey, once)
	}
	if len(once) == 1 && once[0] != "" {
		sum := sha256.Sum256([]byte(about.ID + "\x00" + once[0]))
		a.again, a.kept, a.print = true, true, print
		a.shape.ID = "once-" + hex.EncodeToString(sum[:20])
	} else if a.shape.ID = asked.Tasks[0].ID; a.shape.ID == "" || len(asked.Tasks) > 1 {
		a.shape.ID = rand.Text()
	}
	for i := range asked.Tasks {
		t := &asked.Tasks[i]
		t.Trace = trace
		switch {
		case len(asked.Tasks) > 1 && (a.again || t.ID == ""):
			t.ID = a.shape.ID + "-" + strconv.Itoa(i)
		case a.again || t.ID == "":
			t.ID = a.shape.ID
		}
	}
	if err := s.awake.await(r.Context()); err != nil { // its body may have been long in coming
		return nil, err
	}
	return s.enter(a, room)
}

// fingerprint is what a request asks for that comes under an Idempotency-Key: its body, and the terms and
// names of its headers as they are read; not when it came, or how often, or by which of the key's secrets.
func fingerprint(body []byte, pattern string, tasks []bus.Task) (sum [32]byte) {
	h := sha256.New()
	h.Write(body)
	h.Write([]byte(pattern))
	for i := range tasks {
		t := &tasks[i]
		content := t.Content()
		h.Write(content[:])
		fmt.Fprintf(h, "%q %q %q %v", t.Failover, t.Parent, t.Next, t.SessionEnd)
	}
	h.Sum(sum[:0])
	return sum
}

// terms are the headers that say on which terms a task is asked, and whether its stream is to be kept.
func terms(h http.Header) (header bus.Header, resume bool, err error) {
	for name, values := range h {
		if !begins(name, "x-souk-") && !begins(name, "x-iemas-") {
			continue
		}
		if strings.EqualFold(name, resumeHeader) {
			if len(values) > 1 {
				return nil, false, twice(resumeHeader, values)
			}
			if resume = strings.EqualFold(values[0], "on"); !resume && !strings.EqualFold(values[0], "off") {
				return nil, false, refuse(bus.CodeBadRequest, "header %s: %.40q is neither on nor off",
					resumeHeader, values[0])
			}
			continue
		}
		if header == nil {
			header = bus.Header{}
		}
		header[name] = values
	}
	return header, resume, nil
}

// twice refuses a header of which it is not known what was meant.
func twice(name string, values []string) *refusal {
	return refuse(bus.CodeBadRequest, "header %s: given %d times: send it once", name, len(values))
}

func begins(name, with string) bool {
	return len(name) > len(with) && strings.EqualFold(name[:len(with)], with)
}

// limit applies what a key says of terms, prices and models.
func limit(asked *openai.Asked, k *bus.APIKey) error {
	if len(k.Models) > 0 && !slices.Contains(k.Models, asked.Model) {
		return refuse(bus.CodeUnknownModel, "model: this key may ask for %s",
			strings.Join(k.Models, ", "))
	}
	n := market.Credits(len(asked.Tasks))
	for i := range asked.Tasks {
		t := &asked.Tasks[i].Terms
		if t.Worth == nil {
			t.Worth = k.Terms.Worth
		}
		if t.Delta == nil {
			t.Delta = k.Terms.Delta
		}
		if t.PatienceMS == nil {
			t.PatienceMS = k.Terms.PatienceMS
		}
		for _, most := range []struct {
			c    *market.Credits
			caps bool
		}{{k.Terms.MaxPrice, false}, {k.MaxPrice, true}} {
			if most.c == nil || t.MaxPrice != nil && (!most.caps || *t.MaxPrice <= *most.c/n) {
				continue
			}
			each := *most.c / n
			if each == 0 {
				return refuse(bus.CodeBadTerms,
					"max_price: the key's %s leaves nothing for one of %d answers",
					*most.c, n)
			}
			t.MaxPrice = &each
		}
	}
	return nil
}

// enter takes an answer in, if there is room, or returns the one that is known under its name.
func (s *Server) enter(a *answer, room *share) (*answer, error) {
	p, err := s.payer(a.asked.Tasks[0].Client)
	if err != nil {
		return nil, err
	}
	a.payer, a.inline = p, !a.kept && !a.asked.Stream && len(a.asked.Tasks) == 1
	known, err := s.admitAnswer(a, room)
	switch {
	case known != a: // finished leaves it else
		p.leave()
	case !a.inline:
		a.start()
	}
	return known, err
}

// admitAnswer is the part of it under the server's lock.
func (s *Server) admitAnswer(a *answer, room *share) (*answer, error) {
	id := keptKey{a.keyID, a.shape.ID}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.kept[id]
	switch {
	case !s.keys.good(time.Now(), a.key): // else revoked finds it among those that are open
		return nil, errRevoked()
	case a.again && known != nil && known.print == a.print:
		return known, nil
	case a.kept && known != nil:
		return nil, refuse(bus.CodeIDConflict, "this Idempotency-Key, or task, came before with another body or "+
			"other terms (X-Souk-* headers): repeat the request as it was, or take a new one")
	case s.draining:
		return nil, again(bus.CodeDraining, time.Second, "this gateway is shutting down: ask another one, "+
			"or again")
	case len(s.open) >= s.c.MaxOpen:
		return nil, again(bus.CodeTooManyTasks, time.Second, "%d answers are open, the limit of this gateway",
			s.c.MaxOpen)
	}
	cost, sending := a.takes()
	if err := room.resize(cost + sending); err != nil {
		return nil, err
	}
	if err := s.keys.begin(time.Now(), a.key.key); err != nil {
		return nil, err
	}
	s.prepare(a)
	room.hand(cost)
	a.asking = cost
	a.held.Store(int64(cost))
	s.open[a] = struct{}{}
	if a.kept {
		s.kept[id] = a
	}
	return a, nil
}

// resume goes on with a stream of which the client has a part.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, k *key) error {
	if r.Method != http.MethodGet { // HEAD would take the stream away from who reads it
		return noEndpoint(r)
	}
	if r.ContentLength != 0 { // while it is not read, nobody sees that its sender leaves
		w.Header().Set("Connection", "close")
		return refuse(bus.CodeBadRequest, "a stream is asked for without a body")
	}
	last := -1
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return refuse(bus.CodeBadRequest, "header Last-Event-ID: %.40q is not the id of an event", text)
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
	if a.inline {
		a.runHere()
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
	h := w.Header()
	named(h, a.shape.ID, bus.Accepted{Hub: results[0].Hub, Agent: results[0].Agent})
	cost, paid := openai.Sums(results)
	h.Set("X-Souk-Cost", cost.String())
	h.Set("X-Souk-Paid", paid.String())
	if r := results[0].Receipt; r != nil && len(results) == 1 {
		h.Set("X-Souk-Receipt", r.ID)
	}
	s.writeJSON(w, object)
	return nil
}

func named(h http.Header, task string, by bus.Accepted) {
	h.Set("X-Souk-Task", task)
	if by.Hub != "" {
		h.Set("X-Souk-Hub", by.Hub)
		h.Set("X-Souk-Agent", by.Agent)
	}
}

// stream writes events as they come. All that it waits for comes on news.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, a *answer, reader int,
	news chan struct{}) error {
	var rang atomic.Bool
	timer := time.AfterFunc(s.c.VerdictWithin, func() {
		rang.Store(true)
		select {
		case news <- struct{}{}:
		default:
		}
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
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // proxies are to pass events on as they come
	named(h, a.shape.ID, by)
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
			return nil
		}
		if !rang.Swap(false) {
			continue
		}
		left := time.Until(said.Add(s.c.CommentEvery))
		if left <= 0 {
			if !write([]byte(openai.Comment)) {
				return nil
			}
			left = s.c.CommentEvery
		}
		timer.Reset(left)
	}
}

// errTaken is what a reader is told whose stream another request has taken over.
func errTaken() *refusal { return refuse(bus.CodeAnswerGone, "another request reads this answer now") }

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
