#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, and fails at the
# end if any of them found something. Targets are discovered, so a new one needs
# no entry anywhere.
#
# FUZZTIME is the time for each; empty, it is 60 s or what a budget of FUZZBUDGET
# seconds (start-up not counted) leaves for each.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! listing=$(go test -list '^Fuzz' ./...); then
	echo "$listing" >&2
	exit 1
fi
# "FuzzA", "FuzzB", "ok package 0.1s" becomes "package FuzzA", "package FuzzB".
targets=()
while read -r target; do
	targets+=("$target")
done < <(awk '/^Fuzz/ {names[n++] = $1} /^ok/ {for (i = 0; i < n; i++) print $2, names[i]; n = 0}' <<<"$listing")
if ((${#targets[@]} == 0)); then
	echo "fuzz: error: no fuzz target found" >&2
	exit 1
fi

each=${FUZZTIME:-}
if [[ -z $each ]]; then
	seconds=$((${FUZZBUDGET:-1200} / ${#targets[@]}))
	((seconds <= 60)) || seconds=60
	((seconds >= 1)) || seconds=1
	each=${seconds}s
fi
echo "fuzz: ${#targets[@]} targets, $each each"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=()
for target in "${targets[@]}"; do
	read -r package name <<<"$target"
	echo "fuzz: $package $name"
	if go test -run '^$' -fuzz "^$name\$" -fuzztime "$each" "$package" 2>&1 | tee "$log"; then
		continue
	fi
	# Go 1.26 sometimes reports its own deadline as a failure (go.dev/issue/75804).
	# Then the message stands alone: a real finding comes with its input.
	if grep -qx ' *context deadline exceeded' "$log" && ! grep -qE 'Failing input|panic:|_test\.go:' "$log"; then
		echo "fuzz: $name: the deadline came in the middle of a run, nothing was found"
		continue
	fi
	failed+=("$target")
done

if ((${#failed[@]} > 0)); then
	printf 'fuzz: error: found something: %s\n' "${failed[@]}" >&2
	exit 1
fi
echo "fuzz: nothing found"
