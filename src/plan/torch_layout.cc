#include "plan/torch_layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "format/torch_archive.h"
#include "pickle/weights_only.h"
#include "plan/layout.h"

namespace dcp {
namespace {

bool is_spliced(const SourceFacts& source, const Entry& e) { return e.is_blob() || is_opaque(source, e.tensor()); }

ItemId spliced_item(const Catalog& catalog, const Entry& e) {
  return e.is_blob() ? catalog.item_of(e.blob()) : catalog.item_of(catalog.tensors[e.tensor()], 0);
}

// What torch.load(weights_only=True) refuses in a byte item; "" if it refuses nothing.
std::string refused(const SpliceResult& result) {
  std::string text;
  for (const std::string& g : result.globals)
    if (!weights_only_allows(g)) text += (text.empty() ? "" : ", ") + g;
  if (text.empty() && !result.weights_only_opcodes) text = "opcodes of a newer pickle protocol";
  return text;
}

}  // namespace

TorchFileLayout::TorchFileLayout(const SourceFacts& source, Options options, Plan& plan)
    : catalog_(source.catalog),
      resolved_(source.resolved),
      options_(std::move(options)),
      plan_(plan),
      writer_(pickle_, PickleProtocol::k2) {
  for (const auto& [item, first] : source.resolved.shared) shared_.insert(first);
}

void TorchFileLayout::add(std::string name, const Containers& c, const PlaceTensor& place) {
  const Tree::Node& node = c.tree.node(c.node);
  if (node.kind == Tree::Node::Kind::kLeaf) return add(std::move(name), c.entries[node.entry], place);
  begin(place);
  write_container(c.tree, c.node, writer_, [&](uint32_t entry) { leaf(c.entries[entry]); }, c.holes);
  end(std::move(name));
}

void TorchFileLayout::add(std::string name, const Entry& value, const PlaceTensor& place) {
  begin(place);
  leaf(value);
  end(std::move(name));
}

void TorchFileLayout::begin(const PlaceTensor& place) {
  place_ = &place;
  writer_ = PickleWriter(pickle_, PickleProtocol::k2);
  writer_.begin();
}

void TorchFileLayout::leaf(const Entry& e) {
  if (is_spliced({catalog_, resolved_}, e)) splice(e);
  else tensor(e);
}

// A global or text that every tensor uses: it is written once and then read from the memo.
void TorchFileLayout::shared(std::string_view module, std::string_view name) {
  const auto [it, fresh] = memo_.try_emplace(std::string(module) + '\n' + std::string(name));
  if (!fresh) return writer_.get(it->second);
  if (module.empty()) writer_.text(name);
  else writer_.global(module, name);
  it->second = writer_.put();
}

void TorchFileLayout::tensor(const Entry& e) {
  const TensorInFile part = (*place_)(e);
  const DTypeFacts& dtype = facts_of(e.dtype);
  if (part.dtensor) begin_dtensor(dtype, *part.dtensor);
  plain_tensor(dtype, part.shape);
  storages_.push_back({{ArchivePayload::Kind::kRegion, part.regions.front()}, volume(part.shape) * dtype.bytes, part.regions});
  if (part.dtensor) end_dtensor(dtype, *part.dtensor);
}

// _rebuild_tensor_v2(storage, 0, size, stride, False, OrderedDict()) with the next storage; v3, with an untyped storage and the dtype last, for
// dtypes that have no storage class of their own. Source: torch/_utils.py.
void TorchFileLayout::plain_tensor(const DTypeFacts& dtype, Dims shape) {
  const bool typed = !dtype.storage.empty();
  const uint64_t elements = volume(shape);
  shared("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  writer_.op(Op::MARK);
  writer_.op(Op::MARK);
  shared("", "storage");
  if (typed) shared("torch", dtype.storage);
  else shared("torch.storage", "UntypedStorage");
  writer_.text(std::to_string(storages_.size()));
  shared("", "cpu");
  writer_.integer(static_cast<int64_t>(typed ? elements : elements * dtype.bytes));
  writer_.op(Op::TUPLE);
  writer_.op(Op::BINPERSID);
  writer_.integer(0);
  numbers(shape);
  numbers(contiguous_strides(shape));
  writer_.boolean(false);
  shared("collections", "OrderedDict");
  writer_.op(Op::EMPTY_TUPLE);
  writer_.op(Op::REDUCE);
  if (!typed) shared("torch", dtype.name);
  writer_.op(Op::TUPLE);
  writer_.op(Op::REDUCE);
}

// DTensors as torch 2.15 pickles them (torch/distributed/tensor, device_mesh.py), on a mesh without process groups:
//   _rebuild_from_type_v2(_rebuild_wrapper_subclass, DTensor, (DTensor, dtype, size, stride, 0, layout, device, False),
//                         (None, {"_local_tensor": part, "_spec": DTensorSpec}))

void TorchFileLayout::begin_dtensor(const DTypeFacts& dtype, const DTensorForm& form) {
  shared("torch._tensor", "_rebuild_from_type_v2");
  writer_.op(Op::MARK);
  shared("torch._utils", "_rebuild_wrapper_subclass");
  shared("torch.distributed.tensor", "DTensor");
  writer_.op(Op::MARK);
  shared("torch.distributed.tensor", "DTensor");
  shared("torch", dtype.name);
  numbers(form.sizes);
  numbers(contiguous_strides(form.sizes));
  writer_.integer(0);
  shared("torch.serialization", "_get_layout");
  shared("", "torch.strided");
  writer_.tuple(1);
  writer_.op(Op::REDUCE);
  shared("torch", "device");
  shared("", "cpu");
  writer_.tuple(1);
  writer_.op(Op::REDUCE);
  writer_.boolean(false);
  writer_.op(Op::TUPLE);
  writer_.op(Op::NONE);
  writer_.op(Op::EMPTY_DICT);
  writer_.op(Op::MARK);
  shared("", "_local_tensor");
}

void TorchFileLayout::end_dtensor(const DTypeFacts& dtype, const DTensorForm& form) {
  shared("", "_spec");
  object("torch.distributed.tensor._dtensor_spec", "DTensorSpec");
  shared("", "mesh");
  mesh(form);
  shared("", "placements");
  writer_.op(Op::MARK);
  for (size_t m = 0; m < form.placements.size(); ++m) placement(form.placements[m], form.split_factors[m]);
  writer_.op(Op::TUPLE);
  shared("", "tensor_meta");
  shared("torch.distributed.tensor._dtensor_spec", "TensorMeta");
  shared("torch", "Size");
  numbers(form.sizes);
  writer_.tuple(1);
  writer_.op(Op::REDUCE);
  numbers(contiguous_strides(form.sizes));
  shared("torch", dtype.name);
  writer_.tuple(3);
  writer_.op(Op::NEWOBJ);
  shard_order(form);
  shared("", "_hash");
  writer_.op(Op::NONE);
  writer_.op(Op::SETITEMS);
  writer_.op(Op::BUILD);
  writer_.op(Op::SETITEMS);
  writer_.tuple(2);
  writer_.op(Op::TUPLE);
  writer_.op(Op::REDUCE);
}

// Its ranks are a tensor, too. Each file has one of a mesh.
void TorchFileLayout::mesh(const DTensorForm& form) {
  const auto [known, fresh] = memo_.try_emplace("mesh of " + std::to_string(form.mesh.sizes.size()) + "\n");
  if (!fresh) return writer_.get(known->second);
  std::vector<int64_t> ranks(form.mesh.ranks()), coordinate;
  std::iota(ranks.begin(), ranks.end(), int64_t{0});
  object("torch.distributed.device_mesh", "DeviceMesh");
  shared("", "_device_type");
  shared("", form.device_type);
  shared("", "_layout");
  mesh_layout(form, coordinate);
  shared("", "_rank_map");
  const auto count = static_cast<int64_t>(ranks.size());
  plain_tensor(facts_of(DType::int32), {&count, 1});
  std::string bytes(ranks.size() * 4, '\0');
  for (size_t r = 0; r < ranks.size(); ++r) store_le(reinterpret_cast<std::byte*>(bytes.data()) + 4 * r, static_cast<int32_t>(r));
  storages_.push_back({{ArchivePayload::Kind::kLiteral, narrow<uint32_t>(plan_.literals.size())}, bytes.size()});
  plan_.literals.push_back({.file = narrow<uint32_t>(plan_.files.size()), .bytes = std::move(bytes)});
  shared("", "_mesh_dim_names");
  if (form.mesh.names.empty()) {
    writer_.op(Op::NONE);
  } else {
    writer_.op(Op::MARK);
    for (const std::string& name : form.mesh.names) writer_.text(name);
    writer_.op(Op::TUPLE);
  }
  shared("", "_root_mesh");
  writer_.op(Op::NONE);
  shared("", "_preserve_rank_order");
  writer_.boolean(false);
  shared("", "_flatten_rank_map");
  numbers(ranks);
  shared("", "_thread_id");
  writer_.op(Op::NONE);
  shared("", "_flatten_mapping");
  writer_.op(Op::EMPTY_DICT);
  shared("", "_dim_group_names");
  writer_.op(Op::EMPTY_LIST);
  shared("", "_rank");
  writer_.integer(form.rank);
  shared("", "_coordinate_on_dim");
  numbers(coordinate);
  shared("", "_hash");
  writer_.op(Op::NONE);
  writer_.op(Op::SETITEMS);
  writer_.op(Op::BUILD);
  known->second = writer_.put();
}

// How ranks are numbered along it: the last dim fastest.
void TorchFileLayout::mesh_layout(const DTensorForm& form, std::vector<int64_t>& coordinate) {
  object("torch.distributed._mesh_layout", "_MeshLayout");
  shared("", "axes");
  writer_.op(Op::MARK);
  auto stride = static_cast<int64_t>(form.mesh.ranks());
  for (const int64_t size : form.mesh.sizes) {
    stride /= size;
    coordinate.push_back(form.rank / stride % size);
    object("torch.distributed._mesh_layout", "_FlatLayout");
    shared("", "shape");
    numbers({&size, 1});
    shared("", "stride");
    numbers({&stride, 1});
    writer_.op(Op::SETITEMS);
    writer_.op(Op::BUILD);
  }
  writer_.op(Op::TUPLE);
  writer_.op(Op::SETITEMS);
  writer_.op(Op::BUILD);
}

void TorchFileLayout::placement(const Placement& p, uint64_t split_factor) {
  using Kind = Placement::Kind;
  object("torch.distributed.tensor.placement_types", p.kind == Kind::kShard     ? "Shard"
                                                     : p.kind == Kind::kStrided ? "_StridedShard"
                                                                                : "Replicate");
  if (p.kind != Kind::kReplicate) {
    shared("", "dim");
    writer_.integer(p.dim);
  }
  if (p.kind == Kind::kStrided) {
    shared("", "split_factor");
    writer_.integer(static_cast<int64_t>(split_factor));
  }
  writer_.op(Op::SETITEMS);
  writer_.op(Op::BUILD);
}

// Of each dim that is split, the dims of the mesh that split it; strided placements say it themselves.
void TorchFileLayout::shard_order(const DTensorForm& form) {
  using Kind = Placement::Kind;
  const bool is_strided = std::ranges::any_of(form.placements, [](const Placement& p) { return p.kind == Kind::kStrided; });
  std::map<int64_t, std::vector<int64_t>> order;
  for (size_t m = 0; m < form.placements.size(); ++m)
    if (form.placements[m].kind != Kind::kReplicate) order[form.placements[m].dim].push_back(static_cast<int64_t>(m));
  shared("", "shard_order");
  if (is_strided) {
    writer_.op(Op::NONE);
  } else {
    writer_.op(Op::MARK);
    for (const auto& [dim, mesh_dims] : order) {
      shared("torch.distributed.tensor._dtensor_spec", "ShardOrderEntry");
      writer_.integer(dim);
      numbers(mesh_dims);
      writer_.tuple(2);
      writer_.op(Op::NEWOBJ);
    }
    writer_.op(Op::TUPLE);
  }
  shared("", "use_strided_shard_as_shard_order");
  writer_.boolean(is_strided);
}

// An object whose state is a dict; its entries follow, then SETITEMS and BUILD.
void TorchFileLayout::object(std::string_view module, std::string_view name) {
  shared(module, name);
  writer_.op(Op::EMPTY_TUPLE);
  writer_.op(Op::NEWOBJ);
  writer_.op(Op::EMPTY_DICT);
  writer_.op(Op::MARK);
}

void TorchFileLayout::numbers(Dims values) {
  if (values.size() > 3) writer_.op(Op::MARK);
  for (int64_t v : values) writer_.integer(v);
  if (values.size() > 3) writer_.op(Op::TUPLE);
  else writer_.tuple(values.size());
}

void TorchFileLayout::splice(const Entry& e) {
  const ItemId item = spliced_item(catalog_, e);
  const ResolvedBlob& blob = resolved_.blob(item);
  const Place place = catalog_.place_of(item, catalog_.key(e.ref));
  if (blob.item.big_endian && !blob.item.storages.empty()) fail(ProblemId::blob_big_endian, place);
  const StoragesByKey of_key = by_key(blob.item);
  const auto rename = [&](std::string_view key) {
    const auto it = of_key.find(key);
    if (it == of_key.end()) fail(ProblemId::item_no_record, place, "data/" + std::string(key));
    const BlobItem::Storage& s = *it->second;
    const auto copy = narrow<uint32_t>(plan_.copies.size());
    plan_.copies.push_back({.item = item,
                            .packed = s.packed,
                            .from_decoded = !blob.decoded.empty(),
                            .source_offset = s.payload,
                            .bytes = s.bytes,
                            .file = narrow<uint32_t>(plan_.files.size())});
    add_check(plan_, {.at = 0, .bytes = s.bytes, .crc = s.crc, .has_crc = options_.verify && s.has_crc});
    storages_.push_back({{ArchivePayload::Kind::kCopy, copy}, s.bytes});
    return std::to_string(storages_.size() - 1);
  };
  // Keys that have one item in the source have one value in the output.
  const ItemId first = resolved_.first_of(item);
  if (const auto done = spliced_.find(first); done != spliced_.end()) {
    writer_.get(done->second.slot);
    if (done->second.is_unsafe)
      plan_.unsafe.push_back({std::string(catalog_.key(e.ref)), "one item with '" + std::string(done->second.key) + "'"});
    return;
  }
  const SpliceResult result = splice_pickle(blob.item.pickle, blob.item.pickle_place, options_.limits, rename, writer_);
  const bool is_unsafe = options_.notes_unsafe && note_unsafe(e, result);
  if (shared_.contains(first)) spliced_[first] = {writer_.put(), is_unsafe, catalog_.key(e.ref)};
}

bool TorchFileLayout::note_unsafe(const Entry& e, const SpliceResult& result) {
  const std::string why = refused(result);
  if (why.empty()) return false;
  plan_.unsafe.push_back({std::string(catalog_.key(e.ref)), why});
  std::set<std::string> globals(plan_.unsafe_globals.begin(), plan_.unsafe_globals.end());
  for (const std::string& g : result.globals)
    if (!weights_only_allows(g)) globals.insert(g);
  plan_.unsafe_globals.assign(globals.begin(), globals.end());
  return true;
}

// Records in torch's order: data.pkl, byteorder, data/0.., version.
void TorchFileLayout::end(std::string name) {
  writer_.end();
  const auto number = narrow<uint32_t>(plan_.files.size());
  OutputFile file{.name = std::move(name), .archive = TorchArchiveLayout(), .payloads = {}};
  const auto literal = [&](const char* record, std::string bytes) {
    const uint64_t at = file.archive->add(record, bytes.size());
    file.payloads.push_back({ArchivePayload::Kind::kLiteral, narrow<uint32_t>(plan_.literals.size())});
    plan_.literals.push_back({.file = number, .file_offset = at, .bytes = std::move(bytes)});
  };
  literal("data.pkl", std::exchange(pickle_, {}));
  literal("byteorder", std::string(kByteorderLittle));
  for (size_t s = 0; s < storages_.size(); ++s) {
    const uint64_t at = file.archive->add("data/" + std::to_string(s), storages_[s].bytes);
    file.payloads.push_back(storages_[s].payload);
    for (const uint32_t r : storages_[s].regions) plan_.regions[r].file_offset += at;
    const uint32_t index = storages_[s].payload.index;
    if (storages_[s].payload.kind == ArchivePayload::Kind::kCopy) plan_.copies[index].file_offset = at;
    if (storages_[s].payload.kind == ArchivePayload::Kind::kLiteral) plan_.literals[index].file_offset = at;
  }
  literal("version", std::string(kArchiveVersion));
  file.bytes = file.archive->total_bytes();
  plan_.bytes_to_write += file.bytes;
  plan_.files.push_back(std::move(file));
  memo_.clear();
  storages_.clear();
  spliced_.clear();
}

void leave_out_unsafe(const SourceFacts& source, const Limits& limits, std::vector<Entry>& entries, Plan& plan) {
  const Catalog& catalog = source.catalog;
  std::map<ItemId, std::string> known;  // for items with several keys
  std::erase_if(entries, [&](const Entry& e) {
    if (!is_spliced(source, e)) return false;
    const ItemId item = spliced_item(catalog, e);
    const auto [why, fresh] = known.try_emplace(source.resolved.first_of(item));
    if (fresh) {
      std::string scratch;
      PickleWriter writer(scratch, PickleProtocol::k2);
      why->second = refused(splice_pickle(
          source.resolved.blob(item).item.pickle, catalog.place_of(item, catalog.key(e.ref)), limits,
          [](std::string_view key) { return std::string(key); }, writer));
    }
    if (why->second.empty()) return false;
    plan.left_out.push_back({std::string(catalog.key(e.ref)), why->second});
    return true;
  });
}

void refuse_opaque_pieces(const SourceFacts& source, const Selection& selection) {
  const Catalog& catalog = source.catalog;
  for (const Entry& e : selection.entries) {
    if (e.is_blob() || catalog.tensors[e.tensor()].chunk_count == 1 || !is_opaque(source, e.tensor())) continue;
    fail(ProblemId::opaque_sharded, {.path = catalog.path, .tensor = std::string(catalog.key(e.ref))},
         std::to_string(catalog.tensors[e.tensor()].chunk_count) + " chunks");
  }
}

}  // namespace dcp
