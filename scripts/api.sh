#!/usr/bin/env bash
# api.sh [--check] writes the API references in docs/api from the comments of the code, or compares them with it.
set -euo pipefail
cd "$(dirname "$0")/.."

go_reference() {
	printf '# API of the Go package client\n\nMade from the code by `make api`; [getting-started.md](../getting-started.md) shows how things go together.\n\n```\n'
	go doc -all ./client
	printf '```\n'
}

if [[ ${1:-} == --check ]]; then
	if ! go_reference | diff -u docs/api/go.md -; then
		echo "docs/api/go.md does not fit the code: run make api" >&2
		exit 1
	fi
else
	mkdir -p docs/api
	go_reference >docs/api/go.md
fi
cd web && node reference.mjs "$@"
