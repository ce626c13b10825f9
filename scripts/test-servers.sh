#!/usr/bin/env bash
# Runs the integration tests on other servers than the one that is installed (docs/servers.md):
#
#	test-servers.sh [--short] [server …]
#
# The servers are those of servers.sh; without arguments all but the installed one. --short runs what depends most on the
# server, half a minute each: commands and their keys, records and scripts, transactions, blocking, Pub/Sub, RESP3, ACLs.
# PRODUCT_UNDER_TEST, if set, is the proxy that is tested.
set -euo pipefail

cd "$(dirname "$0")/.."
go=${GO:-go} short=''
if [ "${1:-}" = --short ]; then
	short=yes
	shift
fi
[ $# -gt 0 ] || set -- redis-6.0 redis-8.0 valkey-8.0 valkey-8.1

packages=(./internal/command ./internal/tokenstore ./internal/doctor)
telling='ServedAsByRedis|SoundAsAtRedis|AsRedisWould|RedissOwn|AreRedisOwnBytes|AreRediss?OwnBytes|TurnedOff|Invalidation|LogsOut|TheRecipe|AFailedLogin|WritesThatCameLater|(IsToldBy|KnownTo)Redis|GuardsRights|TheDocsName|IsOnTheReplica|WaitCountsReplicas'
cases='TestCasesInEveryMode/Case_(12|50|51|52|54|55|57|58|68|69),'

failed=()
test_on() {
	FENCE_TEST_REDIS=$2 "$go" test -tags integration -count=1 -vet=off -timeout 30m "${@:3}" || failed+=("$1")
}

while read -r name program; do
	echo "On $name"
	test_on "$name" "$program" "${packages[@]}"
	if [ -n "$short" ]; then
		test_on "$name" "$program" -run "$telling" ./integration
		test_on "$name" "$program" -run "$cases" ./integration
	else
		test_on "$name" "$program" ./integration
	fi
done < <(scripts/servers.sh "$@")
[ ${#failed[@]} -eq 0 ] || {
	echo "Failed on ${failed[*]}" >&2
	exit 1
}
