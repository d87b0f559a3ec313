#!/usr/bin/env bash
# Checks that the same commit gives the same release twice, and that what is in it runs and is what it says.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/release.sh v0.0.0-check >/dev/null
first=$(mktemp -d)
trap 'rm -rf "$first"' EXIT
cp dist/SHA256SUMS "$first/"
tar -C "$first" -xzf "dist/sealcast_v0.0.0-check_linux_$(go env GOARCH).tar.gz"
for program in sealcast sealctl; do
	"$first"/sealcast_*/"$program" version | grep -q 'v0\.0\.0-check'
done

scripts/release.sh v0.0.0-check >/dev/null
cmp dist/SHA256SUMS "$first/SHA256SUMS"
rm -rf dist
echo "release: the same bytes twice"
