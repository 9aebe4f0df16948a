#include "inputs/item_files.h"

#include "base/checked.h"
#include "base/text.h"
#include "format/json_pickle.h"
#include "pickle/writer.h"

namespace dcp {
namespace {

class TensorsReader {
 public:
  TensorsReader(const SafetensorsFile& file, const RankFile& of, ItemLayouts* layouts, TorchFacts& facts, std::vector<std::string>& keys)
      : file_(file), of_(of), layouts_(layouts), facts_(facts), keys_(keys) {
    keys_.clear();
    keys_.reserve(file.header.entries.size());  // the content views them
  }

  MetadataContent read() {
    out_.files.push_back(of_.name);
    out_.transforms.emplace_back();
    out_.has_planner_data = true;
    for (const SafetensorsEntry& e : file_.header.entries) {
      if (e.fault) throw Error(*e.fault);
      std::string key;
      for (const std::string& name : of_.under) key += name + ".";
      if (e.name.empty() && !key.empty()) key.pop_back();  // an item that is one tensor
      keys_.push_back(key + e.name);
      add(e, keys_.back());
    }
    return std::move(out_);
  }

 private:
  void add(const SafetensorsEntry& e, const std::string& key) {
    const std::vector<int64_t> zeros(e.shape.size(), 0);
    TensorPart part{.local = {}, .local_sizes = e.shape, .sizes = e.shape, .boxes = {{zeros, e.shape, zeros}}};
    const ListedTensor* listed = nullptr;
    if (layouts_ != nullptr) {
      auto known = layouts_->part(of_, key, {.sizes = e.shape, .dtype = e.dtype}, file_.place);
      if (known) part = std::move(*known);
      else if (layouts_->lists(of_)) layouts_->note_unlisted(key, file_.place);
      else if (layouts_->of_several_ranks()) part.boxes.clear();  // nothing says what it is a part of
      listed = layouts_->find(of_, key);
    }
    add_path(key, listed, e);
    out_.order.push_back(KeyRef::tensor_at(out_.tensors.size()));
    out_.tensors.push_back({.key = key,
                            .dtype = e.dtype,
                            .dtype_name = facts_of(e.dtype).name,
                            .rank = narrow<uint32_t>(part.sizes.size()),
                            .dims_at = numbers(part.sizes),
                            .first_chunk = out_.chunks.size(),
                            .chunk_count = part.boxes.size()});
    for (const TensorPart::Box& box : part.boxes) add_chunk(e, key, box);
  }

  void add_chunk(const SafetensorsEntry& e, const std::string& key, const TensorPart::Box& box) {
    ItemInfo info{.record = e.offset, .record_bytes = e.bytes, .dtype = e.dtype, .resolved = true};
    if (box.sizes != e.shape) {
      std::vector<int64_t> strides(e.shape.size(), 1);
      for (size_t d = e.shape.size(); d-- > 1;) strides[d - 1] = strides[d] * e.shape[d];
      int64_t first = 0;
      for (size_t d = 0; d < strides.size(); ++d) first += box.local_offsets[d] * strides[d];
      info.strides_at = facts_.strides.size();
      facts_.strides.push_back(first);
      facts_.strides.insert(facts_.strides.end(), strides.begin(), strides.end());
    }
    const uint64_t offsets = numbers(box.offsets);
    out_.chunks.push_back({.offsets_at = offsets, .sizes_at = numbers(box.sizes)});
    out_.storage.push_back({.key = key,
                            .has_offset = true,
                            .rank = narrow<uint16_t>(uint64_t{box.offsets.size()}),
                            .offsets_at = offsets,
                            .offset = e.offset,
                            .length = e.bytes,
                            .value = narrow<uint32_t>(uint64_t{facts_.values.size()})});
    facts_.values.push_back({.value = {}, .info = info});
  }

  // As the metadata has it: names in the file are joined by dots, and may have dots themselves.
  void add_path(const std::string& key, const ListedTensor* listed, const SafetensorsEntry& e) {
    MetadataContent::Path path{.key = key, .first = out_.path_elements.size()};
    for (const std::string& name : of_.under) out_.path_elements.push_back({.name = name});
    if (listed == nullptr) out_.path_elements.push_back({.name = e.name});
    for (size_t n = 0; listed != nullptr && n < listed->path.size(); ++n) {
      const auto position = listed->is_position[n] ? decimal<int64_t>(listed->path[n]) : std::nullopt;
      if (position) out_.path_elements.push_back({.name = {}, .position = *position});
      else out_.path_elements.push_back({.name = listed->path[n]});
    }
    path.count = narrow<uint32_t>(out_.path_elements.size() - path.first);
    out_.paths.push_back(path);
  }

  uint64_t numbers(const std::vector<int64_t>& values) {
    out_.ints.insert(out_.ints.end(), values.begin(), values.end());
    return out_.ints.size() - values.size();
  }

  const SafetensorsFile& file_;
  const RankFile& of_;
  ItemLayouts* layouts_;
  TorchFacts& facts_;
  std::vector<std::string>& keys_;
  MetadataContent out_;
};

}  // namespace

std::unique_ptr<TorchFile> file_of_pickle(std::string_view pickle, const Place& place, uint64_t bytes, const Limits& limits) {
  auto file = std::make_unique<TorchFile>();
  const Bytes made = as_bytes(pickle);
  file->archive.pickle.assign(made.begin(), made.end());
  file->archive.packed_pickle = bytes;
  file->archive.pickle_place = place;
  file->archive.pickle_place.offset = 0;
  file->graph = std::make_unique<PickleGraph>(file->archive.pickle, file->archive.pickle_place, limits);
  return file;
}

std::unique_ptr<TorchFile> read_json_item(Bytes json, const Place& place, const Limits& limits) {
  return file_of_pickle(pickle_of_json(as_text(json), place, limits, ProblemId::not_checkpoint), place, json.size(), limits);
}

std::unique_ptr<TorchFile> read_raw_item(Bytes bytes, const Place& place, const Limits& limits) {
  std::string pickle, text;
  for (const std::byte b : bytes) {  // as torch.save writes bytes: what loads only weights reads no other form
    const auto c = std::to_integer<unsigned char>(b);
    if (c >= 0x80) text.push_back(static_cast<char>(0xC0 | c >> 6));
    text.push_back(static_cast<char>(c < 0x80 ? c : 0x80 | (c & 0x3F)));
  }
  PickleWriter out(pickle, PickleProtocol::k2);
  out.begin();
  out.global("_codecs", "encode");
  out.text(text);
  out.text("latin1");
  out.tuple(2);
  out.op(Op::REDUCE);
  out.end();
  return file_of_pickle(pickle, place, bytes.size(), limits);
}

MetadataContent content_of_tensors(const SafetensorsFile& file, const RankFile& of, ItemLayouts* layouts, TorchFacts& facts,
                                   std::vector<std::string>& keys) {
  return TensorsReader(file, of, layouts, facts, keys).read();
}

}  // namespace dcp
