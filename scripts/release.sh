#!/usr/bin/env bash
# release.sh VERSION builds what a release consists of into dist: an archive for each system with both programs and
# what is needed to run them, checksums, and a bill of materials. Twice the same commit gives twice the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
systems=(linux/amd64 linux/arm64)
programs=(sealcast sealctl)

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH CGO_ENABLED=0 GOFLAGS=-buildvcs=false LC_ALL=C
rm -rf dist
mkdir -p dist
tool=$(mktemp -d)
trap 'rm -rf "$tool"' EXIT
go build -C tools/release -o "$tool/" github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

for system in "${systems[@]}"; do
	export GOOS=${system%/*} GOARCH=${system#*/}
	name=sealcast_${version}_${GOOS}_${GOARCH}
	mkdir -p "dist/$name"
	go build -trimpath -ldflags "-s -w -X github.com/sealcast/sealcast/internal/version.release=$version" -o "dist/$name/" \
		"${programs[@]/#/./cmd/}"
	for program in "${programs[@]}"; do
		# What the program says it is made of. When the list was written is nobody's business, and would differ.
		"$tool/cyclonedx-gomod" bin -json -noserial -version "$version" -output "dist/${name}_$program.cdx.json" "dist/$name/$program"
		sed -i '/"timestamp":/d' "dist/${name}_$program.cdx.json"
	done
	cp -r README.md LICENSE CHANGELOG.md configs deploy docs "dist/$name/"
	rm -rf "dist/$name/deploy/compose/secrets" "dist/$name/deploy/compose/.env"
	tar -C dist --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" |
		gzip -9n >"dist/$name.tar.gz"
	rm -rf "dist/${name:?}"
done

(cd dist && sha256sum -- * >SHA256SUMS)
cat dist/SHA256SUMS
