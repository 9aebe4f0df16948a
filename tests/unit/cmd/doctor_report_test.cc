#include "report/doctor_report.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace dcp::cmd {
namespace {

// A machine that has all.
DoctorResult whole() {
  DoctorResult r;
  r.modules = {{"c10d", "/lib/libdcpctl_c10d.so", "torch 2.11.0", "", ""},
               {"c10d_nccl", "/lib/libdcpctl_c10d_nccl.so", "torch 2.11.0", "", ""},
               {"cuda", "/lib/libdcpctl_cuda.so", "CUDA 12.8", "", ""}};
  r.torch = "2.11.0", r.torch_path = "/torch/libtorch_cpu.so";
  r.nccl = 22703, r.driver_cuda = 12080, r.driver = "570.86.15";
  DcpctlDeviceFacts gpu{};
  std::string("A GPU").copy(gpu.name, sizeof gpu.name - 1);
  gpu.memory_bytes = 80ull << 30, gpu.pcie_generation_max = 5, gpu.pcie_width_max = 16, gpu.nvlink_links = 18;
  r.gpus = {gpu, gpu};
  r.machine = {.system = "Linux 6.18", .architecture = "x86_64", .c_library = "glibc 2.41", .cores = 8, .usable_cores = 8};
  r.machine.memory_bytes = 64ull << 30;
  r.landlock = 7;
  r.folder = "run";
  r.folder_facts = {.file_system = "xfs",
                    .bytes = 1000,
                    .free_bytes = 900,
                    .refusal = "",
                    .reserves = true,
                    .reflinks = true,
                    .hard_links = true,
                    .locks = true,
                    .passes_cache = true};
  return r;
}

std::string what(const DoctorResult& found) {
  std::string text;
  for (const Lack& l : lacks_of(found)) {
    CHECK_FALSE(l.gives.empty());
    text += l.what.substr(0, l.what.find(':')) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("A machine that has all lacks nothing") {
  CHECK(lacks_of(whole()).empty());
  const std::string text = doctor_text(whole());
  CHECK(text.ends_with("\nnothing that you need here is missing\n"));
  CHECK(text.find("NCCL       2.27.3\n") != std::string::npos);
  CHECK(text.find("driver     570.86.15, CUDA up to 12.8\n") != std::string::npos);
  CHECK(text.find("GPU        A GPU, 80.0 GiB, 0 B free, PCIe 5 x16, NVLink x18") != std::string::npos);
  CHECK(text.find("folder     run: xfs, 900 B free of 1000 B; has uncached writes, reflinks, hard links, locks, reserved space\n") !=
        std::string::npos);
}

TEST_CASE("Each thing that is missing is said, with what gives it") {
  DoctorResult r = whole();
  r.modules[0] = {"c10d", "", "", "a build with LibTorch", ""};
  r.modules[2] = {"cuda", "/lib/libdcpctl_cuda.so", "", "", "not a library"};
  CHECK(what(r) == "module c10d\nmodule cuda\n");
  r = whole();
  r.nccl = 0, r.driver_cuda = 0, r.landlock = 0;
  CHECK(what(r) == "NCCL\nNVIDIA driver\nLandlock\n");
  r = whole();
  r.gpus.clear(), r.no_gpus = "no device is visible";
  CHECK(what(r) == "GPU\n");
  r = whole();
  r.machine.usable_cores = 4, r.machine.core_quota = 1.5, r.machine.memory_limit = MemoryLimit{.bytes = 1 << 30, .file = "/f"};
  r.machine.locked_bytes = 65536, r.machine.open_files = 256, r.machine.file_bytes = 1000, r.machine.address_bytes = 1000;
  CHECK(what(r) == "cores\ncores\nmemory\nlocked memory\nopen files\nfile size\naddress space\n");
  r = whole();
  r.folder_facts = {.file_system = "nfs4", .bytes = {}, .free_bytes = {}, .refusal = ""};
  CHECK(what(r) == "run\nrun\nrun\nrun\nrun\n");
  r.folder_facts.refusal = "Read-only file system";
  CHECK(what(r) == "run\n");
  CHECK(doctor_text(r).find("run: nfs4; not writable") != std::string::npos);
}

TEST_CASE("What a machine without GPUs lacks for them is not needed, and a folder that takes no output is") {
  DoctorResult r = whole();
  r.gpus.clear(), r.nccl = 0, r.driver_cuda = 0, r.modules[2].path.clear();
  CHECK(doctor_text(r).find("\nNot here, and how to get it if you want it all the same:\n  module cuda") != std::string::npos);
  CHECK(doctor_text(r).find("\nnothing that you need here is missing\n\nNot here") != std::string::npos);
  r.folder_facts.refusal = "Read-only file system";
  CHECK(doctor_text(r).find("\nMissing, and how to get it:\n  run: nothing can be written") != std::string::npos);
  CHECK(doctor_text(r).find("nothing that you need") == std::string::npos);
}

TEST_CASE("The document has what is there and what is not") {
  DoctorResult r = whole();
  r.modules[0] = {"c10d", "", "", "a build with LibTorch", ""};
  r.torch = "";
  const std::string text = doctor_json(r);
  for (const char* part :
       {R"("schema":"dcpctl.doctor/1")", R"({"name":"c10d","works":false})", R"("libtorch":null)", R"("version":"2.27.3")",
        R"("landlock":7)", R"("locked_bytes":null)", R"("reflinks":true)", R"("missing":[{"what":"module c10d)"})
    CHECK(text.find(part) != std::string::npos);
}

}  // namespace dcp::cmd
