#include "modules/loader.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include "base/problem.h"

namespace dcp {

const DcpctlModuleHeader& open_module(const std::vector<std::string>& folders, const char* name, const char* symbol, uint32_t abi,
                                      uint32_t bytes, const char* needs) {
  const std::string file = "libdcpctl_" + std::string(name) + ".so";
  std::string path;
  for (const std::string& folder : folders) {
    struct stat facts{};
    if (::stat((folder + "/" + file).c_str(), &facts) != 0) continue;
    path = folder + "/" + file;
    break;
  }
  if (path.empty()) {
    Problem p = make_problem(ProblemId::module_missing, {.path = file},
                             "not in " + (folders.empty() ? std::string("any folder") : folders.front()) +
                                 (folders.size() > 1 ? " and " + std::to_string(folders.size() - 1) + " more" : ""));
    p.hint = "it needs " + std::string(needs);
    throw Error(std::move(p));
  }
  // Local: what a module brings must not take the place of what another one or dcpctl links.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = ::dlerror();
    fail(ProblemId::module_broken, {.path = path}, why ? why : "");
  }
  using Entry = const DcpctlModuleHeader* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library, symbol));
  if (!entry) fail(ProblemId::module_differs, {.path = path}, "no " + std::string(symbol));
  const DcpctlModuleHeader& header = *entry();
  if (header.abi != abi || header.bytes != bytes)
    fail(ProblemId::module_differs, {.path = path},
         "table " + std::to_string(header.abi) + " of " + std::to_string(header.bytes) + " bytes",
         "table " + std::to_string(abi) + " of " + std::to_string(bytes));
  return header;
}

}  // namespace dcp
