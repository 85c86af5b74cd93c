#!/bin/sh
# Makes creds of each pod of the chart in DATA/auth, where there are none, and prints the secrets that hold
# them:
#
#   deploy/helm/secrets.sh RELEASE COMPONENT=REPLICAS ... | kubectl apply --server-side -f -
#   deploy/helm/secrets.sh souk treasury=1 hub-general=2 classifier=2 gateway=2 engine-llama=2 | ...
#   deploy/helm/secrets.sh souk agentd=NODE,NODE | ...       # of the DaemonSet: the names of its nodes, a hundred at most
#
# DATA is SOUK_DATA (default souk-data), commands are those in BIN (default bin); it needs kubectl, and no
# cluster. Of agents of a DaemonSet it takes the ports in PORTS (default 8000 to 8007). Run it again after
# `souk auth renew`.
set -eu

[ $# -ge 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
data=${SOUK_DATA:-souk-data} release=$1
shift
auth=$data/auth
souk() { "${BIN:-bin}/souk" "$@" --data "$data"; }
add() { # ROLE NAME [FLAGS]
	[ -e "$auth/creds/$2.creds" ] || souk auth add "$@" >&2
}

[ -d "$auth" ] || { echo "secrets.sh: there are no keys in $auth: souk auth init --data $data makes them" >&2; exit 1; }
# all first: the policy names every hub
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
for part; do
	component=${part%%=*} pods=${part#*=}
	case $part in
	agentd=?*) ;;
	*=0* | *=*[!0-9]*) pods= ;;
	*=*) [ -z "$pods" ] || pods=$(seq -s, 0 $((pods - 1))) ;;
	*) pods= ;;
	esac
	if [ -z "$pods" ]; then
		echo "secrets.sh: $part: write COMPONENT=REPLICAS, as hub-general=2, or agentd=NODE,NODE" >&2
		exit 2
	fi
	for pod in $(echo "$pods" | tr , ' '); do
		name=$release-$component-$pod
		case $component in
		treasury) name=treasury file=$release-$component-$pod; add treasury treasury ;;
		hub-*) file=$name; add hub "$name" --domain "${component#hub-}" ;;
		classifier) file=$name; add door "$name" ;;
		gateway) file=$name; add gateway "$name" ;;
		engine-*) file=$name; add agentd "$name" --agents "$name" ;;
		agentd)
			file=$pod node=$(echo "$pod" | tr . -) name=agentd-$(echo "$pod" | tr . -) agents=
			for port in ${PORTS:-8000 8001 8002 8003 8004 8005 8006 8007}; do agents=$agents,$node-$port; done
			add agentd "$name" --agents "${agents#,}"
			;;
		*) echo "secrets.sh: there is no component $component" >&2; exit 2 ;;
		esac
		echo "$component $file $name" >>"$made/all"
	done
done
for part; do
	component=${part%%=*}
	set -- --from-file=ca.pem="$auth/ca.pem"
	while read -r c file name; do
		[ "$c" = "$component" ] || continue
		set -- "$@" --from-file="$file.creds=$auth/creds/$name.creds" --from-file="$file.pem=$auth/certs/$name.pem" \
			--from-file="$file.key=$auth/certs/$name.key"
		case $component in
		treasury | hub-*) set -- "$@" --from-file="$file.note=$auth/notes/$name.key" ;;
		esac
	done <"$made/all"
	case $component in
	treasury) set -- "$@" --from-file=policy="$auth/policy" --from-file=account.jwt="$auth/account.jwt" ;;
	hub-*) set -- "$@" --from-file=policy="$auth/policy" ;;
	esac
	kubectl create secret generic "$release-$component" --dry-run=client --output yaml "$@"
	echo ---
done
