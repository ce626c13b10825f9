#!/usr/bin/env bash
# Builds the binary of the image and of releases: static, stripped, and the same for the same sources and Go, wherever
# and whenever it is built.
#
#	binary.sh FILE [VERSION]
set -euo pipefail

file=$(realpath -m "$1") version=${2:-dev}
cd "$(dirname "$0")/.."
CGO_ENABLED=0 GOFLAGS=-mod=readonly "${GO:-go}" build -trimpath -buildvcs=false \
	-ldflags "-s -w -buildid= -X main.version=$version" -o "$file" ./cmd/fence-proxy
