#include "modules/loader.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include "base/problem.h"

namespace dcp {
namespace {

std::string file_of(std::string_view name) { return "libdcpctl_" + std::string(name) + ".so"; }

}  // namespace

std::optional<std::string> module_path(const std::vector<std::string>& folders, std::string_view name) {
  for (const std::string& folder : folders) {
    struct stat facts{};
    std::string path = folder + "/" + file_of(name);
    if (::stat(path.c_str(), &facts) == 0) return path;
  }
  return std::nullopt;
}

const DcpctlModuleHeader& open_module(const std::vector<std::string>& folders, const UntypedModuleKind& kind) {
  const std::string path = module_path(folders, kind.name).value_or("");
  if (path.empty()) {
    Problem p = make_problem(ProblemId::module_missing, {.path = file_of(kind.name)},
                             "not in " + (folders.empty() ? std::string("any folder") : folders.front()) +
                                 (folders.size() > 1 ? " and " + std::to_string(folders.size() - 1) + " more" : ""));
    p.hint = "it needs " + std::string(kind.needs);
    throw Error(std::move(p));
  }
  // Local: what a module brings must not take the place of what another one or dcpctl links.
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
