#!/usr/bin/env bash
# Looks for known vulnerabilities that the code can reach:
#
#	vulncheck.sh path/to/govulncheck [database URL]
#
# Without a URL it reads an offline database beside the checkout, vulndb.tar.gz in a
# directory called shared, if there is one, and else govulncheck's default database.
set -euo pipefail

govulncheck=$1 database=${2:-}
offline=../shared/vulndb.tar.gz
if [ -z "$database" ] && [ -f "$offline" ]; then
	unpacked=$(mktemp -d)
	trap 'rm -rf "$unpacked"' EXIT
	tar -xzf "$offline" -C "$unpacked"
	database=file://$unpacked
fi
"$govulncheck" ${database:+-db "$database"} ./...
