#include "base/io.h"

#include <string>

#include "base/working_names.h"

namespace dcp {

NameIn open_parent(Io& io, const std::string& path) {
  const size_t name = path.rfind('/') + 1;  // npos + 1 is 0
  try {
    return {OpenFile(io, io.open_folder(without_trailing_slashes(path.substr(0, name)))), path.substr(name)};
  } catch (const Error& e) {
    if (e.problem().id != ProblemId::io_open) throw;
    fail(ProblemId::io_create, {.path = path}, e.problem().got);
  }
}

void make_folder(Io& io, const std::string& path) {
  const NameIn made = open_parent(io, path);
  io.make_folder(made.folder.get(), made.name);
}

void write_all(Io& io, Handle file, uint64_t offset, Bytes bytes, Cache cache) {
  size_t done = 0;
  while (done < bytes.size()) {
    const Bytes rest = bytes.subspan(done);
    const size_t n = cache == Cache::kPass ? io.write_past_cache(file, offset + done, rest) : io.write(file, offset + done, rest);
    if (n == 0) {  // neither progress nor an error: a retry could loop forever
      fail(ProblemId::io_write, Place{.path = io.name_of(file), .offset = offset + done}, "0 bytes written",
           std::to_string(bytes.size() - done) + " bytes");
    }
    done += n;
  }
}

}  // namespace dcp
