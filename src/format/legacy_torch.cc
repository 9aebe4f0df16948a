#include "format/legacy_torch.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "format/torch_tensor.h"
#include "pickle/tokens.h"

namespace dcp {
namespace {

constexpr int64_t kProtocol = 1001;
constexpr uint64_t kCountBytes = 8;         // before a storage's elements
constexpr uint64_t kFirstBytes = 4 * kKiB;  // of a pickle, doubled as long as it does not end
constexpr uint64_t kBlockBytes = 64 * kKiB;
constexpr uint64_t kMaxKey = 64;  // of a storage: an address in decimal, repeated wherever an object names it
constexpr const char* kStorageId = "('storage', class, key, location, count, view) or ('module', class, file, source)";

// Whether the pickle ends within these bytes. `at` becomes its end, or else the position of its next opcode.
bool ends(Bytes bytes, bool is_all, const Place& place, uint64_t& at) {
  TokenReader reader(bytes, place);
  reader.go_to(at);
  Token t;
  try {
    do {
      reader.next(t);
      at = reader.position();
    } while (t.op != Op::STOP);
    return true;
  } catch (const Error& e) {
    const ProblemId id = e.problem().id;
    const bool goes_on = id == ProblemId::pickle_no_stop || id == ProblemId::pickle_truncated || id == ProblemId::pickle_frame;
    if (is_all || !goes_on) throw;
    return false;
  }
}

// Reads pickles one after another. Nothing says how long one is.
class PickleStream {
 public:
  PickleStream(ItemSource& file, const Place& file_place, const Limits& limits) : file_(file), file_place_(file_place), limits_(limits) {}

  uint64_t position() const { return position_; }
  Place place() const { return at_offset(file_place_, position_); }  // of the next one

  std::vector<std::byte> next() {
    const uint64_t left = file_.size() - position_;
    std::vector<std::byte> bytes;
    uint64_t end = 0;
    for (uint64_t most = kFirstBytes;; most *= 2) {
      most = std::min({most, left, limits_.archive_pickle_bytes});
      check_memory(most);
      bytes.reserve(most);
      while (bytes.size() < most) {
        const Bytes block = file_.at(position_ + bytes.size(), std::min(kBlockBytes, most - bytes.size()));
        bytes.insert(bytes.end(), block.begin(), block.end());
      }
      if (ends(bytes, most == left, place(), end)) break;
      if (most == limits_.archive_pickle_bytes) fail_limit();
    }
    position_ += end;
    return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(end)};
  }

 private:
  // A growing vector exists twice for a moment.
  void check_memory(uint64_t bytes) const {
    if (2 * bytes <= limits_.memory_bytes) return;
    throw Error(with_remedy(make_problem(ProblemId::memory_cap, place(),
                                         "the pickle of its state dict needs " + std::to_string(2 * bytes / kMiB + 1) + " MiB or more, " +
                                             human_bytes(limits_.memory_bytes) + " are left"),
                            Remedy::kMoreMemory));
  }
  [[noreturn]] void fail_limit() const {
    const std::string max = std::to_string(limits_.archive_pickle_bytes);
    throw Error(with_remedy(make_problem(ProblemId::over_limit, place(), "a pickle of more than " + max + " bytes", "at most " + max),
                            Remedy::kLargerPickle));
  }

  ItemSource& file_;
  const Place& file_place_;
  const Limits& limits_;
  uint64_t position_ = 0;
};

class LegacyReader {
 public:
  LegacyReader(ItemSource& file, const Place& place, const Limits& limits)
      : file_(file), place_(place), limits_(limits), stream_(file, place, limits) {}

  LegacyTorch read() {
    read_header();
    read_object();
    read_ids();
    read_storages();
    return std::move(out_);
  }

 private:
  struct Id {
    Value whole;        // ("storage", class, key, location, count)
    Value part = {};    // the same for a part of it; kUnset: the whole storage
    Value offset = {};  // of the part
  };
  struct Whole {
    TorchStorage storage;
    bool is_used = false;  // as a whole, and not only in part
    bool is_read = false;
    uint64_t payload = 0;
  };
  struct Part {
    TorchStorage storage;
    const Whole* of = nullptr;
    uint64_t offset = 0;  // bytes
  };

  // Reads a pickle of plain values: all pickles that torch writes around the object's are plain.
  template <class Fn>
  void read_plain(const Fn& fn) {
    const Place here = stream_.place();
    const std::vector<std::byte> bytes = stream_.next();
    const PickleGraph graph(bytes, here, limits_);
    for (const auto& [module, name] : graph.globals())
      fail(ProblemId::legacy_header, here, std::string(module) + "." + std::string(name), "plain values");
    fn(graph.machine(), graph.root(), here);
  }

  void read_header() {
    stream_.next();  // the magic number
    read_plain([](const PickleMachine& m, const Value& v, const Place& here) {
      if (v.kind != Kind::kInt || v.integer() != kProtocol)
        fail(ProblemId::legacy_header, here, m.describe(v), "protocol version " + std::to_string(kProtocol));
    });
    read_plain([](const PickleMachine& m, const Value& v, const Place& here) {
      if (v.kind != Kind::kDict) return;
      PickleMachine::Items items = m.items(v);
      for (Value key, value; items.next(key) && items.next(value);)
        if (m.is_text(key, "little_endian") && value.kind == Kind::kBool && value.payload == 0) fail(ProblemId::legacy_big_endian, here);
    });
  }

  void read_object() {
    BlobItem& archive = out_.archive;
    archive.pickle_place = stream_.place();
    archive.pickle = stream_.next();
    archive.packed_pickle = archive.pickle.size();
    Limits left = limits_;
    left.memory_bytes -= std::min(left.memory_bytes, archive.packed_pickle + kMiB);
    out_.graph = std::make_unique<PickleGraph>(archive.pickle, archive.pickle_place, left,
                                               [this](PickleMachine& m, const Value& id) { return stand_for(m, id); });
  }

  Value stand_for(PickleMachine& m, const Value& id) {
    const auto at = [&](uint32_t i) { return m.element(id, i); };
    if (id.kind == Kind::kTuple && id.n == 4 && m.is_text(at(0), "module")) return at(1);
    if (id.kind != Kind::kTuple || id.n != 6 || !m.is_text(at(0), "storage"))
      fail(ProblemId::pickle_storage_id, m.place(), m.describe(id), kStorageId);
    Id found{.whole = {.kind = Kind::kTuple, .n = 5, .payload = id.payload}};
    if (const Value view = at(5); view.kind != Kind::kNil) {
      if (view.kind != Kind::kTuple || view.n != 3)
        fail(ProblemId::pickle_storage_id, m.place(), m.describe(view), "None or (view key, offset, view count)");
      found.part = m.tuple(std::array{at(0), at(1), m.element(view, 0), at(3), m.element(view, 2)});
      found.offset = m.element(view, 1);
    }
    ids_.push_back(found);
    return PickleGraph::stand_for(m, found.part.kind == Kind::kUnset ? found.whole : found.part);
  }

  // Reads the persistent ids. All ids of one key must agree, since torch uses the first.
  void read_ids() {
    const GraphNames names(*out_.graph);
    const TensorReader reader(out_.graph->machine(), names, limits_, out_.archive.pickle_place);
    for (const Id& id : ids_) {
      const TorchStorage storage = checked(reader, id.whole);
      Whole& whole = wholes_.try_emplace(storage.key, Whole{storage}).first->second;
      check_same(whole.storage, storage);
      if (id.part.kind == Kind::kUnset) whole.is_used = true;
      else read_part(whole, checked(reader, id.part), id.offset);
      if (wholes_.size() + parts_.size() > limits_.zip_records)
        fail(ProblemId::over_limit, out_.archive.pickle_place, "more storages", "at most " + std::to_string(limits_.zip_records));
    }
    for (const auto& [key, part] : parts_)
      if (const auto same = wholes_.find(key); same != wholes_.end()) fail_twice(key, "a whole one and a part of one");
    ids_ = {};
  }

  void read_part(const Whole& whole, TorchStorage storage, const Value& offset) {
    const PickleMachine& m = out_.graph->machine();
    const uint64_t element = bytes_of(whole.storage.dtype), max = whole.storage.bytes - std::min(storage.bytes, whole.storage.bytes);
    const bool fits = offset.kind == Kind::kInt && offset.integer() >= 0 && storage.bytes <= whole.storage.bytes &&
                      static_cast<uint64_t>(offset.integer()) <= max / element;
    if (!fits)
      fail(ProblemId::legacy_view, place_of(storage.key), counted(storage.bytes / element, "element") + " at " + m.describe(offset),
           "within " + std::to_string(whole.storage.bytes / element));
    const uint64_t at = static_cast<uint64_t>(offset.integer()) * element;
    const Part part{.storage = std::move(storage), .of = &whole, .offset = at};
    const Part& known = parts_.try_emplace(part.storage.key, part).first->second;
    check_same(known.storage, part.storage);
    check_same(known.of->storage, part.of->storage);
    if (known.of != part.of || known.offset != part.offset) fail_twice(part.storage.key, "two parts");
  }

  TorchStorage checked(const TensorReader& reader, const Value& id) const {
    const Value key = reader.machine().element(id, 2);
    if (key.kind == Kind::kText && key.n > kMaxKey)
      fail(ProblemId::over_limit, out_.archive.pickle_place, "a storage's key of " + std::to_string(key.n) + " bytes",
           "at most " + std::to_string(kMaxKey));
    return reader.storage(id);
  }

  // An empty storage may be seen as any class.
  void check_same(const TorchStorage& first, const TorchStorage& again) const {
    if (first.bytes != again.bytes) fail_twice(first.key, std::to_string(first.bytes) + " and " + std::to_string(again.bytes) + " bytes");
    if (first.bytes > 0 && (first.dtype != again.dtype || first.typed != again.typed)) fail_twice(first.key, "two classes");
  }
  [[noreturn]] void fail_twice(const std::string& key, std::string got) const {
    fail(ProblemId::legacy_storage_twice, place_of(key), std::move(got));
  }
  Place place_of(const std::string& key) const {
    Place here = out_.archive.pickle_place;
    here.member = "storage " + key;
    return here;
  }

  void read_storages() {
    const Place here = stream_.place();
    uint64_t listed = 0;
    read_plain([&](const PickleMachine& m, const Value& keys, const Place&) {
      if (keys.kind != Kind::kList) fail(ProblemId::legacy_keys, here, m.describe(keys), "a list of the keys of storages");
      position_ = stream_.position();
      PickleMachine::Items items = m.items(keys);
      for (Value key; items.next(key); ++listed) {
        const auto found = key.kind == Kind::kText && key.n <= kMaxKey ? wholes_.find(std::string(m.text(key))) : wholes_.end();
        if (found == wholes_.end()) fail(ProblemId::legacy_keys, here, m.describe(key), "a storage of the object");
        if (std::exchange(found->second.is_read, true)) fail(ProblemId::legacy_keys, here, found->first + " twice", "each storage once");
        read_storage(found->second);
      }
    });
    for (const auto& [key, whole] : wholes_)
      if (!whole.is_read)
        fail(ProblemId::legacy_keys, here, counted(listed, "storage") + ", without " + key, std::to_string(wholes_.size()));
    out_.end = position_;
    for (const auto& [key, part] : parts_) keep(part.storage, part.of->payload + part.offset);
    std::ranges::sort(out_.archive.storages, {}, [](const BlobItem::Storage& s) { return std::pair(s.payload, s.bytes); });
  }

  void read_storage(Whole& whole) {
    const TorchStorage& s = whole.storage;
    Place here = at_offset(place_, position_);
    here.member = "storage " + s.key;
    const auto wanted = static_cast<int64_t>(s.bytes / bytes_of(s.dtype));
    if (file_.size() - position_ < kCountBytes) fail(ProblemId::short_file, here);
    const auto count = load_le<int64_t>(file_.at(position_, kCountBytes).data());
    if (count != wanted)
      fail(count < wanted ? ProblemId::item_short_storage : ProblemId::item_long_storage, here, std::to_string(count),
           counted(s.bytes / bytes_of(s.dtype), "element"));
    whole.payload = position_ + kCountBytes;
    const uint64_t left = file_.size() - whole.payload;
    if (s.bytes > left) fail(ProblemId::short_file, here, std::to_string(left) + " bytes", std::to_string(s.bytes));
    position_ = whole.payload + s.bytes;
    if (whole.is_used) keep(s, whole.payload);
  }

  void keep(const TorchStorage& storage, uint64_t payload) {
    out_.archive.storages.push_back({.key = storage.key, .payload = payload, .bytes = storage.bytes});
  }

  ItemSource& file_;
  const Place& place_;
  const Limits& limits_;
  PickleStream stream_;
  LegacyTorch out_;
  std::vector<Id> ids_;
  std::unordered_map<std::string, Whole> wholes_;
  std::unordered_map<std::string, Part> parts_;
  uint64_t position_ = 0;  // in the storages
};

}  // namespace

bool begins_legacy_torch(Bytes begin) {
  constexpr std::string_view kProto = "\x80", kFrame = "\x95";
  constexpr size_t kProtoBytes = 2, kFrameBytes = 9;  // a frame since protocol 4
  std::string_view text = as_text(begin);
  if (!text.starts_with(kProto) || text.size() < kProtoBytes) return false;
  text.remove_prefix(kProtoBytes);
  if (text.starts_with(kFrame)) text.remove_prefix(std::min(kFrameBytes, text.size()));
  return text.starts_with(kLegacyMagic);
}

LegacyTorch read_legacy_torch(ItemSource& file, const Place& place, const Limits& limits) {
  return LegacyReader(file, place, limits).read();
}

}  // namespace dcp
