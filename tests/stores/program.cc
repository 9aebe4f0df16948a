// stores FOLDER ...: dcpctl, with what FOLDER holds at the start as `mem://...`, in memory.
#include "line/program.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "app/object_store.h"

namespace {

std::unique_ptr<dcp::test::ObjectStore> filled_from(const std::string& folder) {
  auto store = std::make_unique<dcp::test::ObjectStore>();
  store->request_bytes = 4 << 20;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    struct stat status{};
    ::stat(entry.path().c_str(), &status);
    std::ifstream file(entry.path(), std::ios::binary);
    store->put("mem://" + entry.path().lexically_relative(folder).native(), {std::istreambuf_iterator<char>(file), {}},
               status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec);
  }
  return store;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  dcp::NamedStores stores;
  stores["mem"] = filled_from(argv[1]);
  const auto io = dcp::make_posix_io();
  argv[1] = argv[0];
  return dcp::cmd::run_program(*io, argc - 1, argv + 1, std::move(stores));
}
