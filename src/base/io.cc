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

void read_exact(Io& io, Handle file, uint64_t offset, MutableBytes buffer) {
  size_t done = 0;
  while (done < buffer.size()) {
    const size_t n = io.read(file, offset + done, buffer.subspan(done));
    if (n == 0) {
      fail(ProblemId::short_file, Place{.path = io.name_of(file), .offset = offset, .length = buffer.size()},
           std::to_string(done) + " bytes", std::to_string(buffer.size()) + " bytes");
    }
    done += n;
  }
}

void write_all(Io& io, Handle file, uint64_t offset, Bytes bytes, Cache cache) {
  size_t done = 0;
  while (done < bytes.size()) {
    const Bytes rest = bytes.subspan(done);
    const size_t n = cache == Cache::kPass ? io.write_past_cache(file, offset + done, rest) : io.write(file, offset + done, rest);
    if (n == 0) {  // neither progress nor an error: asking again would never end
      fail(ProblemId::io_write, Place{.path = io.name_of(file), .offset = offset + done}, "0 bytes written",
           std::to_string(bytes.size() - done) + " bytes");
    }
    done += n;
  }
}

std::vector<std::byte> read_file(Io& io, Handle file, uint64_t cap) {
  const uint64_t size = io.facts(file).bytes;
  if (size > cap) {
    fail(ProblemId::over_limit, Place{.path = io.name_of(file)}, std::to_string(size) + " bytes",
         "at most " + std::to_string(cap) + " bytes");
  }
  std::vector<std::byte> bytes(size);
  read_exact(io, file, 0, bytes);
  return bytes;
}

std::vector<std::byte> read_file(Io& io, const std::string& path, uint64_t cap) {
  if (!io.facts(path)) fail(ProblemId::no_such_path, {.path = path});
  const OpenFile file(io, io.open_read(path));
  return read_file(io, file.get(), cap);
}

}  // namespace dcp
