#!/bin/sh
# Makes the keys of a market on three machines, once, in souk-data-1/auth, and what machines 2 and 3 need of
# them in souk-data-2/auth and souk-data-3/auth, which you then bring there:
#
#   deploy/cluster3/keys.sh
#   for n in 2 3; do rsync -a souk-data-$n/ MACHINE-$n:DIRECTORY/souk-data-$n/; done
#
# The keys that sign stay on machine 1: who has these can be anybody. Run it again after `souk auth add` or
# `renew`, and before server.pem and peer.pem end (90 days): what is there stays as it is, and what is new
# is copied.
set -eu

here=$(dirname "$0")
. "$here/addresses"
souk() { "${BIN:-bin}/souk" "$@" --data souk-data-1; }
known() { [ -e "souk-data-1/auth/creds/$1.creds" ]; }

souk auth init --hosts "$(echo "$ADDRESSES" | tr ' ' ',')" >/dev/null
known treasury || souk auth add treasury treasury
for n in 1 2 3; do
	known general-$n || souk auth add hub general-$n --domain general
	known door-$n || souk auth add door door-$n
	known gateway-$n || souk auth add gateway gateway-$n
	known agentd-node-$n || souk auth add agentd agentd-node-$n --agents agent-$n
done
for n in 2 3; do
	(
		umask 077
		mkdir -p souk-data-$n/auth/creds souk-data-$n/auth/certs souk-data-$n/auth/notes
		cd souk-data-1/auth
		for f in operator.jwt account.jwt system.jwt names.json ca.pem server.pem server.key peer.pem peer.key policy notes/general-$n.key; do
			cp -p $f ../../souk-data-$n/auth/$f
		done
		for name in general-$n door-$n gateway-$n agentd-node-$n; do
			cp -p creds/$name.creds ../../souk-data-$n/auth/creds/
			cp -p certs/$name.pem certs/$name.key ../../souk-data-$n/auth/certs/
		done
	)
done
