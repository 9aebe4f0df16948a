#include "report/doctor_report.h"

#include <algorithm>
#include <iterator>

#include "base/json.h"
#include "base/text.h"
#include "line/program.h"

namespace dcp::cmd {
namespace {

// 22703: "2.27.3".
std::string nccl_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
}
// 12080: "12.8".
std::string cuda_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

std::string isa_text(Isa isa) { return isa == Isa::kAvx512 ? "AVX-512" : isa == Isa::kAvx2 ? "AVX2" : "baseline"; }

// What each module is for: beside ModuleFacts::name.
struct Use {
  std::string_view module, what;
};
constexpr Use kUses[] = {
    {"c10d", "several ranks cannot work together"},
    {"c10d_nccl", "--transport nccl is not available"},
    {"cuda", "bench staging cannot measure GPUs"},
    {"net", "s3://, gs://, hf:// and https:// cannot be read"},
};

void add_module_lacks(const DoctorResult& found, std::vector<Lack>& lacks) {
  const bool has_gpus = !found.gpus.empty();
  for (const ModuleFacts& m : found.modules) {
    const Use& use = *std::ranges::find(kUses, m.name, &Use::module);
    const std::string what = "module " + m.name + ": " + std::string(use.what);
    const bool is_needed = has_gpus && (m.name == "c10d_nccl" || m.name == "cuda");
    if (m.path.empty()) lacks.push_back({what, m.needs + "; DCPCTL_MODULE_DIR, if it is elsewhere", is_needed});
    else if (!m.works())
      lacks.push_back({what + ": " + m.refusal, "the libraries that it was built with, or a new build of dcpctl", is_needed});
  }
  if (found.nccl == 0)
    lacks.push_back({"NCCL: no libnccl.so.2", "a LibTorch that has it (pip install torch), or the package libnccl2", has_gpus});
  if (found.driver_cuda == 0) lacks.push_back({"NVIDIA driver: no libcuda.so.1", "the package nvidia-driver; in a container --gpus all"});
  else if (found.gpus.empty() && !found.no_gpus.empty())
    lacks.push_back({"GPU: " + found.no_gpus, "CUDA_VISIBLE_DEVICES, --gpus of srun or docker", true});
}

void add_machine_lacks(const DoctorResult& found, std::vector<Lack>& lacks) {
  const MachineFacts& m = found.machine;
  if (found.landlock == 0)
    lacks.push_back({"Landlock: commands run unconfined", "Linux 5.13 with CONFIG_SECURITY_LANDLOCK, and landlock in the kernel's lsm="});
  if (m.usable_cores < m.cores)
    lacks.push_back({"cores: " + std::to_string(m.usable_cores) + " of " + counted(m.cores, "core"),
                     "--cpus-per-task of srun, taskset, --cpuset-cpus of docker"});
  if (m.core_quota && *m.core_quota < m.usable_cores)
    lacks.push_back({"cores: the control group allows the time of " + fixed(*m.core_quota, 1),
                     "--cpus of docker, CPUQuota= of systemd; -j with as many"});
  if (m.memory_limit && m.memory_limit->bytes < m.memory_bytes)
    lacks.push_back({"memory: the control group allows " + human_bytes(m.memory_limit->bytes),
                     "--mem of srun, --memory of docker; --max-memory with less"});
  if (m.locked_bytes)
    lacks.push_back({"locked memory: " + human_bytes(*m.locked_bytes) + ", too little for NCCL over InfiniBand",
                     "ulimit -l unlimited, --ulimit memlock=-1 of docker", !found.gpus.empty()});
  if (m.open_files && *m.open_files < 1024) lacks.push_back({"open files: " + std::to_string(*m.open_files), "ulimit -n 65536", true});
  if (m.file_bytes) lacks.push_back({"file size: " + human_bytes(*m.file_bytes), "ulimit -f unlimited", true});
  if (m.address_bytes)
    lacks.push_back(
        {"address space: " + human_bytes(*m.address_bytes), "ulimit -v unlimited; --max-memory bounds what dcpctl takes", true});
}

void add_folder_lacks(const DoctorResult& found, std::vector<Lack>& lacks) {
  const FolderFacts& f = found.folder_facts;
  const auto add = [&](const std::string& what, const char* gives, bool is_needed = false) {
    lacks.push_back({escaped(found.folder) + ": " + what, gives, is_needed});
  };
  if (!f.refusal.empty()) return add("nothing can be written (" + f.refusal + ")", "another folder, or other permissions", true);
  if (!f.passes_cache) add("writes go through the page cache", "Linux 6.18, and ext4, xfs or btrfs");
  if (!f.reflinks) add("files cannot share bytes: edit takes hard links or copies", "xfs, btrfs, or NFS 4.2 on them");
  if (!f.hard_links) add("no hard links: edit copies", "ext4, xfs, btrfs, NFS");
  if (!f.locks) add("no locks: two writers of one output do not notice each other", "NFS 4; Lustre mounted with -o flock");
  if (!f.reserves) add("space cannot be reserved: a full disk is noticed late", "ext4, xfs, btrfs, NFS 4.2");
}

std::string limit_text(const std::optional<uint64_t>& bytes) { return bytes ? human_bytes(*bytes) : "unlimited"; }

std::string module_text(const ModuleFacts& m) {
  return m.name + ": " + (m.path.empty() ? "not found" : escaped(m.path) + (m.works() ? " (" + m.built_with + ")" : " cannot be used"));
}

std::string gpu_text(const DcpctlDeviceFacts& g) {
  std::string text = escaped(g.name) + ", " + human_bytes(g.memory_bytes) + ", " + human_bytes(g.free_bytes) + " free";
  if (g.pcie_generation_max > 0) text += ", PCIe " + std::to_string(g.pcie_generation_max) + " x" + std::to_string(g.pcie_width_max);
  if (g.nvlink_links > 0) text += ", NVLink x" + std::to_string(g.nvlink_links);
  if (g.numa_node >= 0) text += ", NUMA node " + std::to_string(g.numa_node);
  return text;
}

// "yes" and "no" of what a folder can do.
std::string ability_text(const FolderFacts& f) {
  if (!f.refusal.empty()) return "not writable";
  std::string can, cannot;
  const auto add = [&](bool has, const char* what) { (has ? can : cannot).append((has ? can : cannot).empty() ? "" : ", ").append(what); };
  add(f.passes_cache, "uncached writes");
  add(f.reflinks, "reflinks");
  add(f.hard_links, "hard links");
  add(f.locks, "locks");
  add(f.reserves, "reserved space");
  return (can.empty() ? "" : "has " + can) + (can.empty() || cannot.empty() ? "" : "; ") + (cannot.empty() ? "" : "lacks " + cannot);
}

void libraries_json(JsonWriter& json, const DoctorResult& found) {
  json.key("modules").begin_array();
  for (const ModuleFacts& m : found.modules) {
    json.begin_object().member("name", m.name).member("works", m.works());
    if (!m.path.empty()) json.member("path", m.path);
    if (m.works()) json.member("built_with", m.built_with);
    if (!m.refusal.empty()) json.member("why_not", m.refusal);
    json.end_object();
  }
  json.end_array();
  const auto versioned = [&](const char* name, const std::string& version, const std::string& path) {
    json.key(name);
    if (version.empty()) return void(json.null());
    json.begin_object().member("version", version);
    if (!path.empty()) json.member("path", path);
    json.end_object();
  };
  versioned("libtorch", found.torch, found.torch_path);
  versioned("nccl", found.nccl > 0 ? nccl_text(found.nccl) : "", found.nccl_path);
  json.key("cuda").begin_object();
  if (!found.driver.empty()) json.member("driver", found.driver);
  if (found.driver_cuda > 0) json.member("driver_cuda", cuda_text(found.driver_cuda));
  json.key("gpus").begin_array();
  for (const DcpctlDeviceFacts& g : found.gpus) {
    json.begin_object()
        .member("name", g.name)
        .member("bus_id", g.bus_id)
        .member("memory_bytes", g.memory_bytes)
        .member("free_bytes", g.free_bytes);
    json.member("pcie_generation", g.pcie_generation_max).member("pcie_width", g.pcie_width_max).member("nvlink_links", g.nvlink_links);
    if (g.numa_node >= 0) json.member("numa_node", g.numa_node);
    json.end_object();
  }
  json.end_array();
  if (!found.no_gpus.empty()) json.member("why_no_gpus", found.no_gpus);
  json.end_object();
}

void machine_json(JsonWriter& json, const DoctorResult& found) {
  const MachineFacts& m = found.machine;
  json.key("machine").begin_object();
  json.member("system", m.system)
      .member("architecture", m.architecture)
      .member("c_library", m.c_library)
      .member("instructions", isa_text(found.isa));
  json.member("cores", m.cores).member("usable_cores", m.usable_cores).member("threads", found.threads);
  if (m.core_quota) json.member("core_quota", *m.core_quota);
  json.member("memory_bytes", m.memory_bytes).member("available_bytes", m.available_bytes);
  if (m.memory_limit)
    json.key("memory_limit").begin_object().member("bytes", m.memory_limit->bytes).member("file", m.memory_limit->file).end_object();
  json.member("reading_cap_bytes", found.reading_cap).member("landlock", found.landlock);
  json.key("limits").begin_object();
  json.member("locked_bytes", m.locked_bytes).member("open_files", m.open_files);
  json.member("file_bytes", m.file_bytes).member("address_bytes", m.address_bytes);
  json.end_object().end_object();
}

void folder_json(JsonWriter& json, const DoctorResult& found) {
  const FolderFacts& f = found.folder_facts;
  json.key("folder").begin_object().member("path", found.folder).member("file_system", f.file_system);
  if (f.bytes) json.member("bytes", *f.bytes);
  if (f.free_bytes) json.member("free_bytes", *f.free_bytes);
  json.member("writable", f.refusal.empty());
  if (!f.refusal.empty()) json.member("why_not", f.refusal);
  else
    json.member("uncached_writes", f.passes_cache)
        .member("reflinks", f.reflinks)
        .member("hard_links", f.hard_links)
        .member("locks", f.locks)
        .member("reserves_space", f.reserves);
  json.end_object();
}

std::string cores_text(const DoctorResult& found) {
  const MachineFacts& m = found.machine;
  return std::to_string(m.usable_cores) + " of " + std::to_string(m.cores) + " usable" +
         (m.core_quota ? ", the time of " + fixed(*m.core_quota, 1) : "") + ", " + isa_text(found.isa) + "; " +
         counted(found.threads, "thread") + " by default";
}

std::string memory_text(const DoctorResult& found) {
  const MachineFacts& m = found.machine;
  return human_bytes(m.memory_bytes) + ", " + human_bytes(m.available_bytes) + " available" +
         (m.memory_limit ? ", limit " + human_bytes(m.memory_limit->bytes) + " (" + escaped(m.memory_limit->file) + ")"
                         : ", no control group limit");
}

}  // namespace

std::vector<Lack> lacks_of(const DoctorResult& found) {
  std::vector<Lack> lacks;
  add_module_lacks(found, lacks);
  add_machine_lacks(found, lacks);
  add_folder_lacks(found, lacks);
  return lacks;
}

std::string doctor_text(const DoctorResult& found) {
  std::string text = "dcpctl " + program_version() + "\n";
  const auto line = [&](std::string label, const std::string& what) {
    label.resize(std::max<size_t>(label.size(), 9), ' ');
    text += label + "  " + what + "\n";
  };
  const MachineFacts& m = found.machine;
  line("system", m.system + ", " + m.architecture + ", " + m.c_library);
  for (const ModuleFacts& module : found.modules) line("module", module_text(module));
  line("LibTorch", found.torch.empty() ? "none" : found.torch + (found.torch_path.empty() ? "" : " (" + escaped(found.torch_path) + ")"));
  line("NCCL", found.nccl == 0 ? "none" : nccl_text(found.nccl) + (found.nccl_path.empty() ? "" : " (" + escaped(found.nccl_path) + ")"));
  line("driver",
       found.driver_cuda == 0 ? "none" : (found.driver.empty() ? "" : found.driver + ", ") + "CUDA up to " + cuda_text(found.driver_cuda));
  for (const DcpctlDeviceFacts& g : found.gpus) line("GPU", gpu_text(g));
  line("cores", cores_text(found));
  line("memory", memory_text(found));
  line("limits", "locked memory " + limit_text(m.locked_bytes) + ", open files " +
                     (m.open_files ? std::to_string(*m.open_files) : "unlimited") + ", file size " + limit_text(m.file_bytes) +
                     ", address space " + limit_text(m.address_bytes));
  line("sandbox", found.landlock > 0 ? "Landlock " + std::to_string(found.landlock) : "none");
  const FolderFacts& f = found.folder_facts;
  line("folder", escaped(found.folder) + ": " + (f.file_system.empty() ? "an unknown file system" : f.file_system) +
                     (f.free_bytes ? ", " + human_bytes(*f.free_bytes) + " free of " + human_bytes(*f.bytes) : "") + "; " +
                     ability_text(f));
  const std::vector<Lack> lacks = lacks_of(found);
  const bool needs_some = std::ranges::any_of(lacks, &Lack::is_needed);
  if (!needs_some) text += "\nnothing that you need here is missing\n";
  for (const bool is_needed : {true, false}) {
    if (std::ranges::find(lacks, is_needed, &Lack::is_needed) == lacks.end()) continue;
    text += is_needed ? "\nMissing, and how to get it:\n" : "\nNot here, and how to get it if you want it all the same:\n";
    for (const Lack& l : lacks)
      if (l.is_needed == is_needed) text += "  " + l.what + "\n    " + l.gives + "\n";
  }
  return text;
}

std::string doctor_json(const DoctorResult& found) {
  return json_document([&](JsonWriter& json) {
    json.member("schema", "dcpctl.doctor/1").member("version", DCPCTL_VERSION);
    if (const std::string commit = program_commit(); !commit.empty()) json.member("commit", commit);
    libraries_json(json, found);
    machine_json(json, found);
    folder_json(json, found);
    json.key("missing").begin_array();
    for (const Lack& l : lacks_of(found))
      json.begin_object().member("what", l.what).member("gives", l.gives).member("needed", l.is_needed).end_object();
    json.end_array();
  });
}

}  // namespace dcp::cmd
