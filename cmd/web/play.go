package web

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"souk/bus"
	"souk/market"
)

const (
	answerWithin = 5 * time.Minute // for an answer to begin: tasks may wait for a slot
	mostEvent    = 1 << 20         // bytes of an event of the gateway
	mostOutput   = 1 << 20         // tokens that may be asked for
	usualOutput  = 512
)

// playgroundPage asks for an answer.
type playgroundPage struct {
	Gateway string
	Models  []string
	Output  int
}

func (s *Server) playground(*http.Request, Role) (any, error) {
	p := &playgroundPage{Gateway: bus.Redact(s.c.Gateway), Models: []string{"auto"}, Output: usualOutput}
	for _, m := range modelsOf(speaking(s.watcher.Hubs(), time.Now())) {
		if last := p.Models[len(p.Models)-1]; m.Model != last && m.Pools == "" {
			p.Models = append(p.Models, m.Model)
		}
	}
	return p, nil
}

// bill says what an answer came to.
type bill struct {
	Souk struct {
		Task    string         `json:"task"`
		Hub     string         `json:"hub"`
		Agent   string         `json:"agent"`
		Cost    market.Credits `json:"cost"`
		Premium market.Credits `json:"premium"`
		Paid    market.Credits `json:"paid"`
		Receipt string         `json:"receipt"`
	} `json:"souk"`
	Model string `json:"model"`
	Usage *struct {
		Prompt  int64 `json:"prompt_tokens"`
		Output  int64 `json:"completion_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Finish          string        `json:"-"`
	First           time.Duration `json:"-"` // until the first text, and until the end
	Took            time.Duration `json:"-"`
	Journal, Number string        `json:"-"` // of its round, from the receipt
}

// ask streams an answer of the gateway as a page, with what it cost at its end. The key goes to the gateway,
// and is kept nowhere.
func (s *Server) ask(w http.ResponseWriter, r *http.Request) {
	if s.door.role(r) == "" {
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	}
	body, err := asked(r)
	switch {
	case s.c.Gateway == "":
		err = errors.New("The console knows no gateway: name one by --gateway.")
	case err == nil:
		select {
		case s.playing <- struct{}{}:
			defer func() { <-s.playing }()
		default:
			err = errors.New("As many answers come as may at once: try again.")
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
	to := http.NewResponseController(w)
	to.SetReadDeadline(time.Time{})
	send := func(part string, data any) error {
		text, err := render("answer.html", part, &page{Data: data})
		if err == nil {
			err = s.send(w, to, text)
		}
		return err
	}
	if send("begin", nil) != nil {
		return
	}
	b := new(bill)
	if err == nil {
		err = s.answer(r, body, b, func(text string) error {
			return s.send(w, to, []byte(template.HTMLEscapeString(strings.Map(readable, text))))
		})
	}
	if err != nil {
		send("failed", err.Error())
		return
	}
	b.Journal, b.Number, _ = strings.Cut(b.Souk.Receipt, "/")
	b.Number, _, _ = strings.Cut(b.Number, "/")
	send("bill", b)
}

// send writes and flushes, within the time that a reader has.
func (s *Server) send(w http.ResponseWriter, to *http.ResponseController, text []byte) error {
	to.SetWriteDeadline(time.Now().Add(s.slow))
	if _, err := w.Write(text); err != nil {
		return err
	}
	return to.Flush()
}

// asked is the body of a request as the form says it.
func asked(r *http.Request) ([]byte, error) {
	if err := r.ParseForm(); err != nil {
		return nil, fmt.Errorf("That is too long for the playground: at most %d KB are taken.", mostForm>>10)
	}
	prompt, key := r.PostForm.Get("prompt"), strings.TrimSpace(r.PostForm.Get("key"))
	most, err := strconv.Atoi(r.PostForm.Get("max_tokens"))
	switch {
	case key == "":
		return nil, errors.New("Give an API key: souk key new CLIENT makes one.")
	case strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }):
		return nil, errors.New("That is no API key: they begin with " + bus.KeyPrefix + ".")
	case strings.TrimSpace(prompt) == "":
		return nil, errors.New("Write a prompt.")
	case err != nil || most < 1 || most > mostOutput:
		return nil, fmt.Errorf("Give at most how many tokens the answer may have, 1 to %d.", mostOutput)
	}
	return json.Marshal(map[string]any{
		"model": cmp.Or(strings.TrimSpace(r.PostForm.Get("model")), "auto"), "max_tokens": most,
		"stream": true, "stream_options": map[string]bool{"include_usage": true},
		"messages": []map[string]string{{"role": "user", "content": prompt}},
	})
}

// answer asks the gateway, gives each piece of the answer's text to say, and fills in the bill.
func (s *Server) answer(r *http.Request, body []byte, b *bill, say func(string) error) error {
	began := time.Now()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost,
		strings.TrimSuffix(s.c.Gateway, "/")+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(r.PostForm.Get("key")))
	reply, err := s.answers.Do(request)
	if err != nil {
		return fmt.Errorf("The gateway does not answer: %w", err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(reply.Body, mostEvent))
		return refusal(text, reply.Status)
	}
	lines := bufio.NewScanner(reply.Body)
	lines.Buffer(nil, mostEvent)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if string(data) == "[DONE]" {
			b.Took = time.Since(began).Round(time.Millisecond)
			return nil
		}
		var e struct {
			Error   json.RawMessage `json:"error"`
			Choices []struct {
				Delta struct {
					Content   string `json:"content"`
					Reasoning string `json:"reasoning"`
				} `json:"delta"`
				Finish string `json:"finish_reason"`
			} `json:"choices"`
		}
		if json.Unmarshal(data, &e) != nil || json.Unmarshal(data, b) != nil {
			return errors.New("The gateway says what is not understood.")
		}
		if e.Error != nil {
			return refusal(data, "an error")
		}
		for _, c := range e.Choices {
			b.Finish = cmp.Or(c.Finish, b.Finish)
			if text := c.Delta.Reasoning + c.Delta.Content; text != "" {
				if b.First == 0 {
					b.First = time.Since(began).Round(time.Millisecond)
				}
				if err := say(text); err != nil {
					return err
				}
			}
		}
	}
	return errors.New("The answer broke off.")
}

// refusal returns why there is no answer, or none to its end, as the gateway says it.
func refusal(text []byte, status string) error {
	var e struct {
		Error struct {
			Message string `json:"message"`
			Souk    struct {
				Code string `json:"code"`
			} `json:"souk"`
		} `json:"error"`
	}
	if json.Unmarshal(text, &e) != nil || e.Error.Message == "" {
		return fmt.Errorf("The gateway answers %s.", status)
	}
	return fmt.Errorf("%s (%s)", e.Error.Message, cmp.Or(e.Error.Souk.Code, status))
}
