#!/usr/bin/env bash
# build.sh DIR VERSION: what the image holds, built as the Dockerfile builds it: static binaries, the certificates
# that wss, Redis over TLS and key sets over https are checked with, and a place for temporary files.
set -euo pipefail
out=$1 version=$2

mkdir -p "$out/etc/ssl/certs" "$out/tmp"
chmod 1777 "$out/tmp"
CGO_ENABLED=0 go build -trimpath -buildvcs=false \
	-ldflags "-s -w -X github.com/sealcast/sealcast/internal/version.release=$version" \
	-o "$out/" ./cmd/sealcast ./cmd/sealctl
cp /etc/ssl/certs/ca-certificates.crt "$out/etc/ssl/certs/"
echo 'sealcast:x:65532:65532::/:/sealcast' >"$out/etc/passwd"
