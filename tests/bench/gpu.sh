#!/usr/bin/env bash
# Everything that needs a GPU, in one run of less than ten minutes: builds dcpctl with its CUDA module, then measures it beside a bare
# cudaMemcpyAsync loop and beside torch's own staging, looks at all GPUs, the link and NCCL, and tests the module on the GPU where the unit tests
# are built.
#
#   tests/bench/gpu.sh [FOLDER]        results (gpu.json, gpu.md, staging.html, modes.html) go to FOLDER, by default build/gpu
#
# Needs an NVIDIA driver, the CUDA Toolkit with nvcc, and what `./dev build` needs. PYTHON names a Python with torch and CUDA (default:
# .venv/bin/python, else python3); without torch its rows are left out, and said to be; what NCCL does needs the LibTorch of TORCH (a Python of
# torch 2.11), which is built with. BUILD names a build folder to use as it is.
set -euo pipefail
cd "$(dirname "$0")/../.."

out=${1:-build/gpu}
mkdir -p "$out"
build=${BUILD:-build/gpu-release}
if [ -z "${BUILD:-}" ]; then
  with_torch=OFF
  [ -z "${TORCH:-}" ] || with_torch=ON
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDCPCTL_WITH_CUDA=ON -DDCPCTL_WITH_TORCH=$with_torch ${TORCH:+"-DTorch_ROOT=$TORCH"}
  cmake --build "$build" --target dcpctl modules bench_bare_memcpy
fi
python=${PYTHON:-.venv/bin/python}
[ -x "$python" ] || python=python3
if [ -x "$build/tests/unit/staging/unit_staging" ]; then "$build/tests/unit/staging/unit_staging" "*CUDA module*,a GPU copies*"; fi
exec "$python" tests/bench/gpu.py --build "$build" --out "$out"
