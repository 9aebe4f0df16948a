#!/usr/bin/env python3
"""Installs the library into an empty folder, builds the examples against it as a project of their own, and runs them; also by pkg-config, and with
the sources as a part of another project.

    installed.py BUILD DCPCTL SOURCE COMPILER TORCH LIBTORCH OBJECT

LIBTORCH is the folder of the LibTorch that the training example is linked with, OBJECT that example, compiled; TORCH is the socket of a process that has
imported the torch that loads what it saved (tests/torch/resident.py). Any may be "": then only what needs no LibTorch is tried.
"""
import filecmp
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LOAD = """
import sys, torch, torch.distributed.checkpoint as dcp
folder = sys.argv[1]
for step in (2, 4, 6):
    at_call = dict(torch.jit.load(f"{folder}/step-{step}.pt").named_parameters())
    loaded = {"model": {key: torch.full_like(value, 7) for key, value in at_call.items()}}
    dcp.load(loaded, checkpoint_id=f"{folder}/step-{step}", no_dist=True)
    assert set(at_call) == {"0.weight", "0.bias", "2.weight", "2.bias"}, set(at_call)
    for key, value in at_call.items():
        assert loaded["model"][key].view(torch.int32).equal(value.detach().view(torch.int32)), (step, key)
    metadata = dcp.FileSystemReader(f"{folder}/step-{step}").read_metadata()
    assert metadata.planner_data["model.0.weight"] == ("model", "0.weight"), metadata.planner_data
    properties = metadata.state_dict_metadata["model.0.weight"].properties
    assert properties.requires_grad and properties.dtype == torch.float32, properties
    if step > 2:
        assert not before.equal(at_call["0.weight"]), "the model has not changed between two saves"
    before = at_call["0.weight"]
print("as they were")
"""


LOAD_SAVED = """
import sys, torch, torch.distributed.checkpoint as dcp
loaded = {"model": {"weight": torch.zeros(1000, 8), "bias": torch.ones(8)}}
dcp.load(loaded, checkpoint_id=sys.argv[1], no_dist=True)
assert loaded["model"]["weight"].equal(torch.arange(1000.0)[:, None] + torch.arange(8.0)), loaded
assert not loaded["model"]["bias"].any(), loaded
"""


LOAD_RANKS = """
import sys, torch, torch.distributed.checkpoint as dcp
loaded = {"model": {"weight": torch.zeros(10, 4)}}
dcp.load(loaded, checkpoint_id=sys.argv[1], no_dist=True)
assert loaded["model"]["weight"].equal(torch.arange(40.0).reshape(10, 4)), loaded
"""


def save_ranks(program, checkpoint, meeting, size):
    """Processes that save together; what they end with, and what they say, by rank."""
    meeting.mkdir()
    started = [subprocess.Popen([program, checkpoint, meeting, str(r), str(size)], stderr=subprocess.PIPE, text=True) for r in range(size)]
    said = [p.communicate()[1] for p in started]
    return [p.returncode for p in started], said


def run(*command, code=0, **kwargs):
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kwargs)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}, expected {code}\n{done.stdout}")
    return done.stdout


PROJECT = """cmake_minimum_required(VERSION 3.25)
project(around LANGUAGES CXX)
add_subdirectory(${SOURCE} dcpctl)
add_executable(read_tensor ${SOURCE}/examples/read_tensor.cc)
target_link_libraries(read_tensor PRIVATE dcpctl::dcpctl)
get_target_property(flags read_tensor LINK_OPTIONS)
message(STATUS "around: '${CMAKE_BUILD_TYPE}' '${CMAKE_CXX_FLAGS}' '${flags}' '${CMAKE_EXPORT_COMPILE_COMMANDS}'")
install(CODE "message(STATUS nothing)")
"""


def as_part_of_another(at, source, compiler):
    """Configured, not compiled: it is the same code. The project around it keeps its settings, and installs nothing of it."""
    at.mkdir()
    (at / "CMakeLists.txt").write_text(PROJECT)
    said = run("cmake", "-S", at, "-B", at / "build", f"-DSOURCE={source}", f"-DCMAKE_CXX_COMPILER={compiler}", "-DDCPCTL_WITH_TORCH=OFF", "-DDCPCTL_WITH_CUDA=OFF", "-G", "Ninja")
    assert "around: '' '' 'flags-NOTFOUND' ''" in said, said
    targets = run("cmake", "--build", at / "build", "--target", "help")
    assert "libdcpctl.so" in targets and "bench_" not in targets and "unit_" not in targets, targets
    run("cmake", "--install", at / "build", "--prefix", at / "prefix")
    assert not (at / "prefix").exists(), list((at / "prefix").rglob("*"))


def by_pkg_config(at, source, compiler):
    """Compiled in one line; the installation may have been moved."""
    if not shutil.which("pkg-config"):
        return
    folder = next((at / "prefix").rglob("dcpctl.pc")).parent
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    flags = run("pkg-config", "--cflags", "--libs", "dcpctl", env=environment).split()
    run(compiler, "-std=c++20", Path(source, "examples/read_tensor.cc"), "-o", at / "by_pkg_config", *flags, f"-Wl,-rpath,{folder.parent}")
    assert "weight" in run(at / "by_pkg_config", Path(source, "tests/data/fsdp2_ws4/ckpt"))


def ask_torch(torch, script, argument):
    """What a script prints; "" without a torch to ask."""
    if not torch:
        return ""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(script)
        file.flush()
        return run(sys.executable, "-B", Path(__file__).parent.parent / "torch/resident.py", "run", torch, file.name, argument)


def link(build, name, compiled):
    """A program of the project in `build`, of an object that was compiled elsewhere by the same headers."""
    command = run("ninja", "-C", build, "-t", "commands", name).splitlines()[-1]
    made = build / f"CMakeFiles/{name}.dir/{name}.cc.o"
    assert str(made.relative_to(build)) in command, command
    made.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(compiled, made)
    run("sh", "-c", command, cwd=build)
    return build / name


def check_names(library, header):
    """Of all that is linked in, no name can be seen but those of the headers: the functions of c.h, all of them, and what is of dcpctl in C++."""
    if not shutil.which("nm"):
        return
    names = [line.split(" ", 2)[2] for line in run("nm", "-D", "--defined-only", "-C", library).splitlines()]
    for name in names:
        if not re.match(r"(?:dcpctl::|(?:vtable|typeinfo|typeinfo name) for dcpctl::|dcpctl_)", name):
            sys.exit(f"{library} shows {name}")
    declared = set(re.findall(r"^DCPCTL_API [^;(]*?\b(dcpctl_\w+)\(", header.read_text(), re.M))
    shown = {name for name in names if name.startswith("dcpctl_")}
    assert declared == shown and 10 < len(declared) <= 40, declared ^ shown


def main(build, dcpctl, source, compiler, torch, libtorch, compiled):
    with tempfile.TemporaryDirectory(prefix="dcpctl-api-") as folder:
        at = Path(folder)
        run("cmake", "--install", build, "--component", "library", "--prefix", at / "prefix")
        check_names(next((at / "prefix").glob("lib*/**/libdcpctl.so")), at / "prefix/include/dcpctl/c.h")
        for installed in (at / "prefix").rglob("*.cmake"):
            assert str(build) not in installed.read_text(), f"{installed} names the build folder"
        by_pkg_config(at, source, compiler)
        as_part_of_another(at / "around", source, compiler)
        shutil.copytree(Path(source, "examples"), at / "examples")
        assert not filecmp.dircmp(Path(source, "include/dcpctl"), at / "prefix/include/dcpctl").diff_files, "the installed headers are others"
        prefixes = f"{at}/prefix" + (f";{libtorch}" if libtorch else "")
        configured = run("cmake", "-S", at / "examples", "-B", at / "build", f"-DCMAKE_PREFIX_PATH={prefixes}", f"-DCMAKE_CXX_COMPILER={compiler}",
                         "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF", "-G", "Ninja")
        assert "Warning" not in configured, configured
        run("cmake", "--build", at / "build", "--target", "read_tensor", "save_ranks", "read_slice", "save_tensors")

        # A tensor of a checkpoint that torch wrote, whole and in part, beside what the program says of it.
        read = at / "build/read_tensor"
        checkpoint = Path(source, "tests/data/fsdp2_ws4/ckpt")
        listed = run(read, checkpoint)
        key, dtype, *shape = next(line for line in listed.splitlines() if "weight" in line).split()
        stats = run(dcpctl, "extract", checkpoint, key, "--stats")
        assert run(read, checkpoint, key).startswith(f"{key}: {eval('*'.join(shape))} elements, "), stats
        assert run(read, checkpoint, key, 1, 2).startswith(f"{key}: {2 * eval('*'.join(['1', *shape[1:]]))} elements, ")
        assert "no such key" in run(read, checkpoint, "nothing", code=2)
        run(read, at, code=3)
        in_c = at / "build/read_slice"
        assert run(in_c, checkpoint) == listed
        assert run(in_c, checkpoint, key, 1, 2).startswith(f"{key}: {2 * eval('*'.join(['1', *shape[1:]]))} elements, sum ")
        assert "at most" in run(in_c, checkpoint, key, 1, 1 << 20, code=2)
        assert "no tensor with rows" in run(in_c, checkpoint, "nothing", 0, 1, code=2)
        run(in_c, at, code=3)

        saved = at / "saved"
        run(at / "build/save_tensors", saved)
        run(dcpctl, "verify", saved)
        assert run(in_c, saved, "model.weight", 1, 1).startswith("model.weight: 8 elements, sum 36,")
        ask_torch(torch, LOAD_SAVED, saved)
        assert "exists" in run(at / "build/save_tensors", saved, code=2)

        program, checkpoint = at / "build/save_ranks", at / "ckpt"
        codes, said = save_ranks(program, checkpoint, at / "first", 4)
        assert codes == [0] * 4, said
        assert sorted(os.listdir(checkpoint)) == [".metadata", *(f"__{r}_0.distcp" for r in range(4))], os.listdir(checkpoint)
        run(dcpctl, "verify", checkpoint)
        ask_torch(torch, LOAD_RANKS, checkpoint)
        codes, said = save_ranks(program, checkpoint, at / "second", 3)
        assert codes == [2] * 3 and all("rank 0" in s and "exists" in s for s in said), (codes, said)

        targets = run("ninja", "-C", at / "build", "-t", "targets", "all")
        assert ("\ntrain_and_save: " in targets) == bool(libtorch), "LibTorch was not found"
        if not libtorch:
            print("no LibTorch: the training example was not built")
            return
        train = link(at / "build", "train_and_save", compiled)
        (at / "run").mkdir()
        said = run(train, at / "run", 1 << 17, "--torch-save")  # 140 MB: far more than is written before the next step begins
        print(said, end="")
        for step in (3, 5):
            assert f"step {step}: while the checkpoint is being written" in said, said
        assert sorted(os.listdir(at / "run")) == ["step-2", "step-2.pt", "step-4", "step-4.pt", "step-6", "step-6.pt"], os.listdir(at / "run")
        for step in (2, 4, 6):
            run(dcpctl, "verify", at / f"run/step-{step}")
        assert "no folder" in run(train, at / "none", code=4)
        assert not torch or ask_torch(torch, LOAD, at / "run").strip().endswith("as they were")


if __name__ == "__main__":
    main(*sys.argv[1:])
