#!/usr/bin/env bash
# Prints the path of a kube-apiserver for the tests, and builds it first if it is not in the
# cache yet. That takes 10 to 30 minutes, 2 GB of memory and 3 GB of disk, once.
#
#	KUBE_APISERVER=path/to/kube-apiserver   use this one, build nothing
#
# No package has it, and what the project publishes can't be had through the Go module proxy.
# So it is built from its module, in a module of its own: its many dependencies stay out of
# this project's go.mod.
set -euo pipefail

version=v1.36.3
# The modules that live in the same repository are numbered alike: v1.36.3 is v0.36.3 there.
staged=v0${version#v1}

if [ -n "${KUBE_APISERVER:-}" ]; then
	echo "$KUBE_APISERVER"
	exit 0
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/fence-proxy
binary=$cache/kube-apiserver-$version
if [ ! -x "$binary" ]; then
	mkdir -p "$cache"
	# One build at a time: a second one would wait for the first, and then find it done.
	exec {lock}>"$binary.lock"
	flock "$lock"
fi
if [ ! -x "$binary" ]; then
	echo "Building kube-apiserver $version; this takes 10 to 30 minutes, once" >&2
	module=$(mktemp -d)
	trap 'rm -rf "$module"' EXIT
	cd "$module"
	# Kubernetes replaces some modules by folders of its repository, which nobody else has.
	own=$(GOWORK=off go mod download -json "k8s.io/kubernetes@$version" | sed -nE 's/^\t"GoMod": "(.*)",$/\1/p')
	cat >go.mod <<-EOF
		module kube-apiserver
		require k8s.io/kubernetes $version
	EOF
	cat >main.go <<-EOF
		package kube

		import _ "k8s.io/kubernetes/cmd/kube-apiserver"
	EOF
	for name in $(sed -nE 's/^\t(k8s\.io\/[^ ]+) => \.\/staging\/.*/\1/p' "$own"); do
		go mod edit -replace "$name=$name@$staged"
	done
	go mod edit -go "$(sed -nE 's/^go //p' "$own")"
	# One package at a time, since some need a gigabyte to compile.
	CGO_ENABLED=0 GOFLAGS='-mod=mod -p=1 -buildvcs=false' nice -n 15 go build -trimpath \
		-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" \
		-o "$binary.new" k8s.io/kubernetes/cmd/kube-apiserver >&2
	mv "$binary.new" "$binary"
fi
echo "$binary"
