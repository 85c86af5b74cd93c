package vllmsim

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"souk/bus/openai"
)

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	model := func(o openai.Out, id, root, parent, longest string) openai.Out {
		return o.Raw(`{"id":`).Str(id).Raw(`,"object":"model","created":`).Int(int(s.born.Unix())).
			Raw(`,"owned_by":"vllm","root":`).Str(root).Raw(`,"parent":`).StrOrNull(parent).
			Raw(`,"max_model_len":`).Raw(longest).Raw(`,"permission":[{"id":"modelperm-`).Raw(randomHex(8)).
			Raw(`","object":"model_permission","created":`).Int(int(s.born.Unix())).
			Raw(`,"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,`).
			Raw(`"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*",`).
			Raw(`"group":null,"is_blocking":false}]}`)
	}
	o := model(openai.Out(`{"object":"list","data":[`), s.cfg.Model, s.cfg.Model, "",
		strconv.Itoa(s.cfg.MaxModelLen))
	for _, name := range s.cfg.Adapters.Names {
		o = model(o.Raw(","), name, "/adapters/"+name, s.cfg.Model, "null")
	}
	send(w, 200, o.Raw("]}"))
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	body, p := s.body(w, r)
	var c *call
	if p == nil {
		c, p = parse(body, false)
	}
	switch {
	case p != nil:
	case !c.hasPrompt && len(c.messages) == 0:
		p = invalid("missing", "body.prompt", "Field required", describe(body))
	case c.model != "" && c.model != s.cfg.Model && s.adapter(c.model) == 0:
		p = unknownModel(c.model, s.cfg.Model)
	}
	if p != nil {
		refuse(w, p)
		return
	}
	v := Tokens()
	ids := []uint32{}
	if c.hasPrompt && len(c.text) == 1 {
		ids = v.Encode(ids, c.text[0])
	} else {
		ids = chatTokens(ids, c)
	}
	var names []string
	if c.tokenStrings {
		for _, id := range ids {
			names = append(names, strings.ToValidUTF8(v.Text(id), "\uFFFD"))
		}
	}
	answer(w, 200, struct {
		Count       int      `json:"count"`
		MaxModelLen int      `json:"max_model_len"`
		Tokens      []uint32 `json:"tokens"`
		Strings     []string `json:"token_strs"`
	}{len(ids), s.cfg.MaxModelLen, ids, names})
}

func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	body, p := s.body(w, r)
	if p != nil {
		refuse(w, p)
		return
	}
	var c struct {
		Tokens []uint32 `json:"tokens"`
	}
	if err := json.Unmarshal(body, &c); err != nil {
		refuse(w, badRequest("tokens", "%v", err))
		return
	}
	send(w, 200, openai.Out(`{"prompt":`).Str(Tokens().Decode(c.Tokens)).Raw("}"))
}

func (s *Server) resetCache(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	ok := len(s.engine.all()) == 0 && s.engine.Cache.Reset()
	if v := s.engine.events; ok && v != nil {
		v.event(member{"type", "AllBlocksCleared"}) // published with the next step, as a real server does
	}
	s.mu.Unlock()
	answer(w, 200, map[string]bool{"success": ok})
}

// eventSources returns the endpoints at which events are published, by rank: there is one.
func (s *Server) eventSources(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	c := s.cfg.KVEvents
	s.mu.Unlock()
	out := map[string]any{}
	if c.On {
		replay := any(nil)
		if c.Replay != "" {
			replay = c.Replay
		}
		out["0"] = map[string]any{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": c.Endpoint,
			"replay_endpoint": replay, "buffer_steps": cmp.Or(c.BufferSteps, bufferSteps), "hwm": highWater,
			"max_queue_size": highWater, "topic": c.Topic}
	}
	answer(w, 200, out)
}

func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
	_, _ = w.Write(s.page())
}

// page is /metrics as it is now.
func (s *Server) page() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.page()
}
