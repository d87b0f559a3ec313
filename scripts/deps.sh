#!/usr/bin/env bash
# Installs the programs that the tests need and that this machine lacks: on
# Debian and Ubuntu as root through apt-get, elsewhere it names them and fails.
# FIREFOX=1 asks for Firefox as well.
set -euo pipefail

missing=()
need() { # need PACKAGE COMMAND...: the package is missing if the command fails
	local package=$1
	shift
	"$@" >/dev/null 2>&1 || missing+=("$package")
}

# has_c_compiler tries what the race detector needs: a compiler with the C library's headers.
has_c_compiler() {
	echo '#include <stdlib.h>' | "$(go env CC)" -E -
}

# The Python packages belong to the system's interpreter, whatever another python3 on the path has.
python_has() {
	/usr/bin/python3 -c "import $1"
}

# node_is_recent: 18 is Debian 12's.
node_is_recent() {
	node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)'
}

need redis-server command -v redis-server
need protobuf-compiler command -v protoc
need gcc has_c_compiler
need libc6-dev has_c_compiler
need nodejs node_is_recent
need npm command -v npm
# Servers, which users have no path to.
need haproxy test -x /usr/sbin/haproxy
need nginx-light test -x /usr/sbin/nginx
need prometheus command -v promtool
need systemd command -v systemd-analyze
need openssl command -v openssl
need file command -v file
need curl command -v curl
need util-linux command -v unshare
need iproute2 test -x /usr/sbin/ip -o -x /usr/bin/ip -o -x /sbin/ip
need chromium command -v chromium
# Only `make test-long` needs it, and it is large.
if [[ -n ${FIREFOX:-} ]]; then
	need firefox-esr command -v firefox-esr
fi
need python3 test -x /usr/bin/python3
for module in websockets cryptography dissononce; do
	need "python3-$module" python_has "$module"
done

if ((${#missing[@]} == 0)); then
	exit 0
fi
if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
	echo "make: error: the tests need these packages, please install them: ${missing[*]} (names as in Debian and Ubuntu)" >&2
	exit 1
fi
echo "installing ${missing[*]}"
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
