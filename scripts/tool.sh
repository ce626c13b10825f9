#!/usr/bin/env bash
# Prints the path of a Go tool at exactly the given version, and installs it into
# .bin first if neither the PATH nor GOBIN has it:
#
#	tool.sh github.com/example/tool/cmd/tool v1.2.3
set -euo pipefail

package=$1 version=$2
name=$(basename "$package")
own=$(cd "$(dirname "$0")/.." && pwd)/.bin
gobin=$(go env GOBIN)

# The version is the module's, as the Go command wrote it into the binary.
fits() {
	go version -m "$1" 2>/dev/null | awk -v want="$version" '$1 == "mod" && $3 == want { found = 1 } END { exit !found }'
}

for tool in "$(command -v "$name" || true)" "${gobin:-$(go env GOPATH)/bin}/$name" "$own/$name"; do
	if [ -x "$tool" ] && fits "$tool"; then
		echo "$tool"
		exit 0
	fi
done

echo "Installing $name $version into .bin; this takes a few minutes" >&2
GOBIN=$own go install "$package@$version"
echo "$own/$name"
