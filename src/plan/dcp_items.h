// Items of a DCP folder that are not plain tensors: Python objects, and tensors that are copied unchanged.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/limits.h"
#include "pickle/writer.h"
#include "plan/flat_entries.h"
#include "plan/plan.h"
#include "select/select.h"

namespace dcp {

// Lays items out in a plan: literals and copies. The arguments must outlive it.
class DcpItems {
 public:
  struct Options {
    Limits limits;
    bool verify = true;  // check the CRC of copied bytes
  };
  struct At {
    uint32_t file = 0;
    uint64_t offset = 0;  // bytes
  };

  DcpItems(const SourceFacts& source, const Selection& selection, Options options, Plan& plan)
      : catalog_(source.catalog), resolved_(source.resolved), selection_(selection), options_(std::move(options)), plan_(plan) {}

  // Both return the bytes of the item. `key` is for messages.
  uint64_t copy(ItemId id, std::string_view key, At at);
  // A dict or list whose leaves are items of the source (flat_entries.h). They must have been resolved with their pickles.
  uint64_t container(const FlatEntries& flat, uint32_t node, At at);

 private:
  struct Storage {
    ItemId item = 0;
    bool from_decoded = false;
    const BlobItem::Storage* of = nullptr;
  };
  uint64_t copy_whole(ItemId id, std::string_view key, At at);
  uint64_t archive(std::string pickle, std::string byteorder, const std::vector<Storage>& storages, bool renumber, At at);
  void splice(const Entry& entry, PickleWriter& writer, std::vector<Storage>& storages) const;

  const Catalog& catalog_;
  const Resolved& resolved_;
  const Selection& selection_;
  const Options options_;
  Plan& plan_;
};

}  // namespace dcp
