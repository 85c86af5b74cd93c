package gateway

import (
	"context"
	"net/http"

	"souk/bus"
	"souk/bus/openai"
)

// quote says what a request would be given, as an estimate. It is open as long as it lasts.
func (s *Server) quote(w http.ResponseWriter, r *http.Request, k *key) (object []byte, err error) {
	err = s.reading(w, r, k, 2, func(data []byte, _ *share) error {
		about := s.keys.about(k)
		header, _, err := terms(r.Header)
		if err != nil {
			return err
		}
		asked, no := openai.Ask(data, header, about.Client, "")
		if no != nil {
			return no
		}
		if len(asked.Tasks) > 1 {
			return refuse(bus.CodeUnsupportedField, "n and a list of prompts ask for %d answers; a quote is for one: "+
				"send n 1 and one prompt", len(asked.Tasks))
		}
		if err := limit(asked, about); err != nil {
			return err
		}
		task := asked.Tasks[0]
		task.Trace = requestIn(r).trace
		var q bus.Quote
		err = s.asks(r, k, func(ctx context.Context, p *payer) (err error) {
			q, err = p.Quote(context.WithoutCancel(ctx), task) // it knows how long its body may take
			return err
		})
		switch {
		case q.Code != "":
			return &refusal{code: q.Code, message: q.Message, retryMS: q.RetryMS}
		case err != nil:
			return err
		}
		object, err = openai.EncodeQuote(&q)
		return err
	})
	return object, err
}
