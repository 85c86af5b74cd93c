#!/bin/sh
# Judge what is in this folder with the tools that are there: deploy/check.sh units|proxies|compose|chart|play [COMMANDS]
#
#   units     systemd-analyze verify on every unit, with the commands in COMMANDS (default bin) for those in /usr/local/bin
#   proxies   nginx -t and envoy --mode validate on the examples in cluster3, each where it is installed
#   compose   docker compose config
#   chart     helm lint and template, decoded strictly into Kubernetes' types and judged by COMMANDS; it needs helm, and Go,
#             which fetches those types
#   play      start compose.yaml with the image that `make image` made, play dialogues in it as one of its clients, check its
#             journals, start an agentd again, ask over HTTP, stop it, and remove it. It needs curl and the
#             ports of deploy/local, and takes COMMANDS/souk for a client
#
# Ends with 0 where it holds, 1 where it does not, 77 where the tool for it is not there. `make deployment` does all of it.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
what=${1:-}
commands=$(cd "${2:-$here/../bin}" && pwd)
at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT

skip() {
	echo "$what: skipped: $1"
	exit 77
}

compose() { docker compose --file "$here/compose.yaml" "$@"; }

case $what in
units)
	command -v systemd-analyze >/dev/null || skip "no systemd-analyze"
	for unit in "$here"/systemd/*.service; do
		to=$(basename "$unit")
		case $to in *@.service) to=${to%.service}general.service ;; esac
		sed "s,=/usr/local/bin/,=$commands/," "$unit" >"$at/$to"
	done
	# A warning is no verdict of its own: these units have none.
	systemd-analyze verify "$at"/*.service 2>"$at/said" || { cat "$at/said" >&2; exit 1; }
	if grep -F souk "$at/said" >&2; then
		exit 1
	fi
	;;
proxies)
	command -v nginx >/dev/null || command -v envoy >/dev/null || skip "neither nginx nor envoy"
	mkdir "$at/logs"
	! command -v nginx >/dev/null || nginx -t -q -p "$at" -c "$here/cluster3/nginx.conf"
	! command -v envoy >/dev/null || envoy --mode validate -l error -c "$here/cluster3/envoy.yaml"
	;;
compose)
	docker compose version >/dev/null 2>&1 || skip "no docker compose"
	compose --profile tools config --quiet
	;;
chart)
	command -v helm >/dev/null || skip "no helm"
	SOUK_BIN="$commands" go -C "$here/../integration/helm" test -count=1 .
	;;
play)
	docker compose version >/dev/null 2>&1 || skip "no docker compose"
	docker version >/dev/null 2>&1 || skip "no docker daemon answers"
	docker image inspect souk >/dev/null 2>&1 || skip "no image: make image"
	command -v curl >/dev/null || skip "no curl"
	export COMPOSE_PROJECT_NAME="souk-check-$$"
	end() {
		code=$?
		trap - EXIT
		if [ $code -ne 0 ]; then
			compose logs --no-color --tail 20 >&2 || :
		fi
		compose --profile tools down --volumes --timeout 40 >/dev/null 2>&1 || :
		rm -rf "$at"
		exit $code
	}
	trap end EXIT
	trap 'exit 1' INT TERM
	compose up --detach --wait --wait-timeout 300
	compose run --rm souk fund dev 10
	compose run --rm souk submit --max-tokens 20 "What is a souk?"
	infra=$(compose ps --quiet infra)
	docker cp "$infra:/data/auth" "$at/auth"
	"$commands/souk" replay --data "$at" --nats tls://127.0.0.1:4222 --limit 20 --concurrency 4
	compose run --rm ledger
	# an agentd that died has its engines again, and no other container had to be touched
	docker restart "$(compose ps --quiet agentd-1)" >/dev/null
	compose up --detach --wait --wait-timeout 60 --no-recreate
	key=$(compose run --rm souk key new dev)
	curl --fail --silent --show-error http://127.0.0.1:8080/v1/chat/completions \
		--header "Authorization: Bearer $key" --header 'Content-Type: application/json' --data \
		'{"model": "gpt-oss-20b", "max_tokens": 20, "messages": [{"role": "user", "content": "What is 2?"}]}'
	echo
	compose stop --timeout 40
	for c in $(compose ps --all --quiet); do
		if [ "$(docker inspect --format '{{.State.ExitCode}}' "$c")" != 0 ]; then
			echo "play: $(docker inspect --format '{{.Name}}' "$c") did not end well" >&2
			exit 1
		fi
	done
	if compose logs --no-color | grep -E 'level=ERROR|^panic:'; then
		exit 1
	fi
	compose run --rm ledger
	;;
*)
	sed -n '2,13s/^# \{0,1\}//p' "$0"
	exit 2
	;;
esac
echo "$what: holds"
