#!/usr/bin/env bash
# Prints the folder that a package of another Debian suite than this system's is unpacked in, and downloads it into .bin first
# if it is not there:
#
#	debian-package.sh bullseye consul '1.8.7+dfsg1-*'
set -euo pipefail

suite=$1 package=$2 version=$3
scripts=$(dirname "$(realpath "$0")")
folder=$(dirname "$scripts")/.bin/$package-${version%%[+-]*}

[ -d "$folder" ] || "$scripts/debian-unpack.sh" "$suite" "$folder" "$package=$version"
echo "$folder"
