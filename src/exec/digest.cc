#include "exec/digest.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>

#include "base/text.h"

namespace dcp {
namespace {

constexpr uint64_t kBlockBytes = kMiB;

struct File {
  FileSum sum;
  std::shared_ptr<const OpenFile> open;  // of metadata; data files are opened when they are read
  uint32_t number = kNone;
};

void sum(Store& store, Handle handle, FileSum& out, const Watch& watch) {
  struct Free {
    void operator()(XXH3_state_t* s) const { XXH3_freeState(s); }
  };
  const std::unique_ptr<XXH3_state_t, Free> state(XXH3_createState());
  if (!state || XXH3_128bits_reset(state.get()) != XXH_OK) throw std::bad_alloc();
  out.bytes = store.facts(handle).bytes;
  std::vector<std::byte> block(std::min(kBlockBytes, out.bytes));
  for (uint64_t at = 0; at < out.bytes && watch.stop.load() == 0; at += block.size()) {
    const MutableBytes part = MutableBytes(block).first(std::min<uint64_t>(block.size(), out.bytes - at));
    read_exact(store, handle, at, part);
    XXH3_128bits_update(state.get(), part.data(), part.size());
    watch.progress.bytes_read.fetch_add(part.size(), std::memory_order_relaxed);
  }
  const XXH128_hash_t digest = XXH3_128bits_digest(state.get());
  out.xxh3_128 = hex(digest.high64, 16) + hex(digest.low64, 16);
}

}  // namespace

DigestSink::DigestSink(const Plan& plan) : sums_(plan.files.size()) {
  bytes_.reserve(plan.files.size());
  for (const OutputFile& f : plan.files) bytes_.push_back(f.bytes);
}

void DigestSink::write(uint32_t file, uint64_t offset, Bytes bytes) {
  sums_.at(file).add(crc64_raw(bytes), bytes.size(), bytes_[file] - offset - bytes.size());
}

std::optional<uint64_t> DigestSink::digest(uint32_t file) const {
  if (sums_[file].added() != bytes_[file]) return std::nullopt;
  return sums_[file].value(bytes_[file]);
}

std::vector<DigestSink::Part> DigestSink::parts() const {
  std::vector<Part> all;
  // The value of no bytes is the register itself.
  for (const Crc64Sum& s : sums_) all.push_back({.bytes = s.added(), .raw = s.value(0)});
  return all;
}

void DigestSink::set(const std::vector<Part>& parts) {
  for (size_t f = 0; f < sums_.size(); ++f) sums_[f].add(parts.at(f).raw ^ sums_[f].value(0), parts[f].bytes - sums_[f].added(), 0);
}

std::vector<FileSum> sum_files(DataFiles& files, FollowLinks links, unsigned workers, const Watch& watch) {
  const Catalog& catalog = files.catalog();
  const std::string_view metadata = catalog.traits().metadata_ending;
  std::vector<File> all;
  for (uint32_t f = 0; f < catalog.files.size(); ++f)
    if (catalog.files[f].bytes)
      all.push_back({.sum = {.name = std::string(catalog.file_name(f)), .xxh3_128 = {}}, .open = nullptr, .number = f});
  for (const DirEntry& e : catalog.single_file ? std::vector<DirEntry>() : files.store().list(catalog.folder)) {
    if (metadata.empty() || !e.name.ends_with(metadata)) continue;
    const std::optional<Handle> handle = files.store().open_beneath(catalog.folder, e.name, links);
    if (handle) all.push_back({.sum = {.name = e.name, .xxh3_128 = {}}, .open = std::make_shared<const OpenFile>(files.store(), *handle)});
  }
  parallel_for(workers, all.size(), watch.stop, [&](unsigned, uint64_t i) {
    const std::shared_ptr<const OpenFile> open = all[i].open ? all[i].open : files.open(all[i].number);
    sum(files.store(), open->get(), all[i].sum, watch);
  });
  std::vector<FileSum> sums;
  for (File& f : all) sums.push_back(std::move(f.sum));
  std::ranges::sort(sums, {}, &FileSum::name);
  return sums;
}

}  // namespace dcp
