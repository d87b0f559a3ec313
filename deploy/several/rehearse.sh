#!/usr/bin/env bash
# rehearse.sh [FOLDER]: several gateways on this machine, and what happens to them in a year, in half a minute. It starts
# a Redis Cluster (three masters, three replicas), three gateways with gateway.yaml from this folder, and HAProxy with
# the file of deploy/haproxy; then it kills a gateway, drains one, adds one, and changes the ticket keys and the static
# key, under clients that write down all they get. At the end it adds up whether every tick came, once and in order, or
# was told as lost. It uses free ports on loopback, and leaves nothing behind.
#
# FOLDER has the programs, sealcast and sealctl; without it they are those of `make build`. It needs redis-server and
# redis-cli, haproxy, openssl and curl.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
programs=$(cd "${1:-$here/../../bin}" && pwd)
PATH=$programs:$PATH:/usr/sbin
clients=12

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
fail() {
	say "rehearse.sh: error: $*" >&2
	exit 1
}
for program in sealcast sealctl redis-server redis-cli haproxy openssl curl; do
	command -v "$program" >/dev/null || fail "$program is not there; make build makes ours, the others are packages"
done

work=$(mktemp -d)
pids=()
clean() {
	status=$?
	trap - EXIT
	if ((status != 0)); then
		tail -n 5 "$work"/*.log "$work"/redis*.out "$work"/haproxy.out >&2 || true
	fi
	for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	rm -rf "$work"
	exit "$status"
}
trap clean EXIT
trap 'exit 130' INT TERM

# launch NAME COMMAND...: in the background, with a log; its process is in $launched.
launch() {
	local name=$1
	shift
	"$@" >>"$work/$name.out" 2>"$work/$name.log" &
	launched=$!
	pids+=("$launched")
}

# await WHAT COMMAND...: until the command succeeds.
await() {
	local what=$1 end=$((SECONDS + 60))
	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < end)) || fail "not within a minute: $what"
		sleep 0.1
	done
}

# free_port: into $port, with the next port that nobody uses, nor the one 10,000 above, for the cluster's bus. Both are
# below those that Linux gives to outgoing connections.
port=$((10000 + RANDOM % 10000))
in_use() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
free_port() {
	((port += 1))
	while in_use "$port" || in_use $((port + 10000)); do ((port += 1)); done
}

step 'A Redis Cluster of three masters, each with a replica'
nodes=()
for i in 1 2 3 4 5 6; do
	free_port
	nodes+=("127.0.0.1:$port")
	mkdir "$work/redis$i"
	launch "redis$i" redis-server --port "$port" --bind 127.0.0.1 --dir "$work/redis$i" --save '' --appendonly no \
		--cluster-enabled yes --cluster-node-timeout 2000 --repl-diskless-sync-delay 0
	await "redis-server on $port" redis-cli -p "$port" ping
done
redis-cli --cluster create "${nodes[@]}" --cluster-replicas 1 --cluster-yes >"$work/cluster.log"
cluster_is_complete() { redis-cli -p "${nodes[0]#*:}" cluster info | grep -q cluster_state:ok; }
await 'a complete cluster' cluster_is_complete
say "${nodes[*]}"

step 'Keys, which all gateways share, and a certificate for HAProxy'
umask 077
sealcast keygen -o "$work/gateway.key" >"$work/pin" 2>"$work/keygen.log"
sealcast keygen -o "$work/next.key" >"$work/next.pin" 2>>"$work/keygen.log"
sealcast keygen --ticket -o "$work/tickets.key" 2>>"$work/keygen.log"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost \
	-addext subjectAltName=DNS:localhost -keyout "$work/tls.key" -out "$work/tls.crt" 2>/dev/null
cat "$work/tls.crt" "$work/tls.key" >"$work/tls.pem"
say "clients pin $(cat "$work/pin"), and $(cat "$work/next.pin"), which comes next"

# Addresses of four gateways: HAProxy's file has a line for each that may come.
listen=() admin=() gateway=()
for i in 0 1 2 3; do
	free_port && listen[i]=$port
	free_port && admin[i]=$port
done
is_ready() { curl -sf "http://127.0.0.1:${admin[$1]}/readyz"; }
start_gateway() { # start_gateway I
	launch "gateway$(($1 + 1))" sealcast serve --config "$here/gateway.yaml" \
		--set listen="127.0.0.1:${listen[$1]}" --set admin.listen="127.0.0.1:${admin[$1]}" \
		--set key_file="$work/gateway.key" --set resumption.ticket_key_file="$work/tickets.key" \
		--set redis.addrs="[$(IFS=,; echo "${nodes[*]}")]" --set proxy.trusted=127.0.0.1 --set drain.window=2s
	gateway[$1]=$launched
	await "gateway $(($1 + 1))" is_ready "$1"
}
sessions_of() { curl -sf "http://127.0.0.1:${admin[$1]}/metrics" | awk '$1 == "sealcast_connections" {print $2}'; }
sessions_in_all() { # sessions_in_all I...
	local n=0 i
	for i in "$@"; do n=$((n + $(sessions_of "$i"))); done
	echo "$n"
}
show() { # show I...
	for i in "$@"; do say "  gateway $((i + 1)): $(sessions_of "$i") sessions"; done
}

step 'Three gateways, and HAProxy, which ends TLS'
for i in 0 1 2; do start_gateway "$i"; done
{
	cat "$here/../haproxy/haproxy.cfg"
	for i in 2 3; do say "    server gateway$((i + 1)) 127.0.0.1:${listen[i]} port ${admin[i]}"; done
} >"$work/haproxy.cfg"
free_port
url=wss://localhost:$port/ws
launch haproxy env SEALCAST_TLS_BIND="127.0.0.1:$port" SEALCAST_CERT="$work/tls.pem" \
	SEALCAST_GATEWAY1="127.0.0.1:${listen[0]}" SEALCAST_ADMIN_PORT1="${admin[0]}" \
	SEALCAST_GATEWAY2="127.0.0.1:${listen[1]}" SEALCAST_ADMIN_PORT2="${admin[1]}" haproxy -f "$work/haproxy.cfg"
await 'HAProxy' in_use "$port"
say "$url"

step "$clients clients, and a feed of 400 ticks a second on sharded channels"
topics=$(for i in 1 2 3 4 5 6; do printf 'md:synth:SYM000%d:ticker,md:synth:SYM000%d:trade,' "$i" "$i"; done)
tail_pids=()
join() { # join NAME PIN...
	local name=$1 keys=()
	shift
	for pin in "$@"; do keys+=(--key "$pin"); done
	launch "$name" sealctl tail "$url" --ca "$work/tls.crt" "${keys[@]}" --topics "${topics%,}" -o json
	tail_pids+=("$launched")
}
launch feed sealctl feed --redis "${nodes[0]}" --mode sharded --symbols 6 --rate 400
feed=$launched
gets_ticks() { (($(wc -l <"$work/$1.out") > $2)); }
supplied() { # every client gets ticks from now on
	local files=("$work"/client*.out) file had
	for file in "${files[@]}"; do
		had=$(wc -l <"$file")
		file=$(basename "$file" .out)
		await "ticks for $file" gets_ticks "$file" "$had"
	done
	say "  all ${#files[@]} clients get ticks"
}
together() { # together I...: all clients are at these gateways
	are_together() { (($(sessions_in_all "$@") == ${#tail_pids[@]})); }
	await "all clients at these gateways: $*" are_together "$@"
	show "$@"
	supplied
}
for i in $(seq "$clients"); do join "client$i" "$(cat "$work/pin")" "$(cat "$work/next.pin")"; done
together 0 1 2

step 'Gateway 1 is killed (kill -9): its clients go to the others, with their tickets'
kill -9 "${gateway[0]}"
wait "${gateway[0]}" 2>/dev/null || true
together 1 2

step 'A new ticket key in front of the one in use: no session notices'
sealcast keygen --ticket --rotate -o "$work/tickets.key" 2>>"$work/keygen.log"
kill -HUP "${gateway[1]}" "${gateway[2]}"
is_reloaded() { grep -q 'settings reloaded' "$work/gateway$(($1 + 1)).log"; }
for i in 1 2; do await 'the new ticket key' is_reloaded "$i"; done
together 1 2

step 'Gateway 2 is drained (SIGTERM): it tells its clients to come back, and ends'
kill -TERM "${gateway[1]}"
wait "${gateway[1]}" || fail "gateway 2 ended with status $?"
together 2

step 'Gateway 4 is added: HAProxy gives newcomers to it'
start_gateway 3
await 'HAProxy to see gateway 4' grep -q 'gateway4 is UP' "$work/haproxy.out"
for i in 1 2 3; do join "client-late$i" "$(cat "$work/pin")" "$(cat "$work/next.pin")"; done
together 2 3

step 'The static key is changed for the one that clients pin already: sessions go on'
mv "$work/next.key" "$work/gateway.key"
kill -HUP "${gateway[2]}" "${gateway[3]}"
has_next_key() { curl -sf "http://127.0.0.1:${admin[$1]}/v1/info" | grep -q "$(cat "$work/next.pin")"; }
for i in 2 3; do await 'the new key' has_next_key "$i"; done
join client-new "$(cat "$work/next.pin")"
together 2 3

step 'Gateway 3 is drained: its clients meet the new key at gateway 4'
kill -TERM "${gateway[2]}"
wait "${gateway[2]}" || fail "gateway 3 ended with status $?"
together 3

step 'Accounts: every tick came, once and in order, or the client was told'
kill -INT "$feed"
wait "$feed" || true
kill -INT "${tail_pids[@]}"
for pid in "${tail_pids[@]}"; do wait "$pid" || fail "a client ended with status $?: $(tail -n 1 "$work"/client*.log)"; done
awk -f "$here/accounts.awk" "$work"/client*.out || fail 'there are ticks that cannot be explained'
