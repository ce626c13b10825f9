#!/usr/bin/env bash
# Does what the Dockerfile does, as far as that goes without a container engine: leaves the image's own files in
# dist/image, after it has built the binary twice, in two places, and found both the same.
#
#	image.sh VERSION
set -euo pipefail

version=$1
cd "$(dirname "$0")/.."
scripts/binary.sh dist/image/fence-proxy "$version"

elsewhere=$(mktemp -d)
trap 'rm -rf "$elsewhere"' EXIT
mkdir "$elsewhere/sources"
cp -r cmd internal scripts go.mod go.sum "$elsewhere/sources"
"$elsewhere/sources/scripts/binary.sh" "$elsewhere/fence-proxy" "$version"
cmp dist/image/fence-proxy "$elsewhere/fence-proxy" || {
	echo "two builds of the same sources are not the same" >&2
	exit 1
}

scripts/sbom.sh dist/image/fence-proxy dist/image/sbom.cdx.json "$version"
sha256sum dist/image/fence-proxy
