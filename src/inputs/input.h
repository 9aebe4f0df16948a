// Adapters: how each kind of checkpoint is recognized and opened. An adapter is named in the row of its kind in catalog/kinds.def.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inputs/open.h"

namespace dcp {

// A path that may hold a checkpoint. Each look at it happens once for all kinds, and only if an adapter asks for it.
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
  std::string folder() const;  // around it
  // Of a folder, or of the one around a file.
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
  // Whether the checkpoint is of this kind, possibly damaged. Called after earlier rows have said no.
  bool (*is_at)(Found&) = nullptr;
  OpenedCatalog (*open)(Found&) = nullptr;
  // The keys alone, where that is quicker than opening; nullopt: opening says them.
  std::optional<std::vector<std::string>> (*read_keys)(Found&) = [](Found&) { return std::optional<std::vector<std::string>>(); };
  // Whether a file of this name makes its folder a checkpoint of this kind.
  bool (*describes)(std::string_view name) = [](std::string_view) { return false; };
  // What opening reads of such a file; null if that includes data.
  Description (*read_description)(Store&, const std::string& path, const Limits&) = nullptr;
  // Whether the name of a file suggests such a checkpoint; the file may stand for the folder that it is in.
  bool (*is_file)(std::string_view name) = [](std::string_view) { return false; };
};

#define DCP_KIND(id, input, ...) extern const Input input;
#include "catalog/kinds.def"

// The whole file, of at most `cap` bytes.
Description whole_file(Store& store, const std::string& path, uint64_t cap);

}  // namespace dcp
