#include "app/small_file.h"

#include "files/file_set.h"

namespace dcp {

void save_small_file(World& world, const std::string& path, std::string_view text, const SmallFileOptions& options) {
  save_text(world, path, [&](const TextOut& out) { out(text); }, options);
}

void save_text(World& world, const std::string& path, const std::function<void(const TextOut&)>& emit, const SmallFileOptions& options) {
  uint64_t bytes = 0;
  emit([&](std::string_view text) { bytes += text.size(); });
  FileSet file(world.io, path, {{"", bytes}}, {.folder = false, .replace = options.replace, .sync = options.sync});
  for (const std::string& n : file.found()) world.events.info(n);
  uint64_t at = 0;
  emit([&](std::string_view text) {
    file.write(0, at, as_bytes(text));
    at += text.size();
  });
  file.finish();
  file.commit();
}

}  // namespace dcp
