#!/usr/bin/env bash
# generate.sh DIR writes the Go code of wire/sealcast.proto below DIR, with the
# protoc of this machine and the plugin that go.mod pins.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v protoc >/dev/null; then
	echo "generate: error: protoc is missing; it is in the package protobuf-compiler of Debian and Ubuntu" >&2
	exit 1
fi
plugin=$(go tool -n protoc-gen-go)
protoc --plugin=protoc-gen-go="$plugin" --go_out="$1" --go_opt=module=github.com/sealcast/sealcast wire/sealcast.proto
