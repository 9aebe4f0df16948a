#include "items/predicted_heads.h"

#include <algorithm>
#include <utility>

#include "format/torch_item.h"
#include "items/item_source.h"
#include "items/resolve.h"

namespace dcp {
namespace {

constexpr uint64_t kProven = uint64_t{1} << 32;

// An item up to this size is read as a whole: a store keeps what it gives in such pieces, so the data is there when it is asked for.
constexpr uint64_t kWhole = 512 * kKiB - 1;

}  // namespace

std::optional<uint32_t> PredictedHeads::prove(DataFiles& files, uint32_t file, uint64_t offset) {
  const auto after =
      std::ranges::upper_bound(items_, std::pair(file, offset), {}, [](const One& i) { return std::pair(i.file, i.offset); });
  if (after == items_.begin()) return std::nullopt;
  const One& item = after[-1];
  if (item.file != file || offset - item.offset >= kinds_[item.kind].length) return std::nullopt;
  std::atomic<uint64_t>& proven = proven_[static_cast<size_t>(&item - items_.data())];
  if (proven == 0) proven = kProven | read(files, item);
  return static_cast<uint32_t>(proven);
}

uint32_t PredictedHeads::read(DataFiles& files, const One& item) const {
  const Kind& kind = kinds_[item.kind];
  const Place place{.path = files.catalog().file_path(item.file), .offset = item.offset, .length = kind.length};
  SliceSource source(files, item.file, kWhole);
  source.go_to(item.offset, kind.length, item.offset + kind.length);
  try {
    const TensorItem t = read_tensor_item(source, place, limits_);
    ItemInfo info = info_of(t, 0);
    const uint32_t crc = std::exchange(info.crc, 0);
    if (is_plain(t) && info == kind.info && t.sizes == kind.sizes) return crc;
  } catch (const Error& e) {
    if (!can_be_collected(e.problem().id)) throw;
  }
  throw UnlikeHead(make_problem(ProblemId::internal, place, "an item that is unlike others of its tensor", "its head to be read first"));
}

}  // namespace dcp
