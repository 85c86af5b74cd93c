#!/bin/sh
# Runs one part of machine 1, 2 or 3 with the addresses in the file beside it: machine.sh N PART [ARGUMENTS]
#
#   PART   infra treasury hub classifier gateway agentd: that daemon with its file in this folder
#          engine: a simulated vLLM server for agentd to sell
#          souk, ledger, lab: that command, on this machine's keys and the market's addresses
#
# Commands are those in BIN (default bin); data is in souk-data-N of the working directory.
set -eu

here=$(dirname "$0")
n=${1:-} part=${2:-}
case $n-$part in
[123]-?*) shift 2 ;;
*) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
. "$here/addresses"
set -- $ADDRESSES -- "$@"
[ "$4" = -- ] || { echo "machine.sh: ADDRESSES: write three, not: $ADDRESSES" >&2; exit 2; }
nats=tls://$1:4222,tls://$2:4222,tls://$3:4222 etcd=$1:2379,$2:2379,$3:2379 members=$1,$2,$3
eval own=\$$n
shift 4

bin=${BIN:-bin} keys=souk-data-$n/auth
health=127.0.0.1 # of machines beyond loopback it is reached by ssh; metrics.md has more
case $own in 127.*) health=$own ;; esac
export SOUK_DATA="souk-data-$n" SOUK_MARKET_NATS="$nats" SOUK_MARKET_ETCD="$etcd"
case $part in
infra)
	export SOUK_INFRA_NATS="$own:4222" SOUK_INFRA_ETCD="$own:2379" SOUK_INFRA_MEMBER="$own" SOUK_INFRA_MEMBERS="$members"
	port=9400
	;;
treasury) port=9401 name=treasury ;;
classifier)
	port=9402 name=door-$n
	export SOUK_CLASSIFIER_ID="$name"
	;;
hub)
	port=9403 name=general-$n
	export SOUK_HUB_HUB="$name" SOUK_HUB_JOURNAL="$name"
	;;
agentd)
	port=9405 name=agentd-node-$n
	export SOUK_AGENTD_NODE="node-$n" SOUK_AGENTD_AGENTS_0_ID="agent-$n"
	case $own in 127.*) export SOUK_AGENTD_AGENTS_0_ENGINE_URL="http://127.0.0.1:${ENGINE:-800$n}" ;; esac
	;;
gateway)
	port=9408 name=gateway-$n
	export SOUK_GATEWAY_ID="$name" SOUK_LISTEN="$own:8080"
	case $own in
	127.*) ;;
	*) export SOUK_GATEWAY_TLS_CERT="$keys/server.pem" SOUK_GATEWAY_TLS_KEY="$keys/server.key" ;;
	esac
	;;
engine) exec "$bin/souk" engine --port "${ENGINE:-800$n}" --model gpt-oss-20b "$@" ;;
souk | ledger | lab) exec "$bin/$part" "$@" ;;
*) echo "machine.sh: there is no part $part" >&2; exit 2 ;;
esac
export SOUK_HEALTH_LISTEN="$health:$port"
if [ "$part" = infra ]; then
	exec "$bin/souk" infra --config "$here/infra.yaml" "$@"
fi
export SOUK_MARKET_CREDS="$keys/creds/$name.creds"
exec "$bin/$part" --config "$here/$part.yaml" "$@"
