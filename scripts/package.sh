#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package.sh [--twice] OUT: makes the packages of this tree in OUT (docs/packages.md): .deb for the running distribution, an
# archive for any folder, a wheel of the Python modules, an SBOM for each, SHA256SUMS. The files that git knows are built.
#   --twice    builds a second time, in another folder without ccache, and compares all bytes
#   FK_CUDA=ON makes fk-host-cuda and its archive too
# The time in packages is SOURCE_DATE_EPOCH, else the time of the commit.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
here="$fk_root/scripts/package" twice=0
[[ "${1:-}" != --twice ]] || { twice=1; shift; }
[[ $# == 1 && "$1" != -* ]] || { echo "usage: scripts/package.sh [--twice] OUT" >&2; exit 2; }
mkdir -p "$1"
out="$(realpath "$1")"
# shellcheck disable=SC2086
fk_need_packages $fk_build_packages $fk_library_packages $fk_packaging_packages
cd "$fk_root"
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" || { echo "package.sh: set SOURCE_DATE_EPOCH, as this tree has no git" >&2; exit 2; }
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C.UTF-8
umask 022
version="$(sed -n 's/^project(fk_host VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"
arch="$(dpkg --print-architecture)"
# shellcheck disable=SC1091
distribution="$(. /etc/os-release && echo "$ID$VERSION_ID")"
revision="$version-1~$distribution"

# build WORK cpu|cuda: compiles WORK/src in WORK/build-KIND and installs it below WORK/KIND. No path of WORK gets into a file.
build() {
  local work="$1" kind="$2" map="-ffile-prefix-map=$1=." cuda=OFF
  [[ $kind != cuda ]] || cuda=ON
  echo "building $kind in $work" >&2
  export CCACHE_BASEDIR="$work" CCACHE_NOHASHDIR=1
  # The linker strips: the host reads no symbols of its own, and the unstripped files are twice as large.
  cmake -S "$work/src" -B "$work/build-$kind" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=lib \
    -DBUILD_TESTING=OFF -DFK_CUDA=$cuda -DFK_UNITY=48 -DCMAKE_C_FLAGS="$map" -DCMAKE_CXX_FLAGS="$map" -DCMAKE_CUDA_FLAGS="-Xcompiler=$map" \
    -DCMAKE_EXE_LINKER_FLAGS=-s -DCMAKE_MODULE_LINKER_FLAGS=-s >"$work/log" || { cat "$work/log" >&2; exit 3; }
  fk_ninja "$work/build-$kind" "$work/log" fk-host fk_providers || { tail -40 "$work/log" >&2; exit 3; }
  rm -rf "${work:?}/$kind"
  DESTDIR="$work/$kind" cmake --install "$work/build-$kind" --component host >/dev/null
  [[ $kind != cpu ]] || DESTDIR="$work/cpu-libraries" cmake --install "$work/build-$kind" --component libraries >/dev/null
  find "$work/$kind/usr/share/man" -name '*.1' -exec gzip -9n {} +
}

# papers ROOT PACKAGE WORK KIND: licences, notices and the SBOM of the files below ROOT, in ROOT/share/doc/PACKAGE.
papers() {
  local doc="$1/share/doc/$2"
  mkdir -p "$doc"
  cp "$here/copyright" "$doc/copyright"
  "$here/sbom.py" --build "$3/build-$4" --root "$1" --name "$2" --version "$version" --distribution "$distribution" \
    --notices "$doc/third-party" >"$3/sbom.json"
  mv "$3/sbom.json" "$doc/sbom.spdx.json"
  cp LICENSE CHANGELOG.md "$doc/"
}

# archive ROOT NAME WORK: packs ROOT as NAME.tar.xz. Order, owners and times are fixed.
archive() {
  find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  tar -C "$1" --sort=name --owner=0 --group=0 --numeric-owner --format=gnu --transform "flags=r;s,^\.,$2," -cf - . | xz -T1 -6 >"$3/$2.tar.xz"
}

# deb ROOT PACKAGE WORK: ROOT is what lies below /usr.
deb() {
  local doc="$1/share/doc/$2"
  rm "$doc/LICENSE"  # Debian has it in common-licenses
  gzip -9n <"$doc/CHANGELOG.md" >"$doc/changelog.gz"
  rm "$doc/CHANGELOG.md"
  printf '%s (%s) unstable; urgency=medium\n\n  * Release %s: see changelog.gz.\n\n -- fk-host developers <fk-host@localhost>  %s\n' \
    fk-host "$revision" "$version" "$(date -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.Debian.gz"
  if [[ -f "$here/$2.lintian-overrides" ]]; then
    mkdir -p "$1/share/lintian/overrides"
    cp "$here/$2.lintian-overrides" "$1/share/lintian/overrides/$2"
  fi
  find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  (cd "$3" && FK_PACKAGE="$2" FK_ROOT="$1" FK_REVISION="$revision" FK_ARCH="$arch" cpack --config "$here/deb.cmake" >"$3/log") ||
    { cat "$3/log" >&2; exit 3; }
}

# packages WORK: builds all packages of WORK/src in WORK.
packages() {
  local work="$1" kind name root
  for kind in cpu $([[ "${FK_CUDA:-OFF}" != ON ]] || echo cuda); do
    build "$work" $kind
    name=fk-host
    if [[ $kind == cuda ]]; then
      name=fk-host-cuda
      # Files of fk-host stay out.
      (cd "$work/cuda/usr" && find . -type f -exec cmp -s {} "$work/cpu/usr/{}" \; -delete && find . -type d -empty -delete)
    fi
    root="$work/tree/$name"
    rm -rf "$root"
    mkdir -p "$work/tree"
    cp -a "$work/$kind/usr" "$root"
    [[ $kind != cpu ]] || cp -a "$work/cpu-libraries/usr/lib/fk-host/lib" "$root/lib/fk-host/"
    papers "$root" "$name" "$work" $kind
    archive "$root" "$name-$version-linux-$(uname -m)" "$work"
    papers "$work/$kind/usr" "$name" "$work" $kind
    deb "$work/$kind/usr" "$name" "$work"
  done
  (cd "$work/src" && /usr/bin/python3 -m hatchling build -t wheel -d "$work" >/dev/null)
}

# sources WORK: the files of this tree that git knows, and fetched headers of CUDA providers.
sources() {
  rm -rf "${1:?}/src"
  mkdir -p "$1/src"
  git ls-files -z | tar --null -T - -cf - | tar -C "$1/src" -xf -
  [[ "${FK_CUDA:-OFF}" != ON ]] || cp external/*.tar.xz "$1/src/external/" 2>/dev/null || true
}

work="$fk_root/build-package/first"
sources "$work"
packages "$work"
if ((twice)); then
  again="$(mktemp -d)"
  sources "$again"
  CCACHE_DISABLE=1 packages "$again"
  for file in "$work"/*.deb "$work"/*.tar.xz "$work"/*.whl; do
    cmp "$file" "$again/${file##*/}" || { echo "package.sh: two builds of ${file##*/} differ; the second one is in $again" >&2; exit 1; }
    echo "equal bytes: ${file##*/}" >&2
  done
  rm -rf "$again"
fi
rm -f "$out"/fk_host*.whl "$out"/fk-host*
cp "$work"/*.deb "$work"/*.tar.xz "$work"/*.whl "$out/"
cp "$work/tree/fk-host/share/doc/fk-host/sbom.spdx.json" "$out/fk-host-$version.spdx.json"
(cd "$out" && sha256sum fk[-_]host* >SHA256SUMS && cat SHA256SUMS)
