#include "ranks/metadata_store.h"

#include <algorithm>

#include "base/file_names.h"
#include "base/store.h"
#include "catalog/kind.h"
#include "inputs/open.h"
#include "ranks/wire.h"

namespace dcp {
namespace {

// Files in memory have handles below those of any operating system.
class WithFiles final : public StoreWrapper {
 public:
  WithFiles(Store& store, std::string folder, Descriptions files) : StoreWrapper(store), folder_(std::move(folder)) {
    for (auto& [name, head] : files) files_.push_back({folder_ + "/" + name, name, std::move(head)});
  }
  Handle open_read(const std::string& path) override {
    const size_t n = find(path);
    return n < files_.size() ? handle_of(n) : inner_.open_read(path);
  }
  std::optional<Handle> open_beneath(const std::string& root, std::string_view name, FollowLinks links) override {
    const size_t n = find(without_trailing_slashes(root) + "/" + std::string(name));
    return n < files_.size() ? handle_of(n) : inner_.open_beneath(root, name, links);
  }
  size_t read(Handle h, uint64_t offset, MutableBytes buffer) override {
    if (!is_ours(h)) return inner_.read(h, offset, buffer);
    const std::vector<std::byte>& bytes = ours(h).head.bytes;
    if (offset >= bytes.size()) return 0;
    const size_t n = std::min<size_t>(buffer.size(), bytes.size() - offset);
    std::copy_n(bytes.begin() + static_cast<int64_t>(offset), n, buffer.begin());
    return n;
  }
  FileFacts facts(Handle h) override { return is_ours(h) ? facts_of(ours(h)) : inner_.facts(h); }
  std::optional<FileFacts> facts(const std::string& path) override {
    const size_t n = find(path);
    if (n < files_.size()) return facts_of(files_[n]);
    // The folder may exist only through what other ranks have sent.
    auto known = inner_.facts(path);
    return known || without_trailing_slashes(path) != folder_ ? known : FileFacts{.kind = FileKind::kDirectory};
  }
  std::vector<DirEntry> list(const std::string& folder) override {
    if (without_trailing_slashes(folder) != folder_) return inner_.list(folder);
    std::vector<DirEntry> entries;
    if (inner_.facts(folder)) entries = inner_.list(folder);
    for (const File& f : files_)
      if (std::ranges::find(entries, f.name, &DirEntry::name) == entries.end())
        entries.push_back({.name = f.name, .kind = FileKind::kRegular});
    std::ranges::sort(entries, {}, &DirEntry::name);
    return entries;
  }
  void close(Handle h) override {
    if (!is_ours(h)) inner_.close(h);
  }
  std::string name_of(Handle h) override { return is_ours(h) ? ours(h).path : inner_.name_of(h); }

 private:
  struct File {
    std::string path, name;
    Description head;
  };
  static constexpr Handle kFirst = -2;  // -1 is kNoHandle
  static bool is_ours(Handle h) { return h <= kFirst; }
  static Handle handle_of(size_t n) { return kFirst - static_cast<Handle>(n); }
  const File& ours(Handle h) const { return files_.at(static_cast<size_t>(kFirst - h)); }
  static FileFacts facts_of(const File& f) { return {.bytes = f.head.size, .kind = FileKind::kRegular}; }
  size_t find(const std::string& path) const { return static_cast<size_t>(std::ranges::find(files_, path, &File::path) - files_.begin()); }

  std::string folder_;
  std::vector<File> files_;
};

}  // namespace

Descriptions gather_metadata(RankTree& tree, Store& store, const std::string& path, const Limits& limits) {
  const std::string folder = without_trailing_slashes(path);
  std::vector<std::string> names;
  if (const auto facts = store.facts(folder); facts && facts->kind == FileKind::kDirectory)
    for (const DirEntry& e : store.list(folder))
      if (has_description(e.name)) names.push_back(e.name);
  WireWriter out;
  const bool is_file = store.facts(folder) && store.facts(folder)->kind == FileKind::kRegular;
  out.number<bool>(!is_file && std::ranges::none_of(names, is_sole_metadata_name));
  out.number<uint64_t>(names.size());
  for (const std::string& name : names) out.text(name);
  const std::vector<std::byte> reported = tree.broadcast(out.take());
  WireReader in(reported);
  if (!in.number<bool>()) return {};
  for (auto count = in.number<uint64_t>(); count > 0; --count) std::erase(names, in.text());

  Descriptions heads;
  for (const std::string& name : names) heads[name] = read_description(store, folder + "/" + name, limits);
  tree.gather(
      [&](Bytes bytes) {
        WireReader from(bytes);
        for (auto count = from.number<uint64_t>(); count > 0; --count) {
          const std::string name = from.text();
          Description theirs{.bytes = from.array<std::byte>(), .size = from.number<uint64_t>()};
          if (const auto [known, is_new] = heads.emplace(name, theirs); known->second != theirs)
            fail(ProblemId::file_seen_twice, {.path = folder + "/" + name});
        }
      },
      [&] {
        WireWriter mine;
        mine.number<uint64_t>(heads.size());
        for (const auto& [name, head] : heads) {
          mine.text(name);
          mine.array(head.bytes);
          mine.number(head.size);
        }
        return mine.take();
      });
  return heads;
}

std::unique_ptr<Store> with_files(Store& store, const std::string& folder, Descriptions files) {
  return std::make_unique<WithFiles>(store, without_trailing_slashes(folder), std::move(files));
}

}  // namespace dcp
