#include "format/dcp_metadata_writer.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "pickle/writer.h"

namespace dcp {
namespace {

constexpr std::string_view kMetadataModule = "torch.distributed.checkpoint.metadata";
constexpr std::string_view kOldPropertiesModule = "torch.distributed._shard.sharded_tensor.metadata";
constexpr uint64_t kNoSlot = ~uint64_t{0};
constexpr uint64_t kBatch = 1000;  // entries in one SETITEMS or APPENDS: CPython's _BATCHSIZE
constexpr size_t kBlock = 64 * kKiB;

// A text or a global that occurs often: it is written once and then read from the memo.
struct Shared {
  std::string_view module;  // "": a text
  std::string_view name;
  uint64_t slot = kNoSlot;
};

// Writes a pickle made of a few repeated forms, and passes it on block by block.
class PieceWriter {
 public:
  using Sink = DcpMetadataStream::Sink;

 protected:
  explicit PieceWriter(Sink sink) : sink_(std::move(sink)), out_(text_, PickleProtocol::k4) { out_.begin(); }

  void write(Shared& s) {
    if (s.slot != kNoSlot) return out_.get(s.slot);
    if (s.module.empty()) out_.text(s.name);
    else out_.global(s.module, s.name);
    s.slot = out_.put();
  }
  // An object whose state is a dict: open(), then name and value of each field, then close().
  void open(Shared& cls) {
    write(cls);
    out_.op(Op::EMPTY_TUPLE);
    out_.op(Op::NEWOBJ);
    out_.op(Op::EMPTY_DICT);
    out_.op(Op::MARK);
  }
  void close() {
    out_.op(Op::SETITEMS);
    out_.op(Op::BUILD);
  }
  // A list or dict in batches: begin(), next() before each entry, end(). `n` counts its entries.
  void begin(uint64_t& n, Op empty) {
    out_.op(empty);
    n = 0;
  }
  void next(uint64_t& n, Op add) {
    if (n % kBatch == 0) {
      if (n > 0) out_.op(add);
      out_.op(Op::MARK);
    }
    ++n;
    if (text_.size() < kBlock) return;
    sink_(text_);
    text_.clear();
  }
  void end(uint64_t n, Op add) {
    if (n > 0) out_.op(add);
  }
  // Writes a text that the caller has numbered.
  void write_once(std::vector<uint64_t>& slots, uint32_t number, std::string_view text) {
    if (number >= slots.size()) slots.resize(number + 1, kNoSlot);
    if (slots[number] != kNoSlot) return out_.get(slots[number]);
    out_.text(text);
    slots[number] = out_.put();
  }
  void finish_pickle() {
    out_.end();
    sink_(text_);
  }

 private:
  Sink sink_;
  std::string text_;

 protected:
  PickleWriter out_;  // into text_
};

}  // namespace

class DcpMetadataStream::Writer : PieceWriter {
 public:
  Writer(Sink sink, unsigned for_torch) : PieceWriter(std::move(sink)) {
    if (for_torch < 203) {  // later releases read these names, too
      properties_class_.module = kOldPropertiesModule;
      memory_format_ = {kOldPropertiesModule, "MEM_FORMAT_ENCODING"};
    }
    open(metadata_class_);
    out_.text("state_dict_metadata");
    begin(entries_, Op::EMPTY_DICT);
  }

  void tensor(std::string_view name, std::string_view dtype_name, bool requires_grad, std::span<const int64_t> dims) {
    new_key(name);
    open(tensor_class_);
    write(properties_);
    write_properties(dtype_name, requires_grad);
    write(size_);
    write_size(dims);
    write(chunks_);
    begin(inner_, Op::EMPTY_LIST);
    in_tensor_ = true;
  }

  void chunk(std::span<const int64_t> offsets, std::span<const int64_t> sizes) {
    next(inner_, Op::APPENDS);
    open(chunk_class_);
    write(offsets_);
    write_size(offsets);
    write(sizes_);
    write_size(sizes);
    close();
  }

  void blob(std::string_view name) {
    new_key(name);
    write(blob_class_);
    out_.op(Op::EMPTY_TUPLE);
    out_.op(Op::NEWOBJ);
  }

  void planner_data(bool there_is) {
    end_tensor();
    end(entries_, Op::SETITEMS);
    out_.text("planner_data");
    has_planner_data_ = there_is;
    if (there_is) begin(entries_, Op::EMPTY_DICT);
    else out_.op(Op::NONE);
  }

  void path(uint32_t number, std::string_view name, std::span<const MetadataContent::PathElement> path) {
    next(entries_, Op::SETITEMS);
    write_key(number, name);
    if (path.size() > 3) out_.op(Op::MARK);
    for (const MetadataContent::PathElement& element : path) {
      if (element.position >= 0) out_.integer(element.position);
      else if (element.name == name) write_key(number, name);
      else out_.text(element.name);
    }
    if (path.size() > 3) out_.op(Op::TUPLE);
    else out_.tuple(path.size());
  }

  void storage() {
    if (has_planner_data_) end(entries_, Op::SETITEMS);
    out_.text("storage_data");
    begin(entries_, Op::EMPTY_DICT);
  }

  void item(const Item& item) {
    next(entries_, Op::SETITEMS);
    write_index(item);
    write_record(item);
  }

  void finish(std::span<const Attribute> attributes) {
    end(entries_, Op::SETITEMS);
    out_.text("storage_meta");
    out_.op(Op::NONE);
    out_.text("version");
    out_.text("1.0.0");
    for (const Attribute& a : attributes) write_attribute(a);
    close();
    finish_pickle();
  }

 private:
  void write_size(std::span<const int64_t> numbers) {
    write(size_class_);
    if (numbers.size() > 3) out_.op(Op::MARK);
    for (const int64_t n : numbers) out_.integer(n);
    if (numbers.size() > 3) out_.op(Op::TUPLE);
    else out_.tuple(numbers.size());
    out_.tuple(1);
    out_.op(Op::REDUCE);
  }
  void end_tensor() {
    if (!std::exchange(in_tensor_, false)) return;
    end(inner_, Op::APPENDS);
    close();
  }
  void new_key(std::string_view name) {
    end_tensor();
    next(entries_, Op::SETITEMS);
    write_key(keys_++, name);
  }
  void write_key(uint32_t number, std::string_view name) { write_once(key_slots_, number, name); }

  void write_properties(std::string_view dtype_name, bool requires_grad) {
    write(properties_class_);
    out_.op(Op::EMPTY_TUPLE);
    out_.op(Op::NEWOBJ);
    out_.op(Op::MARK);
    const auto known = dtypes_.find(dtype_name);
    if (known != dtypes_.end()) {
      out_.get(known->second);
    } else {
      out_.global("torch", dtype_name);
      dtypes_.emplace(dtype_name, out_.put());
    }
    write(get_layout_);
    write(strided_);
    out_.tuple(1);
    out_.op(Op::REDUCE);
    out_.boolean(requires_grad);
    write(memory_format_);
    out_.integer(0);  // TORCH_CONTIGUOUS_FORMAT: what torch's planner always writes
    out_.tuple(1);
    out_.op(Op::REDUCE);
    out_.boolean(false);  // pin_memory
    out_.op(Op::TUPLE);
    out_.op(Op::BUILD);
  }

  void write_index(const Item& item) {
    open(index_class_);
    write(fqn_);
    write_key(item.key_number, item.key);
    write(index_);
    if (item.index) out_.integer(narrow<int64_t>(*item.index));
    else out_.op(Op::NONE);
    if (item.offsets) {
      write(offset_);
      write_size(*item.offsets);
    }
    close();
  }

  void write_record(const Item& item) {
    open(info_class_);
    write(relative_path_);
    write_once(file_slots_, item.file_number, item.file);
    write(offset_);
    out_.integer(narrow<int64_t>(item.offset));
    write(length_);
    out_.integer(narrow<int64_t>(item.length));
    if (!item.transforms.empty()) {
      write(transform_descriptors_);
      begin(inner_, Op::EMPTY_LIST);
      for (const std::string_view t : item.transforms) {
        next(inner_, Op::APPENDS);
        out_.text(t);
      }
      end(inner_, Op::APPENDS);
    }
    close();
  }

  void write_attribute(const Attribute& a) {
    out_.text(a.name);
    if (!a.is_dict) return out_.raw(a.value);
    begin(entries_, Op::EMPTY_DICT);
    for (const auto& [key, value] : a.entries) {
      next(entries_, Op::SETITEMS);
      out_.text(key);
      out_.raw(value);
    }
    end(entries_, Op::SETITEMS);
  }

  std::vector<uint64_t> key_slots_, file_slots_;  // by number
  std::unordered_map<std::string_view, uint64_t> dtypes_;
  uint32_t keys_ = 0;
  uint64_t entries_ = 0, inner_ = 0;
  bool in_tensor_ = false, has_planner_data_ = false;

  Shared metadata_class_{kMetadataModule, "Metadata"};
  Shared tensor_class_{kMetadataModule, "TensorStorageMetadata"};
  Shared chunk_class_{kMetadataModule, "ChunkStorageMetadata"};
  Shared blob_class_{kMetadataModule, "BytesStorageMetadata"};
  Shared index_class_{kMetadataModule, "MetadataIndex"};
  Shared info_class_{"torch.distributed.checkpoint.filesystem", "_StorageInfo"};
  Shared properties_class_{kMetadataModule, "TensorProperties"};
  Shared memory_format_{kMetadataModule, "_MEM_FORMAT_ENCODING"};
  Shared get_layout_{"torch.serialization", "_get_layout"};
  Shared size_class_{"torch", "Size"};
  Shared strided_{"", "torch.strided"};
  Shared properties_{"", "properties"};
  Shared size_{"", "size"};
  Shared chunks_{"", "chunks"};
  Shared offsets_{"", "offsets"};
  Shared sizes_{"", "sizes"};
  Shared fqn_{"", "fqn"};
  Shared index_{"", "index"};
  Shared offset_{"", "offset"};
  Shared relative_path_{"", "relative_path"};
  Shared length_{"", "length"};
  Shared transform_descriptors_{"", "transform_descriptors"};
};

DcpMetadataStream::DcpMetadataStream(Sink sink, unsigned for_torch) : writer_(std::make_unique<Writer>(std::move(sink), for_torch)) {}
DcpMetadataStream::~DcpMetadataStream() = default;
void DcpMetadataStream::tensor(std::string_view key, std::string_view dtype_name, bool requires_grad, std::span<const int64_t> dims) {
  writer_->tensor(key, dtype_name, requires_grad, dims);
}
void DcpMetadataStream::chunk(std::span<const int64_t> offsets, std::span<const int64_t> sizes) { writer_->chunk(offsets, sizes); }
void DcpMetadataStream::blob(std::string_view key) { writer_->blob(key); }
void DcpMetadataStream::planner_data(bool there_is) { writer_->planner_data(there_is); }
void DcpMetadataStream::path(uint32_t number, std::string_view key, std::span<const MetadataContent::PathElement> path) {
  writer_->path(number, key, path);
}
void DcpMetadataStream::storage() { writer_->storage(); }
void DcpMetadataStream::item(const Item& item) { writer_->item(item); }
void DcpMetadataStream::finish(std::span<const Attribute> attributes) { writer_->finish(attributes); }

namespace {

// Index hints of a tensor's records: the chunk's position, if the records are in the order of the chunks, as torch writes them.
struct KeyOfContent {
  uint32_t number = 0;
  const MetadataContent::Tensor* tensor = nullptr;
  uint64_t next_chunk = 0;
};

bool is_next_chunk(const MetadataContent& content, const KeyOfContent& key, const MetadataContent::Storage& record) {
  if (key.tensor == nullptr || key.next_chunk == key.tensor->chunk_count || record.rank != key.tensor->rank) return false;
  const int64_t* offsets = content.ints.data() + content.chunks[key.tensor->first_chunk + key.next_chunk].offsets_at;
  return std::equal(offsets, offsets + record.rank, content.ints.data() + record.offsets_at);
}

}  // namespace

void write_dcp_metadata(const MetadataContent& content, const std::function<void(std::string_view)>& sink) {
  DcpMetadataStream out(sink);
  std::unordered_map<std::string_view, KeyOfContent> keys;
  uint32_t numbers = 0;
  const auto key_of = [&](std::string_view key) -> KeyOfContent& {
    const auto [it, fresh] = keys.try_emplace(key);
    if (fresh) it->second.number = numbers++;
    return it->second;
  };
  const auto ints = [&](uint64_t at, uint32_t rank) { return std::span(content.ints).subspan(at, rank); };
  for (const KeyRef ref : content.order) {
    if (ref.is_blob()) {
      const std::string_view key = content.blobs[ref.blob()];
      key_of(key);
      out.blob(key);
      continue;
    }
    const MetadataContent::Tensor& t = content.tensors[ref.tensor()];
    if (!t.strided) fail(ProblemId::metadata_field, {.tensor = std::string(t.key)}, "TensorProperties.layout", "torch.strided");
    key_of(t.key).tensor = &t;
    out.tensor(t.key, t.dtype_name, t.requires_grad, ints(t.dims_at, t.rank));
    for (const MetadataContent::Chunk& c : std::span(content.chunks).subspan(t.first_chunk, t.chunk_count))
      out.chunk(ints(c.offsets_at, t.rank), ints(c.sizes_at, t.rank));
  }
  out.planner_data(content.has_planner_data);
  if (content.has_planner_data)
    for (const MetadataContent::Path& p : content.paths)
      out.path(key_of(p.key).number, p.key, std::span(content.path_elements).subspan(p.first, p.count));
  out.storage();
  for (const MetadataContent::Storage& s : content.storage) {
    KeyOfContent& key = key_of(s.key);
    DcpMetadataStream::Item item{.key_number = key.number,
                                 .key = s.key,
                                 .offsets = {},
                                 .index = {},
                                 .file_number = narrow<uint32_t>(s.file),
                                 .file = content.files[s.file],
                                 .offset = s.offset,
                                 .length = s.length};
    if (s.transforms != 0) item.transforms = content.transforms[s.transforms];
    if (s.has_offset) {
      item.offsets = ints(s.offsets_at, s.rank);
      if (is_next_chunk(content, key, s)) item.index = key.next_chunk++;
    }
    out.item(item);
  }
  out.finish();
}

std::string write_dcp_metadata(const MetadataContent& content) {
  std::string file;
  write_dcp_metadata(content, [&](std::string_view block) { file += block; });
  return file;
}

}  // namespace dcp
