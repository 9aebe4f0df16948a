#include "modules/loader.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/problem.h"

namespace dcp {
namespace {

constexpr std::string_view kPrefix = "libdcpctl_", kSuffix = ".so";

std::string file_of(std::string_view name) { return std::string(kPrefix) + std::string(name) + std::string(kSuffix); }

}  // namespace

std::optional<std::string> module_path(const std::vector<std::string>& folders, std::string_view name) {
  for (const std::string& folder : folders) {
    struct stat facts{};
    std::string path = folder + "/" + file_of(name);
    if (::stat(path.c_str(), &facts) == 0) return path;
  }
  return std::nullopt;
}

std::map<std::string, std::string> modules_in(const std::vector<std::string>& folders) {
  std::map<std::string, std::string> found;
  for (const std::string& folder : folders) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      const std::string file = entry.path().filename();
      if (file.size() > kPrefix.size() + kSuffix.size() && file.starts_with(kPrefix) && file.ends_with(kSuffix))
        found.emplace(file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size()), entry.path());
    }
  }
  return found;
}

const DcpctlModuleHeader& open_module(const std::vector<std::string>& folders, const UntypedModuleKind& kind) {
  const std::string path = module_path(folders, kind.name).value_or("");
  if (path.empty()) {
    throw Error(with_hint(make_problem(ProblemId::module_missing, {.path = file_of(kind.name)},
                                       "not in " + (folders.empty() ? std::string("any folder") : folders.front()) +
                                           (folders.size() > 1 ? " and " + std::to_string(folders.size() - 1) + " more" : "")),
                          "it needs " + std::string(kind.needs)));
  }
  // RTLD_LOCAL: a module's symbols must not replace those of dcpctl or of another module.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = ::dlerror();
    fail(ProblemId::module_broken, {.path = path}, why ? why : "");
  }
  using Entry = const DcpctlModuleHeader* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library, kind.symbol));
  if (!entry) fail(ProblemId::module_differs, {.path = path}, "no " + std::string(kind.symbol));
  const DcpctlModuleHeader& header = *entry();
  if (header.abi != kind.abi || header.bytes != kind.bytes)
    fail(ProblemId::module_differs, {.path = path},
         "table " + std::to_string(header.abi) + " of " + std::to_string(header.bytes) + " bytes",
         "table " + std::to_string(kind.abi) + " of " + std::to_string(kind.bytes));
  return header;
}

std::string library_path(const char* library, const char* symbol) {
  void* const handle = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  void* const at = handle ? ::dlsym(handle, symbol) : nullptr;
  Dl_info where{};
  return at && ::dladdr(at, &where) != 0 ? where.dli_fname : "";
}

int library_version(const char* library, const char* function) {
  void* const handle = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  const auto ask = reinterpret_cast<int (*)(int*)>(handle ? ::dlsym(handle, function) : nullptr);
  int version = 0;
  if (ask) ask(&version);
  return version;
}

}  // namespace dcp
