package vllmsim

import (
	"encoding/json"
	"net/http"
	"strings"
)

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	id, at := s.cfg.Model, s.born.Unix()
	answer(w, 200, modelList{"list",
		[]modelCard{{id, "model", at, "vllm", id, nil, s.cfg.MaxModelLen, []modelPermission{{
			ID: "modelperm-" + randomHex(8), Object: "model_permission", Created: at, AllowSampling: true,
			AllowLogprobs: true,
			AllowView:     true, Organization: "*",
		}}}}})
}

type modelList struct {
	Object string      `json:"object"`
	Data   []modelCard `json:"data"`
}

type modelCard struct {
	ID          string            `json:"id"`
	Object      string            `json:"object"`
	Created     int64             `json:"created"`
	OwnedBy     string            `json:"owned_by"`
	Root        string            `json:"root"`
	Parent      *string           `json:"parent"`
	MaxModelLen int               `json:"max_model_len"`
	Permission  []modelPermission `json:"permission"`
}

type modelPermission struct {
	ID                 string  `json:"id"`
	Object             string  `json:"object"`
	Created            int64   `json:"created"`
	AllowCreateEngine  bool    `json:"allow_create_engine"`
	AllowSampling      bool    `json:"allow_sampling"`
	AllowLogprobs      bool    `json:"allow_logprobs"`
	AllowSearchIndices bool    `json:"allow_search_indices"`
	AllowView          bool    `json:"allow_view"`
	AllowFineTuning    bool    `json:"allow_fine_tuning"`
	Organization       string  `json:"organization"`
	Group              *string `json:"group"`
	IsBlocking         bool    `json:"is_blocking"`
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	body, p := s.body(w, r)
	if p != nil {
		refuse(w, p)
		return
	}
	c, p := parse(body, false)
	if p == nil && !c.hasPrompt && len(c.messages) == 0 {
		p = invalid("missing", "body.prompt", "Field required", describe(body))
	}
	if p == nil && c.model != "" && c.model != s.cfg.Model {
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
	text := quoted(Tokens().Decode(c.Tokens))
	send(w, 200, append(append([]byte(`{"prompt":`), text...), '}'))
}

func (s *Server) resetCache(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	ok := s.engine.Cache.Reset()
	s.mu.Unlock()
	answer(w, 200, map[string]bool{"success": ok})
}

func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	page, dead := s.stale, s.metricsFault == MetricsDead
	s.mu.Unlock()
	if dead {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	if page == nil {
		page = s.page()
	}
	w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
	_, _ = w.Write(page)
}

// page is /metrics as it is now.
func (s *Server) page() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.engine
	return render(nil, s.cfg.Model, s.started, &e.stats, gauges{
		running: len(e.Running), waiting: len(e.Waiting),
		kvUsage: float64(e.Cache.Used()) / float64(e.Cache.Capacity()),
		blocks:  s.cfg.NumGPUBlocks, block: s.cfg.BlockSize, caching: !s.cfg.NoPrefixCaching,
	})
}
