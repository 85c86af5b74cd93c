package virtual

// The router of Dynamo 1.6 with its defaults (github.com/ai-dynamo/dynamo, lib/kv-router/src/scheduling/
// selector/default.rs; Apache-2.0): the worker of least cost, where
//
//	cost = prefill_load_scale * max(0, prefill blocks - overlap_score_credit * overlap) + decode blocks
//	       + decode_active_request_weight * requests in flight
//
// Prefill blocks are those of the prompt and of prompts that were sent before and have no first token; they
// count in parts. Decode blocks are in use by what is in flight, with this request. The scale and the credit
// are 1, the weight and the temperature 0; of equals one is drawn.

const (
	dynamoCredit = 1.0
	dynamoScale  = 1.0
	dynamoActive = 0.0
)

func init() {
	atOnce("dynamo", "least prefill blocks + decode blocks, of work in flight, too", "Dynamo 1.6, KV router, defaults",
		func(c *choice, r *Request, v *View) int {
			return c.Least(v.Able(), func(i int) float64 {
				e := &v.Engines[i]
				prefill := float64(e.Ahead+r.Prompt)/float64(v.Block()) - dynamoCredit*float64(v.Match(i, r))
				return dynamoScale*max(0, prefill) + float64(e.Blocks+v.Need(r)) +
					dynamoActive*float64(e.InFlight)
			})
		})
}
