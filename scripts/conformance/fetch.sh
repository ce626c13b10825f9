#!/usr/bin/env bash
# Prints the path of the source of the given Redis version, a tar file that Debian's
# source package brings, and downloads it into .bin first if it is not there:
#
#	fetch.sh 7.0.15
#
# It needs neither root, nor deb-src in apt's sources, nor fresh lists. Where apt does not
# have the source, put it there by hand.
set -euo pipefail

version=$1
own=$(cd "$(dirname "$0")/../.." && pwd)/.bin
tarball=$own/redis_$version.orig.tar.gz

if [ -f "$tarball" ]; then
	echo "$tarball"
	exit 0
fi
fail() {
	echo "$1: put the source of Redis $version at $tarball" >&2
	exit 1
}
command -v apt-get >/dev/null || fail "There is no apt-get here"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{sources,lists/partial,cache/archives/partial}

# The system's sources, but for source packages; its own lists stay as they are.
shopt -s nullglob
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
	if [ -f "$list" ]; then sed -n 's/^[[:space:]]*deb[[:space:]]/deb-src /p' "$list" >"$work/sources/$(basename "$list")"; fi
done
for list in /etc/apt/sources.list.d/*.sources; do
	sed 's/^Types:.*/Types: deb-src/I' "$list" >"$work/sources/$(basename "$list")"
done
apt() {
	apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/sources" \
		-o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" \
		-o APT::Sandbox::User=root -o Acquire::Retries=3 "$@" >&2
}

echo "Downloading the source of Redis $version into .bin" >&2
cd "$work"
apt update || true # one source that has no source packages must not matter
# The package that is installed may not be the newest one any more.
installed=$(dpkg-query -W -f '${source:Version}' redis-server 2>/dev/null || true)
apt source --download-only --tar-only "redis${installed:+=$installed}" || apt source --download-only --tar-only redis ||
	fail "apt could not download the source package of redis (its words are above)"
[ -f "redis_$version.orig.tar.gz" ] || fail "apt has the source of another version only"

mkdir -p "$own"
cp "redis_$version.orig.tar.gz" "$tarball.$$"
mv "$tarball.$$" "$tarball"
echo "$tarball"
