#!/usr/bin/env bash
# Prints the servers that the tests run on, a line each: its name, and the path of a program that starts it as
# redis-server does. Arguments name those that are wanted; all if there are none:
#
#	servers.sh              redis-6.0 /…/.bin/servers/redis-6.0/redis-server …
#	servers.sh valkey-8.1
#
# Those that this system does not have are other Debian suites': they are unpacked in .bin/servers, with the libraries of
# their suites, and nothing is installed.
set -euo pipefail

scripts=$(dirname "$(realpath "$0")")
servers=$(dirname "$scripts")/.bin/servers

# What they need of trixie: they are made for a newer C library than Debian 12 has.
trixie=(libc6 libstdc++6 libgcc-s1 libatomic1 liblzf1 libjemalloc2 libsystemd0 libssl3t64 libcap2 libzstd1 zlib1g)

# fetch NAME SUITE KIND PACKAGE… unpacks a server.
fetch() {
	local name=$1 suite=$2 kind=$3 folder=$servers/$1
	shift 3
	if [ ! -x "$folder/$kind-server" ]; then
		rm -rf "$folder"
		"$scripts/debian-unpack.sh" "$suite" "$folder" "$@"
		start_script "$folder" "$kind"
		"$folder/$kind-server" --version >/dev/null || {
			rm -rf "$folder"
			echo "$name does not run here (its words are above)" >&2
			exit 1
		}
	fi
	echo "$name $folder/$kind-server"
}

# start_script FOLDER KIND writes the program that starts the server. Debian's is the same file as KIND-check-rdb, and
# goes by the name that it is called by. Where the suite's own C library is there, its loader starts it.
start_script() {
	local folder=$1 kind=$2 loader libraries
	loader=$(find "$folder" -name 'ld-linux*.so.*' -print -quit)
	libraries=$(find "$folder" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
	{
		echo '#!/bin/bash'
		if [ -n "$loader" ]; then
			echo "exec '$loader' --argv0 $kind-server --library-path '$libraries' '$folder/usr/bin/$kind-check-rdb' \"\$@\""
		else
			[ -z "$libraries" ] || echo "export LD_LIBRARY_PATH='$libraries'"
			echo "exec -a $kind-server '$folder/usr/bin/$kind-check-rdb' \"\$@\""
		fi
	} >"$folder/$kind-server.$$"
	chmod +x "$folder/$kind-server.$$"
	mv "$folder/$kind-server.$$" "$folder/$kind-server"
}

server() {
	case $1 in
	redis-6.0) fetch redis-6.0 bullseye redis 'redis-tools=5:6.0.16-*' libssl1.1 liblua5.1-0 lua-cjson lua-bitop ;;
	redis-7.0) installed ;;
	redis-8.0) fetch redis-8.0 trixie redis 'redis-tools=5:8.0.2-*' "${trixie[@]}" ;;
	valkey-8.0) fetch valkey-8.0 bookworm-backports valkey 'valkey-tools=8.0.1+*' ;;
	valkey-8.1) fetch valkey-8.1 trixie valkey 'valkey-tools=8.1.1+*' "${trixie[@]}" ;;
	*)
		echo "$1 is none of the servers: redis-6.0 redis-7.0 redis-8.0 valkey-8.0 valkey-8.1" >&2
		exit 2
		;;
	esac
}

# installed is the server that this system has: Debian 12's.
installed() {
	local program version
	program=$(command -v redis-server) || {
		echo "redis-server is not on the PATH: scripts/install-deps.sh" >&2
		exit 1
	}
	version=$("$program" --version | sed -nE 's/.* v=([0-9]+\.[0-9]+).*/\1/p')
	echo "redis-$version $program"
}

mkdir -p "$servers"
exec 9>"$servers/lock"
flock 9 # others may fetch them, too
[ $# -gt 0 ] || set -- redis-6.0 redis-7.0 redis-8.0 valkey-8.0 valkey-8.1
for name; do server "$name"; done
