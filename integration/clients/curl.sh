#!/bin/sh
# curl against a gateway: what README shows, and what its answers' headers say.
set -eu
command -v curl >/dev/null || exit 77
ask() { curl -sS "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer ${KEY:-$OPENAI_API_KEY}" "$@"; }
body='{"model": "auto", "messages": [{"role": "user", "content": "What is a souk?"}], "max_tokens": 20'
want() { case $2 in *"$1"*) ;; *) echo "no $1 in: $2" >&2; exit 1 ;; esac; }

want '"completion_tokens":20' "$(ask -d "$body}")"
want 'data: [DONE]' "$(ask -N -d "$body, \"stream\": true}")"
want '"usage":{' "$(ask -N -d "$body, \"stream\": true, \"stream_options\": {\"include_usage\": true}}")"
want '"arguments":"{\"city\": \"Oslo\"}"' "$(ask -d "$body, \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"weather\"}}]}")"
want 'X-Souk-Receipt: general/' "$(ask -D - -o /dev/null -d "$body}")"
want '"code":"model_not_found"' "$(ask -d "$(echo "$body}" | sed s/auto/nothing/)")"
want '"code":"invalid_api_key"' "$(KEY=sk-wrong ask -d "$body}")"
pool() { curl -sS "$OPENAI_BASE_URL/$1" -H "Authorization: Bearer $OPENAI_API_KEY" -d "$2"; }
want '"embedding":[' "$(pool embeddings '{"model": "bge-m3", "input": ["A souk", "a market"]}')"
want '"results":[{"index":1,' "$(pool rerank '{"query": "a market", "documents": ["a fish", "a market"], "top_n": 1}')"
for _ in 1 2 3; do # curl waits as Retry-After says
	want '"choices"' "$(KEY=$SLOW_API_KEY ask --retry 4 --fail -d "$body}")"
done
echo ok
