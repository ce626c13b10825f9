#!/usr/bin/env bash
# Downloads packages of another Debian suite than this system's, and unpacks them all into one folder, which it
# makes:
#
#	debian-unpack.sh bullseye FOLDER 'consul=1.8.7+dfsg1-*' …
#
# Of a package whose version the suite has no longer, the newest there is taken, which it says. Nothing is installed, nor
# do apt's own sources and lists change. Where apt does not have a package, unpack it there by hand.
set -euo pipefail

suite=$1 folder=$(realpath -m "$2")
shift 2

fail() {
	echo "$1: unpack these packages of Debian $suite at $folder: $packages" >&2
	exit 1
}
packages=$*
command -v apt-get >/dev/null || fail "There is no apt-get here"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,cache/archives/partial}

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
[ -n "$mirror" ] || fail "apt knows no mirror of Debian (apt-get update may help)"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$work/sources.list"
apt() {
	apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
		-o Dir::State::lists="$work/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$work/cache" \
		-o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
		-o Acquire::Retries=3 "$@" >&2
}

echo "Downloading $packages of $suite into $folder" >&2
cd "$work"
apt update
for package; do
	apt download "$package" 2>refused && continue
	cat refused >&2
	[ "${package%%=*}" != "$package" ] || fail "apt could not download ${package%%=*} (its words are above)"
	echo "$package is not in $suite any more: taking the newest" >&2
	apt download "${package%%=*}" || fail "apt could not download ${package%%=*} (its words are above)"
done
for deb in *.deb; do dpkg -x "$deb" unpacked; done

# Another may have been as quick.
mkdir -p "$(dirname "$folder")"
mv "$work/unpacked" "$folder.$$"
mv -T "$folder.$$" "$folder" 2>/dev/null || { rm -rf "$folder.$$" && [ -d "$folder" ]; }
