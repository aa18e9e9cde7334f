#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# try.sh OUT debian12|ubuntu24.04 [FOLDER]: tries the packages of OUT in empty roots below FOLDER (build-package/roots).
# Needs root, mmdebstrap and the network. One root gets the .deb by apt, another one the archive, in a folder with a space in its
# name. Both run the first commands of README.md. The wheel goes into an empty venv of the first root.
set -euo pipefail
[[ $# -ge 2 ]] || { echo "usage: scripts/package/try.sh OUT debian12|ubuntu24.04 [FOLDER]" >&2; exit 2; }
out="$(realpath "$1")" system="$2" tree="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
folder="${3:-$tree/build-package/roots}"
mkdir -p "$folder"
debian=(bookworm "deb http://deb.debian.org/debian bookworm main" "deb http://deb.debian.org/debian-security bookworm-security main")
ubuntu=(noble "deb [trusted=yes] http://archive.ubuntu.com/ubuntu noble main universe" "deb [trusted=yes] http://archive.ubuntu.com/ubuntu noble-updates main universe")
case "$system" in
  debian12) suite=("${debian[@]}") ;;
  ubuntu24.04) suite=("${ubuntu[@]}") ;;
  *) echo "try.sh: \`$system\` is neither debian12 nor ubuntu24.04" >&2; exit 2 ;;
esac

# in_root ROOT [--net] SCRIPT: runs SCRIPT in ROOT, without network unless --net is given.
in_root() {
  local root="$1" net=(-n)
  shift
  if [[ "$1" == --net ]]; then shift; net=(); cp /etc/resolv.conf "$root/etc/"; fi
  unshare -m -p -f --kill-child "${net[@]}" bash -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount -t tmpfs tmpfs "$0/tmp" &&
    exec chroot "$0" /usr/bin/env -i HOME=/home/tester PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive bash -euc "$1"' "$root" "$1"
}

base="$folder/$system.tar"
if [[ ! -f "$base" ]]; then
  mmdebstrap --variant=minbase --include=apt,ca-certificates "${suite[0]}" "$base.part" "${suite[@]:1}" --format=tar
  mv "$base.part" "$base"
fi
for kind in deb archive; do
  rm -rf "$folder/$system-$kind"
  mkdir -p "$folder/$system-$kind"
  tar -C "$folder/$system-$kind" -xf "$base"
  mkdir -p "$folder/$system-$kind/home/tester"
done

# first HOST: the first commands of README.md, without network. A model, then a candidate from nothing to a verdict.
first() {
  echo "cd ~; host='$1'"
  cat <<'EOF'
"$host" --version
"$host" list plugins
"$host" run mixtral --profile tiny | tee run.txt
grep -q 'baseline .* correct' run.txt
"$host" new rms_norm --name mine
"$host" build mine
"$host" check mine | tee check.txt
grep -q '^PASS' check.txt
"$host" bench mine --json bench.json
grep -qE '"status": "(faster|same|slower)"' bench.json  # right, whatever its speed
"$host" run llama3.1 --profile tiny --candidate mine >candidate.txt
grep -qE '^ +mine +correct' candidate.txt
EOF
}

deb="$folder/$system-deb"
cp "$out"/fk-host_*"~${system}"_*.deb "$out"/*.whl "$deb/home/tester/"
in_root "$deb" --net 'apt-get update -qq; apt-get install -y -qq /home/tester/fk-host_*.deb python3-venv >/dev/null; dpkg -l fk-host | tail -1'
in_root "$deb" "$(first fk-host)"
in_root "$deb" 'cd ~; python3 -m venv empty; empty/bin/pip install -q --no-index *.whl; empty/bin/fk-client --help | head -1
  empty/bin/python -c "import fk_client, fk_plugin; assert fk_plugin.Plugin(\"candidates/mine/mine.so\")[\"rms_norm\"]"'
in_root "$deb" 'apt-get remove -y -qq fk-host >/dev/null; ! test -e /usr/lib/fk-host; ! test -e /usr/bin/fk-host'

archive="$folder/$system-archive"
mkdir -p "$archive/opt/a folder"
tar -C "$archive/opt/a folder" -xf "$out"/fk-host-[0-9]*-linux-*.tar.xz
in_root "$archive" --net 'apt-get update -qq; apt-get install -y -qq --no-install-recommends g++ >/dev/null'
in_root "$archive" "$(first "/opt/a folder/$(ls "$archive/opt/a folder")/bin/fk-host")"
echo "the packages work in $system"
