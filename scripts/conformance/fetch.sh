#!/usr/bin/env bash
# Prints the path of the source of the given Redis version, a tar file that Debian's
# source package brings, and downloads it into .bin first if it is not there:
#
#	fetch.sh 7.0.15
#
# Where apt does not have it, put it there by hand.
set -euo pipefail

version=$1
own=$(cd "$(dirname "$0")/../.." && pwd)/.bin
tarball=$own/redis_$version.orig.tar.gz

if [ -f "$tarball" ]; then
	echo "$tarball"
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "There is no apt-get here: put the source of Redis $version at $tarball" >&2
	exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{sources,lists/partial,cache/archives/partial}

# The system's sources, but for source packages; its own lists stay as they are.
shopt -s nullglob
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
	if [ -f "$list" ]; then sed -n 's/^[[:space:]]*deb[[:space:]]/deb-src /p' "$list" >"$work/sources/$(basename "$list")"; fi
done
for list in /etc/apt/sources.list.d/*.sources; do
	sed 's/^Types:.*/Types: deb-src/' "$list" >"$work/sources/$(basename "$list")"
done
apt() {
	apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/sources" \
		-o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@"
}

echo "Downloading the source of Redis $version into .bin" >&2
cd "$work"
apt update >&2 || true # one source that has no source packages must not matter
apt source --download-only --tar-only redis >&2
if [ ! -f "redis_$version.orig.tar.gz" ]; then
	echo "apt has the source of another version: put the source of Redis $version at $tarball" >&2
	exit 1
fi
mkdir -p "$own"
cp "redis_$version.orig.tar.gz" "$tarball.$$"
mv "$tarball.$$" "$tarball"
echo "$tarball"
