#!/usr/bin/env bash
# What ./dev package has made is installed as its user would, and run.
#   try.sh wheel DIST      by the lines of README.md, in an empty environment of Python
#   try.sh tarball DIST    in an empty root, with nothing but the program and a checkpoint
#   try.sh aarch64 DIST ROOT  what is for aarch64, under qemu; ROOT: what an arm64 Debian has, and its Python
#   try.sh deb DEB         in a bare Debian, as root: installed, run, removed
#   try.sh bare WHEEL      in a bare Debian, as root, with its Python and no compiler
#   try.sh c10d DIST VENV  the modules of several ranks, built against the torch of a copy of VENV; two ranks
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
ckpt=$here/tests/data/fsdp2_ws4/ckpt
[ -n "${STORE:-}" ] || exec "$here/tests/packages/store.py" "$0" "$@"  # what is read over the network
export no_proxy=127.0.0.1
unset CURL_CA_BUNDLE  # goes before SSL_CERT_FILE
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

wrong() { echo "FAILED: $*" >&2; exit 1; }
same() { [ "$1" = "$2" ] || wrong "$3: '$1' and not '$2'"; }

# What every package's program must do. PROGRAM: words, since another processor's stands behind qemu.
works() {  # CKPT OUT PROGRAM...
  local ckpt=$1 out=$2 said
  shift 2
  said=$("$@" --version)
  [[ $said == dcpctl\ * && $said == *commit\ * && $said == *compiler:\ Clang* && $said == *modules:\ * ]] || wrong "--version says: $said"
  said=$("$@" inspect "$ckpt")
  [[ $said == *"model: 15 tensors, 8,298 parameters"* ]] || wrong "inspect says: $said"
  "$@" consolidate "$ckpt" "$out/model.safetensors" --model-only -q --force
  "$@" diff "$ckpt" "$out/model.safetensors" --model-only -q || wrong "what was written differs"
}

# Over the network, by the module that is in the package. Trusted is CERTIFICATE, or in a system of its own what lies there.
reads_stores() {  # CKPT PROGRAM...
  local ckpt=$1 at
  shift
  for at in $STORE; do
    SSL_CERT_FILE=${CERTIFICATE:-} "$@" diff "$ckpt" "$at/fsdp2_ws4/ckpt" -q || wrong "what is read from $at differs"
  done
}

# What can be seen of a library.
names_in() { nm -D --defined-only "$1" | awk '{ print $3 }' | sort; }

# The package's own tests, over the wheel that PYTHON has.
package_tests() {  # PYTHON NAME...
  local python=$1 name
  shift
  for name in "$@"; do
    PYTHONDONTWRITEBYTECODE=1 "$python" "$here/tests/python/$name.py" >"$scratch/log" 2>&1 || { cat "$scratch/log"; wrong "tests/python/$name.py, over the wheel"; }
  done
}

# Pythons that the wheel is for, each once.
every_python() {
  local python
  mapfile -t pythons < <(for python in "$HOME"/.pyenv/versions/3.*/bin/python3 "$(command -v python3)"; do
    "$python" -c 'import os, sys; sys.version_info < (3, 9) or print(os.path.realpath(sys.executable))' 2>/dev/null || true
  done | sort -u)
  [ ${#pythons[@]} -gt 0 ] || wrong "no Python from 3.9 on"
}

wheel() {
  local wheel bin bytes lines pythons
  wheel=$(echo "$1"/dcpctl-*x86_64.whl)
  bytes=$(stat -c %s "$wheel")
  [ "$bytes" -lt 6000000 ] || wrong "$wheel has $bytes bytes"
  # The first lines of README.md's Install, but for the one that has made DIST.
  lines=$(awk '/^## / { there = $2 == "Install" } there && /^    / { seen = 1; print; next } seen { exit }' "$here/README.md")
  [[ $lines == *'./dev package '* && $lines == *'pip install '*' dcpctl'* ]] || wrong "README.md installs by: $lines"
  ln -s "$(realpath "$1")" "$scratch/dist"
  (cd "$scratch" && bash -euo pipefail -c "$(grep -v '^ *\./dev package ' <<<"$lines")")
  bin=$scratch/venv/bin/dcpctl
  same "$(head -c 4 "$bin" | od -An -c | tr -d ' ')" '177ELF' "the installed program begins with"
  works "$ckpt" "$scratch" "$bin"
  reads_stores "$ckpt" "$bin"
  package_tests "$scratch/venv/bin/python" package malformed
  every_python
  "$here/tests/packages/places.py" "$wheel" "${pythons[@]}"
  same "$(names_in "$bin")" \
    "$(grep -oP '^DCPCTL_API [^;(]*?\bdcpctl_\w+(?=\()' "$here/include/dcpctl/c.h" | sed 's/.*[ *]//' | sort)" "the program, which is the library, shows"
  same "$(names_in "$scratch/venv/libexec/dcpctl/libdcpctl_net.so")" dcpctl_net "the module for stores shows"
  ! "$bin" inspect "${STORE#* }/fsdp2_ws4/ckpt" >/dev/null 2>&1 || wrong "a certificate of nobody is trusted"
  same "$("$scratch/venv/bin/pip" show dcpctl | sed -n 's/^Requires: *//p')" "" "the wheel requires"
  [ -f "$scratch/venv/share/man/man1/dcpctl-inspect.1" ] || wrong "no manual page"
  "$scratch/venv/bin/python" - <<'PYTHON'
import importlib.metadata, json
files = {str(f): f for f in importlib.metadata.files("dcpctl")}
sbom = next(f for name, f in files.items() if name.endswith("sboms/dcpctl.cdx.json"))
bom = json.loads(sbom.read_text())
assert bom["bomFormat"] == "CycloneDX", bom
linked = {"zlib", "zstd", "xxhash", "CLI11", "nlohmann_json", "curl", "openssl", "libc++", "libc++abi", "libunwind", "compiler_rt"}
assert {c["name"] for c in bom["components"]} == linked | {"glibc start files"}, bom["components"]
for name in ("LICENSE", "glibc.txt", *(f"{part}.txt" for part in linked)):
    assert any(f.endswith("/licenses/" + name) for f in files), f"no licence {name}"
PYTHON
  "$scratch/venv/bin/pip" uninstall -q -y dcpctl
  [ ! -e "$bin" ] || wrong "the program stays"
  "$scratch/venv/bin/pip" install -q uv
  works "$ckpt" "$scratch" env UV_CACHE_DIR="$scratch/uv" "$scratch/venv/bin/uvx" -q --no-index --find-links "$scratch/dist" dcpctl
  echo "wheel: $bytes bytes"
}

tarball() {
  local root=$scratch/root said code
  mkdir -p "$root/data"
  tar -xzf "$1"/dcpctl-*-linux-x86_64.tar.gz -C "$scratch"
  cp "$scratch"/dcpctl-*/bin/dcpctl "$root/"
  cp -r "$ckpt" "$root/data/ckpt"
  if [ "$(id -u)" = 0 ]; then
    said=$(chroot "$root" /dcpctl inspect /data/ckpt)  # no C library, no /proc
    [[ $said == *"model: 15 tensors, 8,298 parameters"* ]] || wrong "in an empty root inspect says: $said"
  fi
  works "$ckpt" "$scratch" "$root/dcpctl"
  said=$("$root/dcpctl" inspect "${STORE% *}/none" 2>&1) && code=0 || code=$?
  same "$code" 5 "of a store the static program's exit code is"
  [[ $said == *"libdcpctl_net.so: a required module is missing"*"hint: it needs the program of a wheel or a .deb"* ]] || wrong "of a store the static program says: $said"
  [ -f "$scratch"/dcpctl-*/share/man/man1/dcpctl-inspect.1 ] || wrong "no manual page in the tarball"
  echo "tarball: well"
}

aarch64() {
  local wheel bin root=$2 run=(qemu-aarch64-static -L "$2")
  wheel=$(echo "$1"/dcpctl-*aarch64.whl)
  [ "$(stat -c %s "$wheel")" -lt 6000000 ] || wrong "$wheel has $(stat -c %s "$wheel") bytes"
  python3 -m zipfile -e "$wheel" "$scratch/unpacked"
  bin=$(echo "$scratch"/unpacked/*.data/scripts/dcpctl)
  chmod +x "$bin"
  ln -s data/libexec "${bin%/scripts/dcpctl}/libexec"  # as in an environment
  works "$ckpt" "$scratch" "${run[@]}" "$bin"
  reads_stores "$ckpt" "${run[@]}" "$bin"
  printf '#!/bin/sh\nexec %s "$@"\n' "${run[*]} $bin" >"$scratch/program"
  chmod +x "$scratch/program"
  PYTHONPATH=$scratch/unpacked DCPCTL_LIBRARY=$bin DCPCTL_PROGRAM=$scratch/program "${run[@]}" "$(echo "$root"/usr/bin/python3.*[0-9])" - "$ckpt" <<'PYTHON'
import platform, sys
import dcpctl
assert platform.machine() == "aarch64"
ck = dcpctl.open(sys.argv[1])
assert (len(ck), len(ck["model.norm.weight"].read())) == (67, 72), ck
assert dcpctl.verify(sys.argv[1]).is_sound
PYTHON
  tar -xzf "$1"/dcpctl-*-linux-aarch64.tar.gz -C "$scratch"
  works "$ckpt" "$scratch" qemu-aarch64-static "$scratch"/dcpctl-*-linux-aarch64/bin/dcpctl
  dpkg-deb -x "$1"/dcpctl_*_arm64.deb "$scratch/deb"
  works "$ckpt" "$scratch" "${run[@]}" "$scratch/deb/usr/bin/dcpctl"
  reads_stores "$ckpt" "${run[@]}" "$scratch/deb/usr/bin/dcpctl"
  echo "aarch64: well"
}

deb() {
  dpkg -i "$1" >/dev/null
  works "$ckpt" "$scratch" dcpctl
  reads_stores "$ckpt" dcpctl
  local file
  for file in share/man/man1/dcpctl-inspect.1 share/man/man7/dcpctl-maps.7 share/bash-completion/completions/dcpctl share/doc/dcpctl/copyright \
    share/zsh/vendor-completions/_dcpctl share/fish/vendor_completions.d/dcpctl.fish; do
    dpkg -L dcpctl | grep -qx "/usr/$file" || wrong "the package has no /usr/$file"
  done
  dpkg -r dcpctl >/dev/null
  [ ! -e /usr/bin/dcpctl ] || wrong "the program stays"
  echo "deb: well in $(. /etc/os-release && echo "$PRETTY_NAME")"
}

bare() {
  {
    apt-get -q update
    DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends python3-venv python3-pip
  } >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
  ! command -v cc || wrong "there is a compiler"
  "$here/tests/packages/places.py" "$1" "$(command -v python3)"
}

c10d() {
  local venv=$scratch/venv bin=$scratch/venv/bin/dcpctl rank ranks=() port said
  cp -al "$(realpath "$2")" "$venv" 2>/dev/null || { rm -rf "$venv"; cp -a "$(realpath "$2")" "$venv"; }  # links, where both are on one disk
  # As README.md says, but for `pip` itself, which knows the folder that it was made in.
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps --no-index --find-links "$1" dcpctl
  package_tests "$venv/bin/python" reader reader_contract writer memory
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps "$1"/dcpctl_c10d-*.tar.gz
  said=$("$bin" --version)
  [[ $said == *"modules: c10d"* ]] || wrong "--version says: $said"
  port=$("$venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$bin" consolidate "$ckpt" "$scratch/two.safetensors" --model-only -q &
    ranks+=($!)
  done
  for rank in "${ranks[@]}"; do wait "$rank" || wrong "a rank ended with $?"; done
  "$bin" diff "$ckpt" "$scratch/two.safetensors" --model-only -q || wrong "what two ranks wrote differs"
  echo "c10d: well"
}

what=$1
shift
"$what" "$@"
