// Adapters: how each kind of checkpoint is recognized and opened. An adapter is named in the row of its kind in catalog/kinds.def.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/store.h"
#include "inputs/open.h"

namespace dcp {

// A path that may hold a checkpoint. Its facts are read once for all kinds, and only if an adapter asks for them.
class Found {
 public:
  // Throws no_such_path.
  Found(Store& store, std::string path, const OpenOptions& options);

  Store& store() const { return store_; }
  const std::string& path() const { return path_; }  // without '/' at its end
  const OpenOptions& options() const { return options_; }
  bool is_folder() const { return facts_.kind == FileKind::kDirectory; }
  bool is_file() const { return facts_.kind == FileKind::kRegular; }
  uint64_t bytes() const { return facts_.bytes; }
  std::string name() const;
  std::string folder() const;  // that it is in
  // The entries of the folder, or of the one that a file is in.
  const std::vector<DirEntry>& entries();
  bool has_entry(bool (*is)(const DirEntry&));
  // The first bytes of a file. Throws not_checkpoint for anything that cannot be a checkpoint by itself.
  Bytes head();

 private:
  Store& store_;
  const std::string path_;
  const OpenOptions& options_;
  FileFacts facts_;
  std::optional<std::vector<DirEntry>> entries_;
  std::optional<std::vector<std::byte>> head_;
};

struct Input {
  // Whether the checkpoint is of this kind, possibly damaged. Called after earlier rows have returned false.
  bool (*is_at)(Found&) = nullptr;
  OpenedCatalog (*open)(Found&) = nullptr;
  // Reads only the keys, if that is quicker than opening; nullopt: open it for the keys.
  std::optional<std::vector<std::string>> (*read_keys)(Found&) = [](Found&) { return std::optional<std::vector<std::string>>(); };
  // Whether a file of this name makes its folder a checkpoint of this kind.
  bool (*describes)(std::string_view name) = [](std::string_view) { return false; };
  // Reads the part of such a file that opening reads; null if that includes data.
  Description (*read_description)(Store&, const std::string& path, const Limits&) = nullptr;
  // Whether the name of a file suggests such a checkpoint. The file may stand for its folder.
  bool (*is_file)(std::string_view name) = [](std::string_view) { return false; };
};

#define DCP_KIND(id, input, ...) extern const Input input;
#include "catalog/kinds.def"

// The whole file, of at most `cap` bytes.
Description whole_file(Store& store, const std::string& path, uint64_t cap);

// Reads files of one folder, as many at once as the store prefers.

// Calls read(n, share) for each n of [0, count). `share` has a part of the memory that `left` has, or all of it if files are read one by
// one; what `read` takes from it is deducted from `left`. Of several failures, the one with the lowest n is thrown.
void read_at_once(Store& store, const std::string& folder, size_t count, Limits& left,
                  const std::function<void(size_t n, Limits& share)>& read);

}  // namespace dcp
