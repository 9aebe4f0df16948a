# Packages, in dist/; read by ./dev, whose functions it uses. The program is compiled by the compiler of PyPI's ziglang, which links with the C
# library of an older system (glibc 2.28) or with musl, statically, and for other machines than this one; what it links is compiled with it, from
# Debian's sources. Equal commits give equal bytes: no time but the commit's and no name of a folder is in them.

package_targets=(x86_64-linux-gnu.2.28 aarch64-linux-gnu.2.28 x86_64-linux-musl aarch64-linux-musl)
package_folder=build/package
# Debian's name of a source, its folder here, its licence and where the licence's text is.
package_sources=(
  'zlib zlib Zlib LICENSE'
  'libzstd zstd BSD-3-Clause LICENSE'
  'xxhash xxhash BSD-2-Clause LICENSE'
  'cli11 CLI11 BSD-3-Clause LICENSE'
  'nlohmann-json3 nlohmann_json MIT LICENSE.MIT'
)

package_help() {
  cat <<TEXT
./dev package [TARGET...]: dist/ with a wheel and a .deb for each gnu target, a tarball for each musl target, and SHA256SUMS. Needs Debian.
targets: ${package_targets[*]}
Without one, those of this machine; all: every one.
TEXT
}

package() {
  local target
  case $* in
    all) set -- "${package_targets[@]}" ;;
    '') set -- "$(uname -m)-linux-gnu.2.28" "$(uname -m)-linux-musl" ;;
  esac
  for target in "$@"; do
    [[ " ${package_targets[*]} " == *" $target "* ]] || { package_help; exit 2; }
  done
  install_packages cmake ninja-build g++ python3 python3-venv dpkg-dev git
  mkdir -p dist "$package_folder"
  venv "$package_folder/venv" ziglang==0.16.0 scikit-build-core==1.1.2 build==1.6.1 auditwheel==6.8.2
  package_third_party
  # What a package's files were changed: when the commit was made.
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  export SOURCE_DATE_EPOCH
  rm -rf dist/*
  for target in "$@"; do package_of "$target"; done
  package_modules
  (cd dist && sha256sum -- * >../"$package_folder/SHA256SUMS" && mv ../"$package_folder/SHA256SUMS" .)
  ls -l dist
}

# Sources of what is linked, as the oldest Debian that is supported has them.
package_third_party() {
  local all=$package_folder/third-party new=$package_folder/third-party.new mirror apt source name licence text
  [ ! -d "$all" ] || return 0
  mirror=$(debian_mirror)
  rm -rf "$new"
  mkdir -p "$new"/{apt/sources,apt/lists/partial,licenses}
  printf 'Types: deb-src\nURIs: %s\nSuites: bookworm\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' \
    "$mirror" >"$new/apt/sources/debian.sources"
  apt=(apt-get -q -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$PWD/$new/apt/sources" -o "Dir::State::Lists=$PWD/$new/apt/lists"
    -o APT::Sandbox::User=)
  say "sources of ${package_sources[*]%% *}"
  "${apt[@]}" update >"$package_folder/log" 2>&1 || { cat "$package_folder/log"; exit 1; }
  for source in "${package_sources[@]}"; do
    read -r source name licence text <<<"$source"
    (cd "$new/apt" && "${apt[@]}" source "$source") >"$package_folder/log" 2>&1 || { cat "$package_folder/log"; exit 1; }
    mv "$new"/apt/"$source"-*/ "$new/$name"
    cp "$new/$name/$text" "$new/licenses/$name.txt"
    printf '%s\t%s\t%s\t%s\n' "$name" "$(sed -n 's/^Version: //p' "$new"/apt/"$source"_*.dsc | head -n 1)" "$licence" "$source" >>"$new/versions"
  done
  rm -rf "$new/apt"
  mv "$new" "$all"
}

package_of() {  # TARGET
  local target=$1 zig build=$package_folder/$1 machine=${1%%-*} link=-s version
  zig=$(echo "$PWD/$package_folder"/venv/lib/python3*/site-packages/ziglang/zig)
  version=$(sed -n 's/^project(dcpctl VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  package_notices "$target" "$version" "$(dirname "$zig")"
  case $target in *musl) link='-s -static' ;; esac
  say "package for $target"
  # Not the settings of a wheel, which the last call may have left.
  cmake -S . -B "$build" -G Ninja -U 'SKBUILD*' -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/zig.cmake" -DDCPCTL_ZIG="$zig" \
    -DDCPCTL_TARGET="$target" -DDCPCTL_THIRD_PARTY="$PWD/$package_folder/third-party" -DDCPCTL_NOTICES="$PWD/$package_folder/notices-$target" \
    -DDCPCTL_TOGETHER=ON -DDCPCTL_WITH_TORCH=OFF -DDCPCTL_WITH_CUDA=OFF -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_PREFIX=/usr \
    -DCMAKE_EXE_LINKER_FLAGS="$link" >"$package_folder/log" 2>&1 || { cat "$package_folder/log"; exit 1; }
  cmake --build "$build" --target dcpctl
  case $target in
    *gnu*)
      package_deb "$build"
      package_wheel "$build" "$machine" "${target##*gnu.}"
      ;;
    *musl) package_tarball "$build" "dcpctl-$version-linux-$machine" ;;
  esac
  cp "$package_folder/notices-$target/dcpctl.cdx.json" "dist/dcpctl-$version-${target//[^a-z0-9_]/-}.cdx.json"
}

package_notices() {  # TARGET VERSION ZIG-FOLDER
  local at=$package_folder/notices-$1
  rm -rf "$at"
  mkdir -p "$at"
  cp -r "$package_folder/third-party/licenses" "$at/"
  cp "$3/lib/libcxx/LICENSE.TXT" "$at/licenses/llvm.txt"
  case $1 in *musl) cp "$3/lib/libc/musl/COPYRIGHT" "$at/licenses/musl.txt" ;; esac
  python3 cmake/sbom.py "$2" "$(git rev-parse HEAD)" "$1" "$package_folder/third-party" "$("$3/zig" version)" >"$at/dcpctl.cdx.json"
}

package_deb() {  # BUILD
  (cd "$1" && umask 022 && cpack -G DEB -B packed) >"$package_folder/log" 2>&1 || { cat "$package_folder/log"; exit 1; }
  mv "$1"/packed/*.deb dist/
}

package_wheel() {  # BUILD MACHINE GLIBC
  local tag=manylinux_${3/./_}_$2 python=$package_folder/venv/bin/python verdict needs wheel
  (umask 022 && PATH=$PWD/$package_folder/venv/bin:$PATH "$python" -m build --wheel --no-isolation --outdir dist -Cbuild-dir="$1" -Cinstall.strip=false \
    -Cwheel.tags="py3-none-$tag") >"$package_folder/log" 2>&1 || { cat "$package_folder/log"; exit 1; }
  wheel=$(echo dist/dcpctl-*"-$tag.whl")
  # What it needs of the system's libraries is what its name promises, or older.
  verdict=$("$package_folder/venv/bin/auditwheel" show "$wheel")
  needs=$(tr -s '\n ' ' ' <<<"$verdict" | sed -n 's/.*following platform tag: "manylinux_\([0-9]*_[0-9]*\)_.*/\1/p')
  say "auditwheel: manylinux_$needs"
  [ -n "$needs" ] && printf '%s\n' "${needs/_/.}" "$3" | sort -CV || { echo "$verdict"; exit 1; }
}

package_tarball() {  # BUILD NAME
  rm -rf "$1/packed"
  (umask 022 && DESTDIR="$PWD/$1/packed" cmake --install "$1" --prefix "/$2") >"$package_folder/log" 2>&1 || { cat "$package_folder/log"; exit 1; }
  tar -C "$1/packed" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "$2" | gzip -9n >"dist/$2.tar.gz"
}

# The modules of several ranks, as source that pip builds against the torch beside it.
package_modules() {
  local at=$package_folder/dcpctl_c10d
  rm -rf "$at"
  mkdir -p "$at/src"
  cp -r CMakeLists.txt LICENSE cmake src/modules/c10d/pyproject.toml "$at/"
  cp -r src/modules "$at/src/"
  "$package_folder/venv/bin/python" -m build --sdist --no-isolation --outdir dist "$at" >"$package_folder/log" 2>&1 || { cat "$package_folder/log"; exit 1; }
}
