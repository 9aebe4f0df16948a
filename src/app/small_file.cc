#include "app/small_file.h"

#include "exec/file_set.h"

namespace dcp {

void save_small_file(World& world, const std::string& path, std::string_view text, const SmallFileOptions& options) {
  FileSet file(world.io, path, {{"", text.size()}}, {.folder = false, .replace = options.replace, .sync = options.sync});
  for (const std::string& n : file.found()) world.events.info(n);
  file.write(0, 0, as_bytes(text));
  file.finish();
  file.commit();
}

}  // namespace dcp
