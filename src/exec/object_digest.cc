#include "exec/object_digest.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <new>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "items/item_source.h"
#include "kernels/kernels.h"

namespace dcp {
namespace {

using Means = TorchGlobal::Kind;
constexpr uint64_t kNowhere = ~uint64_t{0};

// Each part is hashed with its length, so that no two lists of parts give the same bytes.
class Hash {
 public:
  Hash() : state_(XXH3_createState()) {
    if (!state_ || XXH3_128bits_reset(state_.get()) != XXH_OK) throw std::bad_alloc();
  }
  explicit Hash(std::string_view tag) : Hash() { add(tag); }
  Hash& add(std::string_view text) {
    add(uint64_t{text.size()});
    return raw(as_bytes(text));
  }
  Hash& add(uint64_t number) { return raw(std::as_bytes(std::span(&number, 1))); }
  Hash& add(const ObjectDigest& d) { return add(d.low).add(d.high); }
  Hash& add(const std::vector<ObjectDigest>& all) {
    add(uint64_t{all.size()});
    for (const ObjectDigest& d : all) add(d);
    return *this;
  }
  Hash& raw(Bytes bytes) {
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
    return *this;
  }
  ObjectDigest value() const {
    const XXH128_hash_t h = XXH3_128bits_digest(state_.get());
    return {h.low64, h.high64};
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* s) const { XXH3_freeState(s); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

// The current name of a class or function: pickles of protocols up to 2 use those of Python 2. A name in the table that ends in a dot is a
// module.
std::string todays(std::string name) {
  constexpr std::pair<std::string_view, std::string_view> kMoved[] = {{"__builtin__.xrange", "builtins.range"},
                                                                      {"__builtin__.unicode", "builtins.str"},
                                                                      {"__builtin__.long", "builtins.int"},
                                                                      {"__builtin__.unichr", "builtins.chr"},
                                                                      {"__builtin__.reduce", "functools.reduce"},
                                                                      {"__builtin__.", "builtins."},
                                                                      {"exceptions.", "builtins."},
                                                                      {"copy_reg.", "copyreg."},
                                                                      {"UserDict.", "collections."},
                                                                      {"numpy._core.", "numpy.core."}};
  for (const auto& [from, to] : kMoved)
    if (from.ends_with('.') ? name.starts_with(from) : name == from) return name.replace(0, from.size(), to);
  return name;
}

// Two's complement without the bytes that only repeat the sign.
std::string_view shortest(std::string_view number) {
  const auto sign = [](char c) { return (static_cast<unsigned char>(c) & 0x80) != 0; };
  while (number.size() > 1 && number.back() == (sign(number[number.size() - 2]) ? '\xFF' : '\0')) number.remove_suffix(1);
  return number;
}

// The bytes from which bytes.decode("latin-1") makes `text`; nullopt if there are none.
std::optional<std::string> latin1(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    if (c.size == 0 || c.value > 0xFF) return std::nullopt;
    bytes += static_cast<char>(c.value);
    text.remove_prefix(c.size);
  }
  return bytes;
}

ObjectDigest bytes_digest(std::string_view bytes, bool is_array) { return Hash(is_array ? "bytearray" : "bytes").add(bytes).value(); }

ObjectDigest unordered(std::string_view tag, std::vector<ObjectDigest> all) {
  std::ranges::sort(all);
  return Hash(tag).add(all).value();
}

}  // namespace

ObjectDigest joined(const std::vector<ObjectDigest>& pieces) { return Hash("pieces").add(pieces).value(); }

ObjectDigester::ObjectDigester(DataFiles& files, const Catalog& catalog, const OpenObject& object, const Limits& limits)
    : files_(files), catalog_(catalog), object_(object), m_(object.graph.machine()), limits_(limits) {}

// In a container that contains itself, the reference back is identified by its distance upwards. The containers in such a cycle have no
// digest that can be reused.
ObjectDigest ObjectDigester::of(const Value& v) {
  const bool holds_nothing = !v.in_arena() || (v.kind == Kind::kTuple && v.n == 0);  // an empty tuple has no place of its own
  if (holds_nothing || v.kind == Kind::kOpen) return content(v);
  if (const auto known = known_.find(v.payload); known != known_.end()) return known->second;
  const uint64_t depth = open_.size();
  if (const auto found = open_.find(v.payload); found != open_.end()) {
    reach_ = std::min(reach_, found->second);
    return Hash("above").add(depth - found->second).value();
  }
  const Place& place = object_.blob.item.pickle_place;
  if (depth > limits_.pickle_depth)
    fail(ProblemId::over_limit, place, "containers nested " + std::to_string(depth) + " deep",
         "at most " + std::to_string(limits_.pickle_depth));
  const uint64_t max = m_.arena_cells() + limits_.shared_visits;
  if (++visits_ > max)
    fail(ProblemId::over_limit, place, "containers that are shared and add up to more values", "at most " + std::to_string(max));
  const uint64_t before = std::exchange(reach_, kNowhere);
  open_.emplace(v.payload, depth);
  const ObjectDigest digest = content(v);
  open_.erase(v.payload);
  if (reach_ >= depth) {  // it refers to nothing above itself
    known_.emplace(v.payload, digest);
    reach_ = kNowhere;
  }
  reach_ = std::min(reach_, before);
  return digest;
}

ObjectDigest ObjectDigester::content(const Value& v) {
  switch (v.kind) {
    case Kind::kUnset: return Hash("nothing").value();
    case Kind::kNil: return Hash("None").value();
    case Kind::kBool: return Hash("bool").add(v.payload).value();
    case Kind::kInt: {
      const int64_t n = v.integer();
      return Hash("int").add(shortest({reinterpret_cast<const char*>(&n), sizeof n})).value();
    }
    case Kind::kBig: return Hash("int").add(shortest(m_.text(v))).value();
    case Kind::kFloat: return Hash("float").add(std::isnan(std::bit_cast<double>(v.payload)) ? kNowhere : v.payload).value();
    case Kind::kText: return Hash("text").add(m_.text(v)).value();
    case Kind::kBytes: return bytes_digest(m_.text(v), v.tag == 1);
    case Kind::kGlobal: return Hash("global").add(todays(object_.graph.global_of(v))).value();
    case Kind::kTuple: return Hash("tuple").add(elements(v)).value();
    case Kind::kList: return Hash("list").add(elements(v)).value();
    case Kind::kDict: return entries("dict", v);
    case Kind::kSet: return unordered(v.tag == 1 ? "frozenset" : "set", elements(v));
    case Kind::kObject: return object(v);
    case Kind::kTyped:
    case Kind::kOpaque:
    case Kind::kOpen: break;
  }
  fail(ProblemId::internal, object_.blob.item.pickle_place, "a value that no graph holds");
}

ObjectDigester::Digests ObjectDigester::elements(const Value& v) {
  Digests all;
  auto items = m_.items(v);
  for (Value element; items.next(element);) all.push_back(of(element));
  return all;
}

// Digests keys with their values, in any order. If a key occurs twice, the last value counts.
ObjectDigest ObjectDigester::entries(std::string_view tag, const Value& v) {
  std::vector<std::pair<ObjectDigest, ObjectDigest>> pairs;
  auto items = m_.items(v);
  for (Value key, value; items.next(key) && items.next(value);) {
    const ObjectDigest of_key = of(key);
    pairs.emplace_back(of_key, of(value));
  }
  std::ranges::stable_sort(pairs, {}, [](const auto& p) { return p.first; });
  Digests all;
  for (size_t i = 0; i < pairs.size(); ++i)
    if (i + 1 == pairs.size() || pairs[i + 1].first != pairs[i].first) all.insert(all.end(), {pairs[i].first, pairs[i].second});
  return Hash(tag).add(all).value();
}

ObjectDigest ObjectDigester::object(const Value& v) {
  const Value callable = m_.callable_of(v), arguments = m_.arguments_of(v);
  if (object_.graph.is_persistent(v)) return storage(arguments);
  if (const TensorCall call = object_.state.tensor_call(v); !call.opaque && makes_plain(call.kind)) return tensor(call);
  const auto form = static_cast<CallForm>(v.tag);
  if (form == CallForm::kReduce && callable.kind == Kind::kGlobal && arguments.kind == Kind::kTuple)
    if (const auto known = known_form(todays(object_.graph.global_of(callable)), arguments, v)) return *known;
  const std::string_view tag = form == CallForm::kReduce ? "call" : form == CallForm::kNew ? "new" : "new with keywords";
  const Digests given = arguments.kind == Kind::kTuple ? elements(arguments) : Digests{of(arguments)};
  return call(tag, of(callable), given, v);
}

ObjectDigest ObjectDigester::call(std::string_view form, const ObjectDigest& callable, const Digests& arguments, const Value& v) {
  Hash hash(form);
  hash.add(callable).add(arguments).add(of(m_.state_of(v)));
  auto items = m_.items(v);
  Value first;
  if (items.next(first)) hash.add(items.in_pair() ? entries("items", v) : Hash("items").add(elements(v)).value());
  return hash.value();
}

// The bytes of a bytes object, or of the call that makes one: protocols up to 2 have no opcode for bytes.
std::optional<std::string> ObjectDigester::bytes_in(const Value& v) const {
  if (v.kind == Kind::kBytes && v.tag == 0) return std::string(m_.text(v));
  if (v.kind != Kind::kObject || m_.arguments_of(v).kind != Kind::kTuple) return std::nullopt;
  const std::string name = todays(object_.graph.global_of(v));
  const Value arguments = m_.arguments_of(v);
  if (name == "builtins.bytes" && arguments.n == 0) return "";
  return name == "_codecs.encode" ? encoded(arguments) : std::nullopt;
}

// (text, "latin-1")
std::optional<std::string> ObjectDigester::encoded(const Value& arguments) const {
  if (arguments.n != 2) return std::nullopt;
  const Value text = m_.element(arguments, 0), encoding = m_.element(arguments, 1);
  if (text.kind != Kind::kText || encoding.kind != Kind::kText || !m_.text(encoding).starts_with("latin")) return std::nullopt;
  return latin1(m_.text(text));
}

// Digests values that protocols and versions spell in different ways.
std::optional<ObjectDigest> ObjectDigester::known_form(std::string_view name, const Value& arguments, const Value& v) {
  const auto at = [&](uint32_t i) { return m_.element(arguments, i); };
  if (const auto bytes = bytes_in(v)) return bytes_digest(*bytes, false);
  if (name == "builtins.bytearray") {
    const auto bytes = arguments.n == 0 ? std::optional<std::string>("") : arguments.n == 1 ? bytes_in(at(0)) : encoded(arguments);
    if (bytes) return bytes_digest(*bytes, true);
  }
  const bool holds_list = arguments.n == 1 && at(0).kind == Kind::kList;
  if ((name == "builtins.set" || name == "builtins.frozenset") && (holds_list || arguments.n == 0))
    return unordered(name.substr(9), holds_list ? elements(at(0)) : Digests{});
  if (name == "copyreg._reconstructor" && arguments.n == 3 && at(2).kind == Kind::kNil) return call("new", of(at(0)), {}, v);
  if (name == "copyreg.__newobj__" && arguments.n > 0) {
    Digests given = elements(arguments);
    given.erase(given.begin());
    return call("new", of(at(0)), given, v);
  }
  if (name != "numpy.dtype") return std::nullopt;
  Digests given;  // align and copy are numbers in old numpy, bools in new
  for (uint32_t i = 0; i < arguments.n; ++i)
    given.push_back(of(at(i).kind == Kind::kBool ? Value{.kind = Kind::kInt, .payload = at(i).payload} : at(i)));
  return call("call", of(m_.callable_of(v)), given, v);
}

// Digests dtype, shape and elements.
ObjectDigest ObjectDigester::tensor(const TensorCall& call) {
  const BlobItem& archive = object_.blob.item;
  TensorItem t;
  const TorchStorage named = TensorReader(m_, object_.state.names(), limits_, archive.pickle_place).read(call.kind, call.arguments, t);
  const BlobItem::Storage& record = object_.storage(named.key);
  check_record(named, record.bytes, record.payload, archive.pickle_place);
  Hash hash("tensor");
  hash.add(facts_of(t.dtype).name).add(uint64_t{t.sizes.size()});
  for (const int64_t size : t.sizes) hash.add(static_cast<uint64_t>(size));
  const uint64_t element = bytes_of(t.dtype), total = volume(t.sizes) * element;
  const auto finish = [&](MutableBytes bytes) {
    const uint64_t count = bytes.size() / element;
    if (archive.big_endian) swap_bytes(bytes.data(), bytes.size() / swap_unit(t.dtype), swap_unit(t.dtype));
    if (t.conj) conjugate(bytes.data(), count, t.dtype);
    if (t.neg) negate(bytes.data(), count, t.dtype);
    hash.raw(bytes);
  };
  std::vector<std::byte> block;
  if (is_dense(t) && record.packed == 0) {
    for (uint64_t at = 0; at < total; at += block.size()) {
      block.resize(std::min(kMiB, total - at));
      read(record, at, block);
      finish(block);
    }
    return hash.value();
  }
  const std::vector<std::byte> held = whole(record);
  block.resize(total);
  const Numbers dense = row_major(t.sizes);
  if (total > 0)
    copy_strided(block.data(), {dense.data(), t.sizes.size()}, held.data() + t.storage_offset * element, t.strides, t.sizes,
                 static_cast<unsigned>(element));
  finish(block);
  return hash.value();
}

// Digests the bytes of a storage, ("storage", class, key, location, count), for tensors that only their classes understand.
ObjectDigest ObjectDigester::storage(const Value& id) {
  if (id.kind != Kind::kTuple || id.n < 5 || m_.element(id, 2).kind != Kind::kText) return Hash("id").add(of(id)).value();
  Hash hash("storage");
  hash.add(of(m_.element(id, 1))).add(of(m_.element(id, 4)));
  return hash.raw(whole(object_.storage(std::string(m_.text(m_.element(id, 2)))))).value();
}

void ObjectDigester::read(const BlobItem::Storage& record, uint64_t at, MutableBytes into) const {
  const Item& item = catalog_.items[object_.item];
  if (item.transforms != 0) {
    std::ranges::copy(Bytes(object_.blob.decoded).subspan(record.payload + at, into.size()), into.begin());
    return;
  }
  const auto file = files_.open(item.file);
  read_exact(files_.store(), file->get(), record.payload + at, into);
}

std::vector<std::byte> ObjectDigester::whole(const BlobItem::Storage& record) const {
  std::vector<std::byte> bytes(record.bytes);
  if (record.packed == 0) {
    read(record, 0, bytes);
    return bytes;
  }
  const Item packed = Item::deflated(record.payload, record.packed, catalog_.items[object_.item].file);
  ItemDecoder decoder(files_, packed, object_.blob.item.pickle_place, record.bytes);
  decoder.read(bytes);
  return bytes;
}

}  // namespace dcp
