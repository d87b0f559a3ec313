#!/usr/bin/env bash
# secrets.sh [DIR] makes the secrets of compose.yaml in DIR/secrets, once: keys of the gateways, a token for the admin
# interface, and a certificate for this machine. DIR is the folder of this script unless it is named. In production
# the certificate comes from your authority.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here}"
umask 077
mkdir -p secrets

if [[ ! -e secrets/gateway.key ]]; then
	go build -C "$here/../.." -trimpath -buildvcs=false -o "$PWD/secrets/sealcast" ./cmd/sealcast
	secrets/sealcast keygen -o secrets/gateway.key >secrets/pin.txt
	secrets/sealcast keygen --ticket -o secrets/tickets.key
	rm secrets/sealcast
fi
if [[ ! -e secrets/admin_token ]]; then
	openssl rand -hex 24 | tr -d '\n' >secrets/admin_token
	printf 'SEALCAST_ADMIN_TOKEN=%s\n' "$(cat secrets/admin_token)" >secrets/gateway.env
fi
if [[ ! -e secrets/gateway.pem ]]; then
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj /CN=localhost \
		-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout secrets/tls.key -out secrets/ca.pem 2>/dev/null
	cat secrets/ca.pem secrets/tls.key >secrets/gateway.pem
	rm secrets/tls.key
fi
printf 'SEALCAST_UID=%s\nSEALCAST_GID=%s\n' "$(id -u)" "$(id -g)" >.env
echo "clients pin $(cat secrets/pin.txt)"
