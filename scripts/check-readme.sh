#!/usr/bin/env bash
# Does what README.md tells a newcomer, word by word: in a fresh clone, with a home of its own, and in namespaces where
# nothing else listens and nothing outlives this script. Only the modules are there already; it has no network to get
# them from. It fails if a command does, or if there are more than ten from the clone to ticks through TLS.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -z ${CHECK_README:-} ]]; then
	go mod download
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	git -c safe.directory='*' clone -q . "$work/sealcast"
	root=()
	[[ $(id -u) == 0 ]] || root=(--user --map-root-user)
	CHECK_README=$work GOMODCACHE=$(go env GOMODCACHE) GOCACHE=$(go env GOCACHE) GOPROXY=off HOME=$work \
		unshare "${root[@]}" --net --pid --fork --kill-child --mount-proc "$PWD/scripts/check-readme.sh"
	exit
fi

PATH=$PATH:/usr/sbin
ip link set lo up
cd "$CHECK_README/sealcast"

# commands SECTION: what the sh blocks below that heading say, a command a line.
commands() {
	awk -v heading="## $1" '
		/^## / {here = $0 == heading}
		/^```/ {code = here && $0 == "```sh"; next}
		code && sub(/ *\\$/, "") {printf "%s", $0; next}
		code {print}' README.md
}

# await HTTP-STATUS URL: somebody at a keyboard sees when a program is there.
await() {
	for _ in $(seq 300); do
		[[ $(curl -sk -o /dev/null -w '%{http_code}' "$2") == "$1" ]] && return
		sleep 0.1
	done
	echo "check-readme: error: no $1 from $2 within half a minute" >&2
	exit 1
}

# say_and_do COMMAND: as a line of its own in this shell.
say_and_do() {
	printf '$ %s\n' "$1"
	eval "$1" >>"$CHECK_README/out" 2>>"$CHECK_README/log" || {
		status=$?
		echo "check-readme: error: status $status from: $1" >&2
		tail -n 20 "$CHECK_README/log" >&2
		exit 1
	}
}

# ticks WANTED: how many the tails have printed since the last time.
ticks() {
	n=$(grep -cE '^[0-9:.]+ md:demo:' "$CHECK_README/out") || true
	if [[ $n != "$1" ]]; then
		echo "check-readme: error: $n ticks came, not $1" >&2
		exit 1
	fi
	: >"$CHECK_README/out"
}

mapfile -t lines < <(commands 'Quick start')
say_and_do "${lines[0]} &" # it stays; the rest is for a second terminal
started=$!
await 200 http://127.0.0.1:8081/readyz
for line in "${lines[@]:1}"; do say_and_do "$line"; done
ticks 20
kill "$started"
wait "$started" || true

mapfile -t lines < <(commands 'Behind TLS, on one machine')
for line in "${lines[@]}"; do
	case $line in
	*'sealctl tail'*) await 426 https://localhost:8443/ws ;;
	esac
	say_and_do "$line"
done
ticks 5
echo "check-readme: $((${#lines[@]} + 2)) commands to ticks through TLS, with the clone and the package"
((${#lines[@]} + 2 <= 10))
