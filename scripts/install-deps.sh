#!/usr/bin/env bash
# Installs with apt what the tests need and is missing. Says nothing when all is there.
# Arguments name what is needed besides, each as command=package.
set -euo pipefail

has_redis_py() {
	python3 -c 'import redis' 2>/dev/null || /usr/bin/python3 -c 'import redis' 2>/dev/null
}

# Debian 12 has no Consul, the one before has.
fetch_consul() {
	local scripts
	scripts=$(dirname "$0")
	[ -d "$scripts/../.bin/consul-1.8.7" ] || command -v consul >/dev/null ||
		"$scripts/debian-package.sh" bullseye consul '1.8.7+dfsg1-*' >/dev/null
}

missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
command -v redis-cli >/dev/null || missing+=(redis-tools)
has_redis_py || missing+=(python3-redis)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)
command -v etcd >/dev/null || missing+=(etcd-server)
command -v "${CC:-gcc}" >/dev/null || missing+=(gcc libc6-dev) # for the race detector
command -v promtool >/dev/null || missing+=(prometheus)
command -v java >/dev/null || missing+=(default-jre-headless)
# ZooKeeper's server: the package zookeeper would add nothing to it but a desktop's Java.
[ -e /usr/share/java/zookeeper.jar ] || missing+=(libzookeeper-java)
for extra; do
	command -v "${extra%%=*}" >/dev/null || missing+=("${extra#*=}")
done
if [ ${#missing[@]} -eq 0 ]; then
	fetch_consul
	exit
fi

if ! command -v apt-get >/dev/null; then
	echo "The tests need these Debian packages or their like; install them by hand: ${missing[*]}" >&2
	exit 1
fi

as_root() {
	if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# The tests start servers of their own. Where a package brings a service of its name along, it
# is stopped and does not start at boot; one that was there before stays as it is.
retire_service() {
	if [ -d /run/systemd/system ]; then
		as_root systemctl disable --now "$1" || true
	else
		as_root service "$1" stop || true
		as_root update-rc.d "$1" disable || true
	fi >/dev/null 2>&1
}

echo "Installing ${missing[*]}"
as_root apt-get update -qq
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
for package in "${missing[@]}"; do
	case $package in
	redis-server | haproxy | nutcracker) retire_service "$package" ;;
	etcd-server) retire_service etcd ;;
	prometheus) retire_service prometheus ;;
	esac
done
fetch_consul
