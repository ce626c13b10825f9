#!/usr/bin/env bash
# Explores fence.pml with spin: what holds must hold in every state, and each invariant that is taken away must be missed.
# Usage: check.sh short|full. A model that does not fit in its limits counts as a failure: nothing is left out.
set -euo pipefail

cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mode=${1:-full}
failed=0

# build FLAGS… makes a verifier of the model with these flags. -O0 compiles ten times as fast, -O2 explores three times as fast.
build() {
	local level=$1
	shift
	(cd "$work" && spin -a "$@" "$OLDPWD/fence.pml") >"$work/spin.out" 2>&1 || {
		cat "$work/spin.out"
		exit 1
	}
	(cd "$work" && "${CC:-gcc}" "$level" -w -DSAFETY -DCOLLAPSE -DVECTORSZ=1024 -DMEMLIM=3500 -o pan pan.c)
	(cd "$work" && ./pan -m100000 -w24) >"$work/pan.out" 2>&1 || true
}

states() { sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$work/pan.out"; }
complete() { ! grep -qE 'max search depth too small|Search not completed|out of memory|aborting' "$work/pan.out"; }

# holds WHAT FLAGS… explores every state, and finds nothing.
holds() {
	local what=$1
	shift
	build "$level" "$@"
	if complete && grep -q 'errors: 0' "$work/pan.out"; then
		printf '  holds  %10s states  %s\n' "$(states)" "$what"
	else
		printf '  FAILED %10s states  %s\n' "$(states)" "$what"
		grep -E 'pan:|errors:' "$work/pan.out" || tail -3 "$work/pan.out"
		failed=1
	fi
}

# breaks WHAT VIOLATED FLAGS… finds a counterexample, in which the assertion about VIOLATED fails.
breaks() {
	local what=$1 violated=$2
	shift 2
	build -O0 "$@"
	if grep -qE "assertion violated.*$violated" "$work/pan.out"; then
		printf '  caught %10s steps   %s\n' "$(sed -n 's/.*assertion violated.*(at depth \([0-9]*\)).*/\1/p' "$work/pan.out")" "$what"
	else
		printf '  MISSED                     %s\n' "$what"
		grep -E 'pan:|errors:' "$work/pan.out" || tail -3 "$work/pan.out"
		failed=1
	fi
}

update='depends' # of the assertion that a write goes on from what is there

if [ "$mode" = short ]; then
	level=-O1
	echo "What holds, in every state:"
	holds "two owners, two commands each, leases that end" -DCOMMANDS=2 -DRULE=many
	holds "… and the record is lost" -DCOMMANDS=2 -DRULE=one -DLOSSES=1
else
	level=-O2
	echo "What holds, in every state:"
	holds "two owners, three commands each, leases that end" -DCOMMANDS=3
	holds "two owners, four commands each, coarse" -DCOMMANDS=4 -DCOARSE -DLOCK
	holds "three owners, two commands each, coarse" -DOWNERS=3 -DCOMMANDS=2 -DCOARSE -DLOCK -DRULE=many
	holds "the record is lost" -DCOMMANDS=2 -DLOSSES=2
	holds "a connection breaks under a commit, and the record is lost" -DCOMMANDS=2 -DLOSSES=1 -DCUTS=1
	holds "a failover loses writes" -DCOMMANDS=2 -DFAILOVERS=1 -DRULE=one
	holds "… and a connection breaks" -DCOMMANDS=2 -DFAILOVERS=1 -DCUTS=1 -DLOCK -DRULE=many
	holds "the store's clock goes back" -DCOMMANDS=2 -DCLOCK_BACK
	holds "locks elsewhere" -DCOMMANDS=2 -DELSEWHERE
	holds "locks elsewhere, the record is lost, a connection breaks" -DCOMMANDS=2 -DELSEWHERE -DLOSSES=1 -DCUTS=1 -DLOCK -DRULE=one
	holds "locks elsewhere, a failover loses writes" -DCOMMANDS=2 -DELSEWHERE -DFAILOVERS=1 -DLOCK -DRULE=many
fi

echo "What loses an update, or breaks its word, when it is taken away:"
breaks "the classic rule: a token above the last one stored is enough" "$update" -DCLASSIC -DUPDATES_ONLY
breaks "check and write are one step" "$update" -DBREAK_ATOMIC -DUPDATES_ONLY
breaks "a grant is issued no later than the first read that it covers" "$update" -DBREAK_LATE -DUPDATES_ONLY
breaks "1. grants only grow" "$update" -DBREAK_GROW -DLOSSES=1 -DUPDATES_ONLY -DCOMMANDS=4
breaks "2. a missing record refuses" "$update" -DBREAK_MISSING -DLOSSES=1 -DUPDATES_ONLY
breaks "3. a hold is not taken again in the middle, silently" "$update" -DBREAK_SILENT -DUPDATES_ONLY
breaks "3. a broken sequence is reported" "$update" -DBREAK_REPORT -DUPDATES_ONLY
breaks "4. an unknown outcome is no success" "done" -DBREAK_SUCCESS -DCUTS=1
breaks "4. nothing is sent again that may still be applied" "done" -DBREAK_SILENCE -DCUTS=1
breaks "4. nothing is sent again that was applied" "done" -DBREAK_RETRY -DCUTS=1
breaks "5. a command that the proxy does not know is refused" "$update" -DBREAK_THROUGH -DUPDATES_ONLY
breaks "6. writers come through the proxy" "$update" -DBYPASS -DUPDATES_ONLY
breaks "7. records go away by themselves" "ttl" -DBREAK_TTL
if [ "$mode" != short ]; then
	breaks "a look comes before its read" "$update" -DBREAK_LOOK -DUPDATES_ONLY
	breaks "no two records have a stored token in common" "$update" -DBREAK_STAMP -DLOSSES=1 -DUPDATES_ONLY
	breaks "locks elsewhere: a grant is registered before the read" "$update" -DBREAK_LATE -DELSEWHERE -DUPDATES_ONLY
	breaks "1. locks elsewhere: only a newer grant is registered" "num>at.g" -DBREAK_BEHIND -DELSEWHERE
	breaks "locks elsewhere: a used-up number is nobody's" "$update" -DBREAK_UNUSED -DELSEWHERE -DFAILOVERS=1 -DLOCK -DCOMMANDS=2 -DRULE=many -DUPDATES_ONLY
	breaks "locks elsewhere: a newer grant does not tell what became of a commit" "done" -DBREAK_FATE -DELSEWHERE -DLOSSES=1 -DCUTS=1 -DLOCK -DCOMMANDS=2 -DRULE=one
	echo "What is not promised (docs/guarantees.md):"
	breaks "the record is lost and the clock goes back" "$update" -DCLOCK_BACK -DLOSSES=1 -DUPDATES_ONLY
	breaks "a failover undoes a flush" "$update" -DLIMIT_FLUSH -DLOSSES=1 -DFAILOVERS=1 -DCUTS=1 -DCOMMANDS=2 -DUPDATES_ONLY
fi
exit $failed
