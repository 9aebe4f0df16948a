// What 2 to 4 ranks saved with torch.save, each a changed copy of one state dict, merged. Whatever they disagree about, each value of the
// checkpoint is that which the file that it comes from gives alone.
#include <map>

#include "fuzz.h"
#include "inputs/rank_shards.h"
#include "inputs/torch_file.h"
#include "unit/inputs/made_ranks.h"
#include "whole.h"

namespace dcp::fuzz {
namespace {

using namespace test;

class Choices {
 public:
  explicit Choices(Bytes input) : input_(input) {}
  bool any() const { return !input_.empty(); }
  uint8_t below(uint8_t end) {
    if (input_.empty()) return 0;
    const auto value = std::to_integer<uint8_t>(input_[0]);
    input_ = input_.subspan(1);
    return value % end;
  }

 private:
  Bytes input_;
};

enum class What : uint8_t { kObject, kDict, kTensor, kMatrix, kSharded, kMissing, kCount };
struct MadeValue {
  uint8_t name = 0;
  What what{};
  uint8_t rows = 0;
  bool is_bf16 = false;
  char content = 'a';
};
using MadeState = std::vector<MadeValue>;
constexpr uint8_t kNames = 6;

std::string file_name(bool verl, const std::string& part, size_t rank, size_t world) {
  return verl ? name_of_rank(rank, world, part) : part + "_" + std::to_string(rank) + ".pt";
}

void write_value(Made& m, const MadeValue& v, size_t rank, std::vector<MadeRecord>& records) {
  const std::string storage = std::to_string(records.size());
  const int64_t rows = v.rows, columns = v.what == What::kTensor ? 1 : 4;
  const DType dtype = v.is_bf16 ? DType::bfloat16 : DType::float32;
  const bool is_tensor = v.what >= What::kTensor;
  const auto elements = static_cast<uint64_t>(rows * columns);
  if (v.what == What::kObject) m.number(v.content);
  if (v.what == What::kDict) m.dict().key("x").number(v.rows).key("y").number(v.content).end_dict();
  if (v.what == What::kSharded) write_part(m, {rows * 2, rows, {static_cast<int64_t>(rank)}, storage});
  else if (v.what == What::kTensor)
    m.tensor({.dtype = dtype, .storage = storage, .storage_elements = elements, .sizes = {rows}, .strides = {1}});
  else if (v.what == What::kMatrix)
    m.tensor({.dtype = dtype, .storage = storage, .storage_elements = elements, .sizes = {rows, columns}, .strides = {columns, 1}});
  const bool is_short = v.is_bf16 && v.what != What::kSharded;
  if (is_tensor) records.push_back({"data/" + storage, std::string(elements * (is_short ? 2 : 4), v.content)});
}

// The first names are the model's, the others an optimizer's.
void put_rank(FakeIo& io, const std::string& path, const MadeState& state, bool is_model, size_t rank) {
  Made m;
  std::vector<MadeRecord> storages;
  std::vector<bool> seen(kNames);
  m.dict();
  for (const MadeValue& v : state) {
    if (seen[v.name] || v.what == What::kMissing || (v.name < kNames / 2) != is_model) continue;
    seen[v.name] = true;
    m.key(std::string(1, static_cast<char>('a' + v.name)));
    write_value(m, v, rank, storages);
  }
  std::vector<MadeRecord> records{{"data.pkl", m.end_dict().done()}, {"byteorder", "little"}};
  records.insert(records.end(), storages.begin(), storages.end());
  records.push_back({"version", "3\n"});
  io.put(path, made_archive(records));
}

// What one file gives.
struct Alone {
  uint64_t offset = 0, length = 0;
  ItemInfo info;
  std::vector<int64_t> sizes;
  std::vector<std::byte> pickle;  // of an object
};

std::map<std::string, Alone> alone(FakeIo& io, const std::string& path) {
  const std::unique_ptr<TorchFile> file = read_torch_file(io, OpenFile(io, io.open_read(path)), path, kLimits);
  StateDict state(*file->graph, file->archive.pickle_place, kLimits);
  const PartOf whole_part = [&](const StateDict::Leaf& leaf) -> std::optional<TensorPart> {
    const std::optional<LocalShard> shard = read_dtensor(*file->graph, leaf);
    if (!shard) return {};
    const std::vector<int64_t>& sizes = shard->local_sizes;
    const std::vector<int64_t> zeros(sizes.size(), 0);
    return TensorPart{.local = shard->local, .local_sizes = sizes, .sizes = sizes, .boxes = {{zeros, sizes, zeros}}};
  };
  TorchFacts facts;
  const MetadataContent content = read_state_dict(*file, {path, state}, whole_part, facts, kLimits);
  std::map<std::string, std::vector<int64_t>> sizes;
  for (const MetadataContent::Tensor& t : content.tensors) {
    const auto* const dims = content.ints.data() + t.dims_at;
    sizes[std::string(t.key)].assign(dims, dims + t.rank);
  }
  std::map<std::string, Alone> all;
  for (const MetadataContent::Storage& s : content.storage) {
    const TorchValue& value = facts.values.at(s.value);
    Alone a{.offset = s.offset, .length = s.length, .info = value.info, .sizes = {}, .pickle = {}};
    if (s.has_offset) a.sizes = sizes.at(std::string(s.key));
    else a.pickle = blob_of(*file, value.value, {.path = path}, kLimits).pickle;
    all.emplace(s.key, std::move(a));
  }
  return all;
}

// Each value of a merged checkpoint against its file's own.
class Comparison {
 public:
  Comparison(FakeIo& io, const Catalog& catalog) : c_(catalog) {
    for (uint32_t f = 0; f < c_.files.size(); ++f) files_.push_back(alone(io, c_.file_path(f)));
  }

  void run() {
    for (const Tensor& t : c_.tensors)
      for (uint32_t n = 0; n < t.chunk_count; ++n) {
        const Dims sizes = c_.box(t, n).sizes;
        boxes_[c_.item_of(t, n)].assign(sizes.begin(), sizes.end());
      }
    for (ItemId i = 0; i < c_.items.size(); ++i)
      if (c_.items[i].file != kNone) compare(c_.key_of_item(i), i, c_.items[i], c_.torch->items.at(i));
    for (size_t d = 0; d < c_.duplicates.size(); ++d)
      compare(c_.strings[c_.duplicates[d].key], c_.duplicates[d].item, c_.duplicates[d].other, c_.torch->copies.at(d));
  }

 private:
  void compare(std::string_view key, ItemId number, const Item& item, const TorchValue& value) const {
    if (value.value.kind == Kind::kUnset && !value.info.resolved) return;  // an empty dict has no key of its own
    key.remove_prefix(key.find('.') + 1);                                  // the part's name
    if (key.starts_with("rank_")) key.remove_prefix(key.find('.') + 1);
    auto found = files_[item.file].find(std::string(key));
    if (found == files_[item.file].end())  // an object that differs, of a rank: KEY.rank_0
      found = files_[item.file].find(std::string(key.substr(0, key.rfind(".rank_"))));
    must(found != files_[item.file].end(), "the file has the key");
    const Alone& own = found->second;
    must(item.offset == own.offset && item.length == own.length, "the item is the key's");
    const ItemInfo &x = value.info, &y = own.info;
    must(x.record == y.record && x.record_bytes == y.record_bytes && x.crc == y.crc && x.dtype == y.dtype && x.resolved == y.resolved,
         "its facts are the key's");
    if (number < c_.chunk_total) return must(boxes_.at(number) == own.sizes, "its shape is the key's");
    must(blob_of(*c_.torch->files.at(item.file), value.value, {}, kLimits).pickle == own.pickle, "the object is the key's");
  }

  const Catalog& c_;
  std::vector<std::map<std::string, Alone>> files_;
  std::map<ItemId, std::vector<int64_t>> boxes_;
};

MadeValue any_value(Choices& choices) {
  MadeValue v;
  v.name = choices.below(kNames);
  v.what = static_cast<What>(choices.below(static_cast<uint8_t>(What::kMissing)));
  v.rows = choices.below(4);
  v.content = static_cast<char>('a' + choices.below(4));
  return v;
}

void change(Choices& choices, std::vector<MadeState>& ranks) {
  MadeState& state = ranks[choices.below(static_cast<uint8_t>(ranks.size()))];
  MadeValue& v = state[choices.below(static_cast<uint8_t>(state.size()))];
  switch (choices.below(6)) {
    case 0: v.what = static_cast<What>(choices.below(static_cast<uint8_t>(What::kCount))); break;
    case 1: v.rows = choices.below(5); break;
    case 2: v.is_bf16 = !v.is_bf16; break;
    case 3: v.content = static_cast<char>('a' + choices.below(26)); break;
    case 4: std::swap(v, state[choices.below(static_cast<uint8_t>(state.size()))]); break;
    default: state.push_back(any_value(choices));
  }
}

}  // namespace

void run(Bytes input) {
  Choices choices(input);
  std::vector<MadeState> ranks(2 + choices.below(3));
  const bool verl = choices.below(2) == 0;
  OpenOptions options{.limits = kLimits};
  if (choices.below(4) == 0) options.prefer_rank = 1;
  MadeState first(1 + choices.below(6));
  for (MadeValue& v : first) v = any_value(choices);
  std::ranges::fill(ranks, first);
  while (choices.any()) change(choices, ranks);

  FakeIo io;
  if (!verl) {
    Made m;
    m.dict().key("metadata").dict().end_dict().key("world_size").number(static_cast<int64_t>(ranks.size()));
    io.put("ckpt/metadata.pkl", m.key("version").key("2.0").end_dict().done());
  }
  for (size_t r = 0; r < ranks.size(); ++r)
    for (const char* const part : {"model", "optim"})
      put_rank(io, "ckpt/" + file_name(verl, part, r, ranks.size()), ranks[r], part == std::string("model"), r);
  const FrozenCatalog opened = open_checkpoint(io, "ckpt", options);
  Comparison(io, opened->catalog).run();
  run_whole(io, "ckpt", input);
}

}  // namespace dcp::fuzz
