#!/usr/bin/env bash
# Writes a binary's bill of materials (CycloneDX), from what the Go command has put into the binary.
#
#	sbom.sh BINARY FILE [VERSION]
set -euo pipefail

binary=$(realpath "$1") file=$(realpath -m "$2") version=${3:-dev}
tool=$("$(dirname "$0")/tool.sh" github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod v1.10.0)
"$tool" bin -json -noserial -version "$version" -output "$file" "$binary"
