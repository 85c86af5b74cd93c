package vllmsim

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"souk/agentd/vllmsim/kv"
	"souk/bus/openai"
)

// A server of a pooling model embeds texts and scores them against a query, and generates nothing. A vector
// is made of the hashes of a text's tokens, so that texts with words in common are near each other.

// Dimensions is the length of a vector.
const Dimensions = 64

// poolingCall is the body of a pooling request.
type poolingCall struct {
	Model      string          `json:"model"`
	Input      json.RawMessage `json:"input"`
	Format     string          `json:"encoding_format"`
	Dimensions int             `json:"dimensions"`
	Query      *string         `json:"query"`
	Documents  []string        `json:"documents"`
	TopN       int             `json:"top_n"`
}

// spaced are a text's tokens, the first word's like any other's.
func spaced(text string) []uint32 { return Tokens().Encode(nil, " "+text) }

// prompts are the token ids of all texts to be read.
func (c *poolingCall) prompts(rerank bool) (all [][]uint32, p *problem) {
	text := func(t string) { all = append(all, spaced(t)) }
	if rerank {
		if c.Query == nil || c.Documents == nil {
			return nil, invalid("missing", "body.query", "Field required", "{}")
		}
		for _, d := range c.Documents {
			text(*c.Query + " " + d)
		}
		return all, nil
	}
	var one string
	var texts []string
	var ids []uint32
	switch {
	case json.Unmarshal(c.Input, &one) == nil:
		text(one)
	case json.Unmarshal(c.Input, &texts) == nil:
		for _, t := range texts {
			text(t)
		}
	case json.Unmarshal(c.Input, &ids) == nil:
		all = [][]uint32{ids}
	case json.Unmarshal(c.Input, &all) == nil:
	default:
		return nil, invalid("missing", "body.input", "Field required", "{}")
	}
	return all, nil
}

// pool serves a pooling request.
func (s *Server) pool(w http.ResponseWriter, r *http.Request, rerank bool) {
	s.open.Add(1)
	defer s.open.Add(-1)
	a := &answering{s: s, w: w, r: r}
	var c poolingCall
	body, p := s.body(w, r)
	if p == nil && json.Unmarshal(body, &c) != nil {
		p = invalid("json_invalid", "body", "JSON decode error", "{}")
	}
	if p == nil && c.Model != "" && c.Model != s.cfg.Model {
		p = unknownModel(c.Model, s.cfg.Model)
	}
	var ids [][]uint32
	if p == nil {
		ids, p = c.prompts(rerank)
	}
	var choices []*sequence
	if p == nil {
		choices, p = s.sequences(&call{ids: ids, maxTokens: optional{1, true}, ignoreEOS: true}, len(body))
	}
	if p == nil && len(choices) > 0 {
		p = s.admit(a, choices)
	}
	if p != nil {
		refuse(w, p)
		return
	}
	defer s.leave(choices)
	if a.fault.Kind == Hang {
		a.silence()
	}
	tokens := 0
	for _, q := range choices {
		tokens += q.prompt
		for !s.look(q).ended {
			if !a.next(q) {
				return
			}
		}
	}
	o := openai.Out(`{"id":"pool-`).Raw(randomHex(8)).Raw(`","object":"list","created":`).Int(int(time.Now().Unix())).
		Raw(`,"model":`).Str(s.cfg.Model)
	if rerank {
		o = c.results(o)
	} else {
		o = c.data(o, ids)
	}
	send(w, 200, o.Raw(`,"usage":{"prompt_tokens":`).Int(tokens).Raw(`,"total_tokens":`).Int(tokens).
		Raw(`,"completion_tokens":0,"prompt_tokens_details":null}}`))
}

func (c *poolingCall) data(o openai.Out, texts [][]uint32) openai.Out {
	for i, ids := range texts {
		o = o.Raw([...]string{`,"data":[`, `,`}[min(i, 1)]).Raw(`{"index":`).Int(i).
			Raw(`,"object":"embedding","embedding":`)
		v := vector(ids, cmp.Or(c.Dimensions, Dimensions))
		if c.Format == "base64" {
			var b []byte
			for _, x := range v {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
			o = o.Str(base64.StdEncoding.EncodeToString(b)).Raw("}")
			continue
		}
		for k, x := range v {
			o = o.Raw([...]string{"[", ","}[min(k, 1)])
			o = strconv.AppendFloat(o, float64(x), 'g', -1, 64)
		}
		o = o.Raw("]}")
	}
	return o.Raw("]")
}

func (c *poolingCall) results(o openai.Out) openai.Out {
	type result struct {
		at    int
		score float64
	}
	var all []result
	query := vector(spaced(*c.Query), Dimensions)
	for i, d := range c.Documents {
		score := 0.0
		for k, x := range vector(spaced(d), Dimensions) {
			score += float64(x) * float64(query[k])
		}
		all = append(all, result{i, score})
	}
	slices.SortStableFunc(all, func(a, b result) int { return cmp.Compare(b.score, a.score) })
	if c.TopN > 0 {
		all = all[:min(c.TopN, len(all))]
	}
	o = o.Raw(`,"results":[`)
	for i, r := range all {
		if i > 0 {
			o = o.Raw(",")
		}
		o = o.Raw(`{"index":`).Int(r.at).Raw(`,"document":{"text":`).Str(c.Documents[r.at]).
			Raw(`,"multi_modal":null},"relevance_score":`)
		o = openai.Out(strconv.AppendFloat(o, r.score, 'g', -1, 64)).Raw("}")
	}
	return o.Raw("]")
}

// vector is a text's, of length 1.
func vector(ids []uint32, dimensions int) []float32 {
	v, sum := make([]float32, dimensions), 0.0
	for _, id := range ids {
		h := kv.Chain(0, []uint32{id})
		v[h%uint64(dimensions)] += float32(1 - 2*int(h>>63))
	}
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(max(sum, 1)))
	}
	return v
}
