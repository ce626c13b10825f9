#!/usr/bin/env bash
# Runs Redis's own test suite against a real redis-server, straight and through the
# proxy:
#
#	conformance.sh [--short] [--all] [mode ...] [-- option of runtest ...]
#
# The modes; all if none is named:
#
#	straight   without the proxy: what the suite says of this very server and machine
#	unguarded  through a proxy without rules
#	shared     … and with so many clients that they share upstream connections
#	beside     through a proxy with a rule for keys that the suite does not use
#	guarded    through a proxy that guards every key
#
# --short runs the units that say most in a minute. Options of runtest narrow it further:
# -- --single unit/type/list, or -- --only "the name of a test".
#
# conformance/exceptions.txt lists the tests that a mode leaves out, and why; --all runs
# them as well. A test fails if it fails, or if it passes straight (when that is the first
# mode) and does not come to its end through the proxy. The exit code is 1 if any failed
# or the suite broke off, and 2 if it could not be started. What the suite and the proxy
# printed stays in .bin/conformance.
#
# The suite is the one of the redis-server that is installed. It comes from Debian's
# source package (conformance/fetch.sh), stays in .bin and is unpacked anew for every run.
# It runs in its mode for external servers, which leaves out what needs servers of its own
# (replication, persistence, shutdown …), and without its slow tests. The unpacked copy
# is changed in five places, none of them an assertion:
#
#   - A client that does not wait for its reply pauses for 10 ms after a command that
#     blocks, subscribes, executes a transaction or is about clients. The suite takes it for
#     granted that Redis has read such a command before the next one of another
#     connection. With anything in between, even a plain TCP relay, that is a race.
#   - A command that is refused as stale (FENCED) is sent again, as an agent would, once for
#     each of its sessions and up to three times: the suite flushes the database at will, and the
#     fences with it.
#   - After a failed test the client connects anew, and what it may have set is set back, so
#     that the next test does not find itself inside MULTI, say, or at a replica.
#   - Connections that a unit has left open are closed at its end, as they are when each
#     unit has a server of its own.
#   - Progress is written line by line.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
exceptions=$top/scripts/conformance/exceptions.txt
results=$top/.bin/conformance
# Seconds without a test ending after which the suite gives up.
stuck=180

short_units=(
	unit/{protocol,auth,quit,keyspace,scan,info-command,slowlog,bitfield,pause,querybuf,replybufsize}
	unit/type/{string,incr,list,set,zset,hash,stream-cgroups}
	unit/{multi,pubsub,pubsubshard,scripting,functions,tracking,introspection,acl,acl-v2}
)

fail() {
	echo "conformance: $*" >&2
	exit 2
}

short='' all='' modes=() options=()
while [ $# -gt 0 ]; do
	case $1 in
	--short) short=yes ;;
	--all) all=yes ;;
	straight | unguarded | shared | beside | guarded) modes+=("$1") ;;
	--)
		shift
		options=("$@")
		break
		;;
	*) fail "$1 is neither an option nor a mode; see the head of $0" ;;
	esac
	shift
done
[ ${#modes[@]} -gt 0 ] || modes=(straight unguarded shared beside guarded)

# --- Processes, and their end ---

work=$(mktemp -d)
logs=$work/logs
jobs=()

# launch COMMAND sets job: its process, and a process group of its own, so that it ends
# with all that it has started.
launch() {
	set -m
	"$@" &
	job=$!
	set +m
	jobs+=("$job")
}

alive() {
	local j
	for j in "${jobs[@]}"; do ! kill -0 -- "-$j" 2>/dev/null || return 0; done
	return 1
}

stop_all() {
	local j
	for j in "${jobs[@]}"; do kill -TERM -- "-$j" 2>/dev/null || true; done
	for _ in {1..100}; do
		alive || break
		sleep 0.1
	done
	for j in "${jobs[@]}"; do kill -KILL -- "-$j" 2>/dev/null || true; done
	wait
	jobs=()
}

finish() {
	stop_all
	cp "$logs"/* "$results/" 2>/dev/null || true
	rm -rf "$work"
}

trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# start_redis DIRECTORY sets redis_port.
start_redis() {
	for _ in {1..20}; do
		redis_port=$((20000 + RANDOM % 10000))
		launch redis-server --port "$redis_port" --bind 127.0.0.1 --dir "$1" --save '' --enable-protected-configs yes \
			--enable-debug-command yes --enable-module-command yes >"$1/redis.log" 2>&1
		for _ in {1..100}; do
			# Somebody else's server may be at this port.
			if redis-cli -p "$redis_port" info server 2>/dev/null | grep -q "^process_id:${job}[^0-9]*$"; then return; fi
			kill -0 "$job" 2>/dev/null || break
			sleep 0.05
		done
	done
	cat "$1/redis.log" >&2
	fail "redis-server does not start"
}

rules() {
	case $1 in
	unguarded | shared) echo '[]' ;;
	beside) echo '[{name: beside, prefix: "not:in:the:suite:", session: "not:in:the:suite:<session>:*"}]' ;;
	guarded) echo '[{name: all, prefix: "", mode: lock, owner: connection, writes_per_read: many, idle: 50ms, wait: 5s, max_hold: 5m}]' ;;
	esac
}

# start_proxy MODE DIRECTORY LOG sets proxy_port.
start_proxy() {
	printf 'listen: "127.0.0.1:0"\nadmin: ""\nupstream: {url: "redis://127.0.0.1:%s"}\nrules: %s\n' \
		"$redis_port" "$(rules "$1")" >"$2/config.yaml"
	launch "$work/fence-proxy" --config "$2/config.yaml" >"$3" 2>&1
	for _ in {1..200}; do
		proxy_port=$(sed -nE 's/.* msg=serving .* address=127\.0\.0\.1:([0-9]+) .*/\1/p' "$3")
		[ -z "$proxy_port" ] || return 0
		kill -0 "$job" 2>/dev/null || break
		sleep 0.05
	done
	cat "$3" >&2
	fail "the proxy does not start"
}

# crowd PORT is eight clients that do nothing.
crowd() {
	local connections
	for connections in {11..18}; do eval "exec $connections<>/dev/tcp/127.0.0.1/$1"; done
	exec sleep infinity
}

# --- The suite ---

# change FILE SED-SCRIPT edits the unpacked suite in exactly one line.
change() {
	local file=$suite/tests/$1
	cp "$file" "$work/before"
	sed -i -E "$2" "$file"
	[ "$(diff "$work/before" "$file" | grep -c '^[0-9]')" -eq 1 ] || fail "this version of Redis has another $1: adapt $0"
}

# unpack sets suite.
unpack() {
	local version tarball
	version=$(redis-server --version | sed -nE 's/.* v=([0-9.]+) .*/\1/p')
	tarball=$("$top/scripts/conformance/fetch.sh" "$version") || fail "there is no source of Redis $version"
	suite=$work/redis-$version
	tar -xzf "$tarball" -C "$work" "redis-$version/tests" "redis-$version/runtest"
	mkdir "$suite/src"
	ln -s "$(command -v redis-cli)" "$(command -v redis-benchmark)" "$suite/src/"

	local racing='b[lrz]|xread|wait|p?subscribe|ssubscribe|[ps]?unsubscribe|exec|client|monitor'
	change support/redis.tcl '/^proc ::redis::__dispatch__raw__ /,/^}/ s/^        if \{!\$deferred\} \{$/        if {$deferred \&\& [regexp -nocase {^('"$racing"')} $method]} { after 10 }\n&/'
	local stale='$errorcode \&\& [string match "FENCED *" $retval] \&\& !$::redis::deferred($id) \&\& $method ne "read"'
	change support/redis.tcl '/^proc ::redis::__dispatch__ /,/^}/ s/^    (set errorcode .*)$/&\n    for {set n 0} {$n < 3 \&\& '"$stale"'} {incr n} { \1 }/'
	change support/test.tcl '/^proc test /,/^}/ s/^    set ::cur_test \$prev_test$/    if {$::num_failed > $failed_before} { catch { reconnect; r client unpause; r replicaof no one; r config set maxmemory 0 min-replicas-to-write 0 } }\n&/'
	change support/test.tcl '/^proc test /,/^}/ s/^    incr ::num_tests$/&\n    set failed_before $::num_failed/'
	change support/server.tcl '/^proc run_external_server_test /,/^}/ s/^    set srv \{\}$/&\n    set opened [array names ::redis::fd]/'
	change support/server.tcl '/^proc run_external_server_test /,/^}/ s/^    set srv \[lpop ::servers\]$/&\n    foreach id [array names ::redis::fd] { if {$id ni $opened \&\& ![regexp "Handle$id\\\\M" [list $srv $::servers]]} { catch {::redis::redisHandle$id close} } }/'
	change test_helper.tcl '1i fconfigure stdout -buffering line'
}

# selection prints the options of runtest that select units.
selection() {
	local units=()
	[[ " ${options[*]} " != *" --single "* ]] || return 0
	[ -z "$short" ] || units=("${short_units[@]}")
	[ ${#units[@]} -eq 0 ] || printf -- '--single\n%s\n' "${units[@]}"
}

# run_suite MODE PORT LOG prints the units that have ended, and failures as they come.
run_suite() {
	local selected
	mapfile -t selected < <(selection)
	[ -n "$all" ] || sed -nE "s/^$1[[:space:]]+//p" "$exceptions" >"$work/excepted"
	touch "$work/excepted"
	cd "$suite"
	# The suite listens somewhere below its base port.
	TERM=dumb ./runtest --host 127.0.0.1 --port "$2" --baseport $((12000 + RANDOM % 8000)) \
		--durable --timeout "$stuck" --tags -slow --skipfile "$work/excepted" \
		"${selected[@]}" "${options[@]}" 2>&1 </dev/null |
		tee "$3" | sed -unE '/^\[([0-9]+\/[0-9]+ done|err|exception|TIMEOUT)\]/p'
}

# --- What became of the tests ---

# tests MODE KIND ... prints "unit: name" of each test, sorted. Kinds are ok, err and skip.
tests() {
	awk -v kinds=" ${*:2} " '
		/^Testing / { unit = $2 }
		/^\[(ok|err|skip)\]: / {
			kind = substr($1, 2, index($1, "]") - 2)
			sub(/^[^ ]* /, ""); sub(/ \([0-9]+ ms\)$/, ""); sub(/ in tests\/[^ ]*\.tcl$/, "")
			if (index(kinds, " " kind " ")) print unit ": " $0
		}' "$logs/$1.log" | sort
}

# lost MODE prints the tests that passed straight and did not come to their end.
lost() {
	comm -23 <(tests straight ok) <(tests "$1" ok err skip) |
		grep -F -f <(sed -nE 's/^Testing (.*)/\1: /p' "$logs/$1.log") || true
}

# unneeded MODE prints the exceptions that no test has the name of. Only a whole run can tell.
unneeded() {
	[ -z "$short$all${options[*]}" ] || return 0
	local skipped name
	skipped=$(tests "$1" skip | sed 's/^[^:]*: //')
	while read -r name; do
		case $name in
		/*) grep -Eq -e "${name#/}" <<<"$skipped" || echo "$name" ;;
		*) grep -Fxq -e "$name" <<<"$skipped" || echo "$name" ;;
		esac
	done <"$work/excepted"
}

# report TITLE < LINES prints them, if there are any, and then fails.
report() {
	local lines
	lines=$(cat)
	[ -n "$lines" ] || return 0
	echo "  $1:"
	sed 's/^/    /' <<<"$lines"
	return 1
}

# judge MODE fails if a test did.
judge() {
	local log=$logs/$1.log verdict=0
	printf '%-9s %5d ok %5d err %5d excepted\n' "$1" \
		"$(tests "$1" ok | wc -l)" "$(tests "$1" err | wc -l)" "$(tests "$1" skip | wc -l)"
	tests "$1" err | uniq | report "failed" || verdict=1
	if [ "$1" != straight ]; then
		unneeded "$1" | report "excepted, but not there" || verdict=1
		[ "${modes[0]}" != straight ] || lost "$1" | report "passed straight, but did not come to their end" || verdict=1
		sed -nE '/^(panic|fatal error): /p' "$logs/$1.proxy.log" | report "the proxy broke" || verdict=1
	fi
	if ! grep -q '^ *The End$' "$log" || grep -qE '^\[(exception|TIMEOUT)\]' "$log"; then
		tail -n 20 "$log" | report "the suite broke off" || verdict=1
	fi
	return $verdict
}

run() {
	local mode=$1 port
	echo "--- $mode"
	mkdir "$work/$mode"
	start_redis "$work/$mode"
	port=$redis_port
	if [ "$mode" != straight ]; then
		start_proxy "$mode" "$work/$mode" "$logs/$mode.proxy.log"
		port=$proxy_port
		[ "$mode" != shared ] || launch crowd "$port"
	fi
	launch run_suite "$mode" "$port" "$logs/$mode.log"
	wait "$job" || true # judge knows more
	stop_all
}

# --- The run ---

"$top/scripts/install-deps.sh" tclsh=tcl
mkdir -p "$results" "$logs"
unpack
unset "${!FENCE_@}"
(cd "$top" && CGO_ENABLED=0 "${GO:-go}" build -o "$work/fence-proxy" ./cmd/fence-proxy) || fail "the proxy does not build"

# In one piece, so that an edit of this file does not meet a run half-way.
{
	verdict=0
	for mode in "${modes[@]}"; do
		run "$mode"
		judge "$mode" || verdict=1
	done
	exit $verdict
}
