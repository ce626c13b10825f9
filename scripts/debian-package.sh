#!/usr/bin/env bash
# Prints the folder that a package of another Debian suite than this system's is unpacked in, and downloads it into .bin first
# if it is not there:
#
#	debian-package.sh bullseye consul '1.8.7+dfsg1-*'
#
# Nothing is installed, nor do apt's own sources and lists change. Where apt does not have the package, unpack it there by hand.
set -euo pipefail

suite=$1 package=$2 version=$3
folder=$(cd "$(dirname "$0")/.." && pwd)/.bin/$package-${version%%[+-]*}

if [ -d "$folder" ]; then
	echo "$folder"
	exit 0
fi
fail() {
	echo "$1: unpack Debian's package $package $version at $folder" >&2
	exit 1
}
command -v apt-get >/dev/null || fail "There is no apt-get here"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,cache/archives/partial}

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
[ -n "$mirror" ] || fail "apt knows no mirror of Debian (apt-get update may help)"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$work/sources.list"
apt() {
	apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" \
		-o APT::Sandbox::User=root -o Acquire::Retries=3 "$@" >&2
}

echo "Downloading $package $version of $suite into .bin" >&2
cd "$work"
apt update
apt download "$package=$version" || fail "apt could not download it (its words are above)"
dpkg -x "$package"_*.deb unpacked

mkdir -p "$(dirname "$folder")"
mv "$work/unpacked" "$folder.$$"
mv -T "$folder.$$" "$folder"
echo "$folder"
