#include "inputs/open.h"

#include <algorithm>
#include <vector>

#include "base/file_names.h"
#include "base/workers.h"
#include "catalog/data_files.h"
#include "catalog/structure.h"
#include "inputs/input.h"
#include "inputs/refuse.h"
#include "select/empty_model.h"

namespace dcp {
namespace {

constexpr const Input* kInputs[] = {
#define DCP_KIND(id, input, ...) &input,
#include "catalog/kinds.def"
};

FileFacts facts_at(Store& store, const std::string& path) {
  const std::optional<FileFacts> facts = store.facts(path);
  if (!facts) fail(ProblemId::no_such_path, {.path = path});
  return *facts;
}

const Input* described_by(std::string_view name) {
  const auto found = std::ranges::find_if(kInputs, [&](const Input* input) { return input->describes(name); });
  return found == std::end(kInputs) ? nullptr : *found;
}

}  // namespace

Found::Found(Store& store, std::string path, const OpenOptions& options)
    : store_(store), path_(without_trailing_slashes(std::move(path))), options_(options), facts_(facts_at(store, path_)) {}

std::string Found::name() const { return split_path(path_).name; }

std::string Found::folder() const { return folder_around(path_); }

const std::vector<DirEntry>& Found::entries() {
  if (!entries_) entries_ = store_.list(is_folder() ? path_ : folder());
  return *entries_;
}

bool Found::has_entry(bool (*is)(const DirEntry&)) { return is_folder() && std::ranges::any_of(entries(), is); }

Bytes Found::head() {
  if (head_) return *head_;
  if (!is_file()) fail(ProblemId::not_checkpoint, {.path = path_}, "no regular file", std::string(kExpected));
  if (path_.ends_with(".distcp")) {  // archives back to back: its content tells no more than its name
    Problem p = make_problem(ProblemId::not_checkpoint, {.path = path_}, "a data file of a DCP checkpoint", "the folder that it is in");
    p.hint = "give '" + escaped(folder()) + "'";
    if (!store_.facts(folder() + "/.metadata")) {
      p.got = "a data file of a DCP checkpoint, without its .metadata", p.expected = "";
      p.hint = std::string(kWithoutMetadata);
    }
    throw Error(std::move(p));
  }
  head_.emplace(std::min(facts_.bytes, kForeignBytes));
  const OpenFile file(store_, store_.open_read(path_));
  read_exact(store_, file.get(), 0, *head_);
  if (is_lfs_pointer(*head_)) fail(ProblemId::lfs_pointer, {.path = path_});
  return *head_;
}

OpenedCatalog read_checkpoint(Store& store, const std::string& path, const OpenOptions& options) {
  Found found(store, path, options);
  for (const Input* input : kInputs)
    if (input->is_at(found)) {
      OpenedCatalog opened = input->open(found);
      if (std::optional<Problem> empty = find_empty_model(opened.catalog)) opened.findings.push_back(std::move(*empty));
      return opened;
    }
  refuse(found);
}

FrozenCatalog open_checkpoint(Store& store, const std::string& path, const OpenOptions& options) {
  return freeze(read_checkpoint(store, path, options), store, options.links);
}

std::vector<std::string> read_keys(Store& store, const std::string& path, const OpenOptions& options) {
  Found found(store, path, options);
  for (const Input* input : kInputs)
    if (input->is_at(found))
      if (auto keys = input->read_keys(found)) return std::move(*keys);
  const OpenedCatalog opened = read_checkpoint(store, path, options);
  std::vector<std::string> keys;
  for (const KeyRef ref : opened.catalog.order) keys.emplace_back(opened.catalog.key(ref));
  return keys;
}

bool describes_checkpoint(std::string_view name) { return described_by(name) != nullptr; }

bool is_checkpoint_name(std::string_view name) {
  return std::ranges::any_of(kInputs, [&](const Input* input) { return input->is_file(name); });
}

bool has_description(std::string_view name) {
  const Input* const input = described_by(name);
  return input != nullptr && input->read_description != nullptr;
}

Description read_description(Store& store, const std::string& path, const Limits& limits) {
  return described_by(split_path(path).name)->read_description(store, path, limits);
}

Description whole_file(Store& store, const std::string& path, uint64_t cap) {
  std::vector<std::byte> bytes = read_file(store, path, cap);
  const uint64_t size = bytes.size();
  return {.bytes = std::move(bytes), .size = size};
}

void read_at_once(Store& store, const std::string& folder, size_t count, Limits& left,
                  const std::function<void(size_t n, Limits& share)>& read) {
  const size_t most = std::max(1u, store.read_capabilities(folder).requests);
  const StopFlag never{0};
  for (size_t first = 0; first < count; first += most) {
    const size_t batch = std::min(most, count - first);
    const uint64_t memory = left.memory_bytes / batch;
    std::vector<Limits> shares(batch, left);
    for (Limits& share : shares) share.memory_bytes = memory;
    parallel_for(static_cast<unsigned>(batch), batch, never, [&](unsigned, uint64_t n) { read(first + n, shares[n]); });
    for (const Limits& share : shares) left.memory_bytes -= memory - share.memory_bytes;
  }
}

}  // namespace dcp
