#!/usr/bin/env bash
# Checks that the committed generated code is what its source gives. The line
# that names protoc's version may differ: any current protoc gives the same code.
set -euo pipefail
cd "$(dirname "$0")/.."

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
scripts/generate.sh "$fresh"
if ! diff -u -I '^// 	protoc  ' wire/sealcast.pb.go "$fresh/wire/sealcast.pb.go"; then
	echo "check-generated: error: wire/sealcast.pb.go does not fit wire/sealcast.proto; run make generate" >&2
	exit 1
fi
