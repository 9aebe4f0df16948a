# Packages, in dist/; read by ./dev, whose functions it uses. The program is compiled by the compiler of PyPI's ziglang, which links with the C
# library of an older system (glibc 2.28) or with musl, statically, and for other machines than this one; what it links is compiled with it, from
# Debian's sources. Equal commits give equal bytes: no time but the commit's and no name of a folder is in them.

package_targets=(x86_64-linux-gnu.2.28 aarch64-linux-gnu.2.28 x86_64-linux-musl aarch64-linux-musl)
package_folder=build/package
# Debian's name of a source, its folder here, its licence, where the licence's text is, its version, and the SHA-256 of its .dsc, which has those of
# its files.
package_sources=(
  'zlib zlib Zlib LICENSE 1:1.2.13.dfsg-1 3fa1e6b2fc525062aa88207dda52fed8e045373c809d362fe8a2bfbf7cf515a8'
  'libzstd zstd BSD-3-Clause LICENSE 1.5.4+dfsg2-5 8f602f92b575aa8b5e979196fb6ee82d78f233521dc9636526d3ecba1f63c1b1'
  'xxhash xxhash BSD-2-Clause LICENSE 0.8.1-1 4a961627c06efc8fa3bc4b06ee9dba6cfaf092f2550b88d63e9218a2728721b4'
  'cli11 CLI11 BSD-3-Clause LICENSE 2.1.2+ds-1 bb685eff351ca4fb77cf194f5ffb80e47f96989fc200f21241eb9eb320cfbc9c'
  'nlohmann-json3 nlohmann_json MIT LICENSE.MIT 3.11.2-2 70bec2cd47a992e0fcf5b92d820d264b871c15278cce68edcc05dbb579d795a0'
  'curl curl curl COPYING 7.88.1-10+deb12u15 2744f12e3aef161c0361743fa1b318296b122e566e47f381e4a63320fbcc23f4'
  'openssl openssl Apache-2.0 LICENSE.txt 3.0.20-1~deb12u2 a614474a2773c23b10c0d65f4eccbcf93fdac4749afb7c26d76e1b0340154d3d'
)
# TLS 1.2 and 1.3 for curl, SHA-256, HMAC and keys in PEM, at Debian's level of security. The configuration of a system's own OpenSSL is not read: it
# may speak of what is left out here.
openssl_options=(
  no-shared no-module no-dso no-engine no-legacy no-tests no-ui-console no-deprecated no-comp no-dtls no-ssl3 no-tls1 no-tls1_1 no-ssl-trace
  no-async no-srp no-psk no-srtp no-nextprotoneg no-ct no-ocsp no-ts no-cms no-cmp no-rfc3779 no-aria no-bf no-blake2 no-camellia no-cast no-des
  no-dsa no-idea no-md4 no-mdc2 no-rc2 no-rc4 no-rmd160 no-scrypt no-seed no-siphash no-siv no-sm2 no-sm3 no-sm4 no-whirlpool no-gost no-ec2m
  enable-ec_nistp_64_gcc_128 --prefix=/nowhere --openssldir=/nowhere -DOPENSSL_TLS_SECURITY_LEVEL=2 -ffunction-sections -fdata-sections
  -fstack-protector-strong
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
  local all=$package_folder/third-party new=$package_folder/third-party.new mirror apt source name licence text version sum dsc
  [ "$(cat "$all/sources" 2>/dev/null || true)" != "${package_sources[*]}" ] || return 0
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
    read -r source name licence text version sum <<<"$source"
    dsc=${source}_${version#*:}.dsc
    (cd "$new/apt" && "${apt[@]}" source --download-only "$source=$version" && echo "$sum  $dsc" | sha256sum -c - &&
      dpkg-source --no-check --no-copy -x "$dsc" "../$name") >"$package_folder/log" 2>&1 || { cat "$package_folder/log"; exit 1; }
    cp "$new/$name/$text" "$new/licenses/$name.txt"
    printf '%s\t%s\t%s\t%s\n' "$name" "$version" "$licence" "$source" >>"$new/versions"
  done
  echo "${package_sources[*]}" >"$new/sources"
  rm -rf "$new/apt" "$all"
  mv "$new" "$all"
}

# In build/package/openssl-TARGET: headers, libcrypto.a, libssl.a.
package_openssl() {  # TARGET ZIG
  local at=$package_folder/openssl-$1 made
  made="$(cat "$package_folder/venv/installed") ${package_sources[*]} ${openssl_options[*]}"
  [ "$(cat "$at/made" 2>/dev/null || true)" != "$made" ] || return 0
  say "OpenSSL for $1"
  cmake -DDCPCTL_ZIG="$2" -DDCPCTL_TARGET="$1" -P cmake/zig.cmake  # the compiler's names
  rm -rf "$at"
  cp -r "$package_folder/third-party/openssl" "$at"
  # By its name alone: the library says what compiled it, and when.
  (PATH=$PWD/$package_folder/tools-$1:$PATH && cd "$at" && export SOURCE_DATE_EPOCH=0 &&
    ./Configure "linux-${1%%-*}" CC=cc AR=ar RANLIB=ranlib "${openssl_options[@]}" &&
    make -j "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" build_libs) >"$package_folder/log" 2>&1 || { tail -n 50 "$package_folder/log"; exit 1; }
  echo "$made" >"$at/made"
}

package_of() {  # TARGET
  local target=$1 zig build=$package_folder/$1 machine=${1%%-*} link=-s net=ON version
  zig=$(echo "$PWD/$package_folder"/venv/lib/python3*/site-packages/ziglang/zig)
  version=$(sed -n 's/^project(dcpctl VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  package_notices "$target" "$version" "$(dirname "$zig")"
  case $target in
    *gnu*) package_openssl "$target" "$zig" ;;
    *musl) link='-s -static' net=OFF ;;  # which opens no modules
  esac
  say "package for $target"
  # Not the settings of a wheel, which the last call may have left.
  cmake -S . -B "$build" -G Ninja -U 'SKBUILD*' -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/zig.cmake" -DDCPCTL_ZIG="$zig" \
    -DDCPCTL_TARGET="$target" -DDCPCTL_THIRD_PARTY="$PWD/$package_folder/third-party" -DDCPCTL_NOTICES="$PWD/$package_folder/notices-$target" \
    -DDCPCTL_TOGETHER=ON -DDCPCTL_WITH_TORCH=OFF -DDCPCTL_WITH_CUDA=OFF -DDCPCTL_WITH_NET=$net -DCMAKE_INSTALL_PREFIX=/usr \
    -DOPENSSL_ROOT_DIR="$PWD/$package_folder/openssl-$target" -DOPENSSL_USE_STATIC_LIBS=ON \
    -DCMAKE_EXE_LINKER_FLAGS="$link" -DCMAKE_SHARED_LINKER_FLAGS=-s -DCMAKE_MODULE_LINKER_FLAGS=-s \
    >"$package_folder/log" 2>&1 || { cat "$package_folder/log"; exit 1; }
  cmake --build "$build" --target dcpctl dcpctl_modules
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
  cp "$3/lib/libcxx/LICENSE.TXT" "$at/licenses/libc++.txt"
  cp "$3/lib/libcxxabi/LICENSE.TXT" "$at/licenses/libc++abi.txt"
  cp "$3/lib/libunwind/LICENSE.TXT" "$at/licenses/libunwind.txt"
  cp "$3/LICENSE" "$at/licenses/compiler_rt.txt"
  case $1 in
    *musl)
      cp "$3/lib/libc/musl/COPYRIGHT" "$at/licenses/musl.txt"
      rm "$at"/licenses/{curl,openssl}.txt
      ;;
    *) cat "$3/lib/libc/glibc/LICENSES" /usr/share/common-licenses/LGPL-2.1 >"$at/licenses/glibc.txt" ;;
  esac
  python3 cmake/sbom.py "$2" "$(git rev-parse HEAD)" "$1" "$package_folder/third-party" "$3" >"$at/dcpctl.cdx.json"
}

package_deb() {  # BUILD
  (cd "$1" && umask 022 && cpack -G DEB -B packed) >"$package_folder/log" 2>&1 || { cat "$package_folder/log"; exit 1; }
  local deb tree=$1/unpacked
  deb=$(echo "$1"/packed/*.deb)
  rm -rf "$tree"
  dpkg-deb -R "$deb" "$tree"
  # CPack counts folders too, whose size is the file system's; and Debian's zsh looks for completions elsewhere.
  mv "$tree"/usr/share/zsh/{site-functions,vendor-completions}
  sed -i 's:zsh/site-functions:zsh/vendor-completions:' "$tree/DEBIAN/md5sums"
  sed -i "s/^Installed-Size: .*/Installed-Size: $(find "$tree/usr" -type f -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')/" \
    "$tree/DEBIAN/control"
  find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zgzip -b "$tree" "dist/${deb##*/}" >/dev/null
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
