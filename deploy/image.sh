#!/bin/sh
# Build the image of deploy/Dockerfile from static commands: deploy/image.sh ARCH COMMANDS [NAME]
# or say who would build it: deploy/image.sh --builder
#
#   ARCH      amd64 or arm64
#   COMMANDS  folder with the commands for it; what else the image needs is laid out beside it
#   NAME      of the image, default souk
#
# BUILDER=docker|podman|buildah chooses who builds; by default the first of them that is found and, for docker, whose daemon
# answers. `make image` calls this.
set -eu

if [ $# -lt 2 ] && [ "${1:-}" != --builder ]; then
	sed -n '2,10s/^# \{0,1\}//p' "$0"
	exit 2
fi

builder=${BUILDER:-}
if [ -z "$builder" ]; then
	if command -v docker >/dev/null && docker version >/dev/null 2>&1; then
		builder=docker
	elif command -v podman >/dev/null; then
		builder=podman
	elif command -v buildah >/dev/null; then
		builder=buildah
	else
		echo "image: no docker whose daemon answers, no podman, no buildah: install one of them, or name yours with BUILDER=" >&2
		exit 1
	fi
fi
if [ "$1" = --builder ]; then
	echo "$builder"
	exit 0
fi
arch=$1 commands=$2 name=${3:-souk}
here=$(cd "$(dirname "$0")" && pwd)

# An image from scratch has none of the folders that a system has, and no certificates for engines behind https or NATS behind tls.
at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT
mkdir -p "$at/root/usr/local/bin" "$at/root/etc/ssl/certs" "$at/own/data" "$at/own/tmp"
cp "$commands"/* "$at/root/usr/local/bin/"
echo 'souk:x:65532:65532:souk:/data:/sbin/nologin' >"$at/root/etc/passwd"
echo 'souk:x:65532:' >"$at/root/etc/group"
certificates=
for file in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
	if [ -n "$file" ] && [ -r "$file" ]; then
		certificates=$file
		break
	fi
done
if [ -n "$certificates" ]; then
	cp -L "$certificates" "$at/root/etc/ssl/certs/ca-certificates.crt"
else
	echo "image: no CA certificates on this machine: the image verifies no https or tls server until a file is mounted and SSL_CERT_FILE names it" >&2
fi
chmod -R u=rwX,go=rX "$at/root"
chmod 700 "$at/own/data"

# Another architecture is named alone, as not every builder knows how to be asked for its own.
platform=
case $arch/$(uname -m) in
amd64/x86_64 | arm64/aarch64 | arm64/arm64) ;;
*) platform="--platform=linux/$arch" ;;
esac

case $builder in
docker) docker build $platform -f "$here/Dockerfile" -t "$name" "$at" ;;
podman) podman build $platform -f "$here/Dockerfile" -t "$name" "$at" ;;
buildah) buildah build $platform -f "$here/Dockerfile" -t "$name" "$at" ;;
*)
	echo "image: BUILDER=$builder: use docker, podman or buildah" >&2
	exit 2
	;;
esac
echo "built $name for linux/$arch with $builder"
