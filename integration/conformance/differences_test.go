package conformance

import (
	"slices"
	"strings"
)

// Difference is something a real vLLM 0.32.0 does and the stand-in does not, or does otherwise.
type Difference struct {
	What    string
	Real    string
	StandIn string

	recordings []string // that the stand-in refuses with a 400 that names itself
	metrics    []string // prefixes of names that the stand-in's page has not
}

// Differences lists every known difference. The suite reads its expectations of the stand-in from here, and
// agentd/vllmsim/DIFFERENCES.md is made from it.
var Differences = []Difference{
	{
		What: "text", Real: "what the model says, sampled",
		StandIn: "a recorded answer to a known dialogue, else prose from a seed; temperature, top_p, " +
			"penalties change nothing; without a seed the same prompt gives the same answer. A prompt that " +
			"ends in an open message of the assistant (token ids of an answer that broke off) is continued " +
			"as that answer",
	},
	{
		What:    "logprobs, logit_bias, echo, suffix, bad_words, allowed_token_ids, truncate_prompt_tokens",
		Real:    "served",
		StandIn: "400 that says so", recordings: []string{"chat_logprobs", "chat_eos"},
	},
	{
		What:    "response_format other than text, structured_outputs, tool_choice required or by name",
		Real:    "the output is constrained",
		StandIn: "400 that says so", recordings: []string{"chat_json_schema", "chat_tools_named"},
	},
	{
		What: "/v1/chat/completions/render and derender, /inference/v1/generate",
		Real: "served with --enable-scale-out, else 403", StandIn: "403",
	}, {
		What: "tools with tool_choice auto", Real: "in the prompt; calls are parsed from the output",
		StandIn: "in the prompt, by a template of its own; no calls are made",
	},
	{
		What:    "time of a step",
		Real:    "kernels; attention of a prompt grows with the square of its length",
		StandIn: "a straight line of what is in the step (PROFILES.md)",
	},
	{
		What: "tokens", Real: "the model's tokenizer and chat template",
		StandIn: "a byte-level BPE of its own (24,261 tokens) and a ChatML template; tokenised again, its " +
			"text gives the tokens it was generated with",
	},
	{
		What:    "end of sequence",
		Real:    "several tokens may end an answer; all but the main one show as stop_reason",
		StandIn: "one token, stop_reason null",
	},
	{
		What: "images, audio, prompt_embeds, /v1/responses, beam search",
		Real: "served where the model and flags allow", StandIn: "not there",
	},
	{
		What: "--runner pooling: /v1/embeddings, /rerank, /v1/rerank, /v2/rerank, and no chats or completions",
		Real: "what the model says of a text; /v1/score, /classify and /pooling",
		StandIn: "vectors of 64 numbers, or as many dimensions as are asked for, made of the hashes of a text's " +
			"tokens, and scores by these; no others",
	},
	{
		What: "LoRA adapters",
		Real: "weights, which change the text; they are read from a disk into --max-cpu-loras, and from there " +
			"into --max-loras",
		StandIn: "names of --lora-modules, caches of their own and other seeds of prose; a step in which one is " +
			"used that is not among the last --max-cpu-loras takes --sim-adapter-load longer. None is loaded on demand",
	},
	{
		What: "--scheduling-policy priority, --kv-cache-metrics", Real: "served", StandIn: "not there",
	},
	{
		What: "KV block hashes", Real: "SHA-256 over tokens and extra keys",
		StandIn: "64-bit xxhash over parent and tokens, its root made from model and salt",
	},
	{
		What: "KV events", Real: "with --kv-events-config; tcp://*:PORT listens on all interfaces; session_id; " +
			"a hit is published again if vllm_xargs asks for it",
		StandIn: "the same flag; it listens on loopback alone; none of these. In addition events that are " +
			"silent, lost, double, false or alien on demand",
	},
	{
		What: "HTTP chunks of a stream", Real: "one event each",
		StandIn: "all events of a step in one; the events are the same",
	},
	{
		What:    "x-request-id, vary, date order and case of response headers",
		Real:    "lower case; x-request-id with --enable-request-id-headers",
		StandIn: "Go's; x-request-id never",
	},
	{
		What: "/load", Real: "0 unless --enable-server-load-tracking", StandIn: "always the open completions",
	},
	{
		What: "/reset_prefix_cache", Real: "in development mode only", StandIn: "always",
	},
	{
		What: "metrics of HTTP, the process and Python, of the sizes and phases of requests, of steps, of where " +
			"prompt tokens came from and of rejections; estimated FLOPs and bytes; tool parser invocations; lines of help",
		Real: "on /metrics", StandIn: "missing",
		metrics: []string{"vllm:estimated_", "vllm:tool_call_parser_", "http_", "process_", "python_",
			"vllm:num_requests_waiting_by_reason", "vllm:engine_sleep_state", "vllm:external_prefix_cache_",
			"vllm:mm_cache_", "vllm:prompt_tokens_cached", "vllm:prompt_tokens_by_source", "vllm:request_generation_",
			"vllm:request_prompt_", "vllm:request_max_", "vllm:request_params_", "vllm:request_time_",
			"vllm:request_queue_", "vllm:request_inference_", "vllm:request_prefill_", "vllm:request_decode_",
			"vllm:request_num_", "vllm:e2e_", "vllm:iteration_", "vllm:admission_rejections"},
	},
	{
		What: "vllm:cache_config_info", Real: "some forty labels",
		StandIn: "block size, blocks, and what follows from them",
	},
	{
		What: "NaN and Infinity in a body", Real: "read as numbers, as Python does",
		StandIn: "400, malformed JSON",
	},
	{
		What: "values of a body that are of another type but say the same", Real: "taken: \"5\" and 5.0 as 5",
		StandIn: "400, in fewer words than pydantic has",
	},
	{
		What: "n above 1, several prompts, continuous_usage_stats", Real: "served",
		StandIn: "400 that says so", recordings: []string{"chat_n2", "chat_n2_stream", "error_n_zero",
			"completion_two_prompts", "chat_stream_continuous_usage"},
	},
	{
		What: "size of a body", Real: "no limit", StandIn: "413 above 32 MiB",
	},
}

func refusedByStandIn(recording string) (Difference, bool) {
	for _, d := range Differences {
		if slices.Contains(d.recordings, recording) {
			return d, true
		}
	}
	return Difference{}, false
}

func missingMetric(name string) (Difference, bool) {
	for _, d := range Differences {
		for _, p := range d.metrics {
			if strings.HasPrefix(name, p) {
				return d, true
			}
		}
	}
	return Difference{}, false
}

// Page is DIFFERENCES.md.
func Page() string {
	var b strings.Builder
	b.WriteString("# Where the stand-in differs from vLLM\n\nMade from `conformance.Differences`; change " +
		"it there, then run `go test ./integration/conformance -update`.\n\n")
	b.WriteString("| what | vLLM 0.32.0 | stand-in |\n|---|---|---|\n")
	for _, d := range Differences {
		b.WriteString("| " + d.What + " | " + d.Real + " | " + d.StandIn + " |\n")
	}
	return b.String()
}
