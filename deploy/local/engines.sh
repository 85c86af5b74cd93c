#!/bin/sh
# Play the market and rules on running vLLM servers, and fit stand-ins to them: pages fit and servers.
#
#   VLLM_URLS=http://HOST:PORT,... deploy/local/engines.sh [FOLDER]    default integration/results
#
# Instead of VLLM_URLS: VLLM_RUN, a command that starts servers, sets VLLM_URLS and runs the command behind it.
# All of this may be left out:
#   VLLM_FLEET    a file of the servers' cards, scores and slots (lab crowd --help); callers then have four tempers
#   VLLM_SEQS     what the servers have for --max-num-seqs, default 8
#   VLLM_SESSIONS, VLLM_TASKS   callers under each rule, and what they ask in all, default 24 and 300
#   VLLM_PID      process groups of the servers, with commas: the last is killed in the midst of answers
# Without any server it skips: exit status 77.
set -eu

case "${1:-}" in
-h | --help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
out=${1:-integration/results}
lab=${LAB:-bin/lab}
if [ -n "${VLLM_RUN:-}" ]; then
	run=$VLLM_RUN
	unset VLLM_RUN
	exec $run "'$0' '$out'"
fi
if [ -z "${VLLM_URLS:-}" ]; then
	echo "engines: VLLM_URLS names no running vLLM server: skipped" >&2
	exit 77
fi
fleet=
[ -z "${VLLM_FLEET:-}" ] || fleet="--fleet $VLLM_FLEET --terms tempers"
"$lab" fit --vllm "$VLLM_URLS" --max-num-seqs "${VLLM_SEQS:-8}" --out "$out"
set -- crowd --real --vllm "$VLLM_URLS" $fleet --seeds 1 --tasks "${VLLM_TASKS:-300}" \
	--sessions "${VLLM_SESSIONS:-24}" --only mtrag,two-block,greedy-first:2,round-robin,market --out "$out"
[ -z "${VLLM_PID:-}" ] || set -- "$@" --kill "kill -9 -${VLLM_PID##*,}"
"$lab" "$@"
