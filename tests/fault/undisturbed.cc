#include "undisturbed.h"

#include <cstdio>
#include <cstring>

#include "allocations.h"

namespace dcp::fault {
namespace {

namespace fs = std::filesystem;

// What a child leaves for its parent.
void save(const fs::path& path, const void* data, size_t bytes) {
  FILE* file = std::fopen(path.c_str(), "wb");
  std::fwrite(data, 1, bytes, file);
  std::fclose(file);
}

template <class T>
std::vector<T> load(const fs::path& path) {
  std::vector<T> values(fs::file_size(path) / sizeof(T));
  FILE* file = std::fopen(path.c_str(), "rb");
  if (std::fread(values.data(), sizeof(T), values.size(), file) != values.size()) std::abort();
  std::fclose(file);
  fs::remove(path);
  return values;
}

}  // namespace

Tally& tally() {
  static Tally counted;
  return counted;
}

void check(const Case& c, const std::string& where, const std::string& fault) {
  ++tally().states;
  if (fault.empty()) return;
  ++tally().faults;
  if (tally().faults <= 40) std::printf("  %s, %s: %s\n", c.name, where.c_str(), fault.c_str());
}

std::vector<Call> calls_of(World& world) {
  const fs::path log = world.folder().string() + ".calls";
  world.reset();
  std::vector<Call> seen;
  world.run({.before = [&](FaultIo& io) { io.before = [&](uint64_t, Call call, const std::string&) { seen.push_back(call); }; },
             .after = [&](FaultIo&) { save(log, seen.data(), seen.size()); }});
  return load<Call>(log);
}

uint64_t allocations_of(World& world, int threads) {
  const fs::path log = world.folder().string() + ".count";
  world.reset();
  const Outcome o = world.run({.before = [](FaultIo&) { count_allocations(); },
                               .after =
                                   [&](FaultIo&) {
                                     const uint64_t n = allocations();
                                     save(log, &n, sizeof n);
                                   },
                               .threads = threads});
  check(world.command(), "undisturbed", o.exit == 0 ? "" : o.said);
  return load<uint64_t>(log).at(0);
}

std::vector<Change> changes_of(World& world) {
  const fs::path log = world.folder().string() + ".changes";
  world.reset();
  const Outcome o = world.run({.before = [](FaultIo& io) { io.recording = true; },
                               .after =
                                   [&](FaultIo& io) {
                                     std::string text;
                                     const auto number = [&](uint64_t n) { text.append(reinterpret_cast<const char*>(&n), sizeof n); };
                                     for (const Change& c : io.changes) {
                                       number(static_cast<uint64_t>(c.call));
                                       number(c.offset);
                                       for (const std::string* part : {&c.path, &c.to, &c.bytes}) {
                                         number(part->size());
                                         text += *part;
                                       }
                                     }
                                     save(log, text.data(), text.size());
                                   }});
  check(world.command(), "recorded", o.exit == 0 ? "" : o.said);
  const std::vector<char> bytes = load<char>(log);
  std::vector<Change> changes;
  size_t at = 0;
  const auto number = [&] {
    uint64_t n = 0;
    std::memcpy(&n, bytes.data() + at, sizeof n);
    at += sizeof n;
    return n;
  };
  while (at < bytes.size()) {
    Change c{.call = static_cast<Call>(number()), .path = {}, .to = {}, .offset = number(), .bytes = {}};
    for (std::string* part : {&c.path, &c.to, &c.bytes}) {
      const uint64_t length = number();
      part->assign(bytes.data() + at, length);
      at += length;
    }
    changes.push_back(std::move(c));
  }
  return changes;
}

}  // namespace dcp::fault
