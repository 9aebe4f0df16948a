#include "format/dcp_metadata_writer.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/checked.h"
#include "pickle/writer.h"

namespace dcp {
namespace {

constexpr std::string_view kMetadataModule = "torch.distributed.checkpoint.metadata";
constexpr uint64_t kNoSlot = ~uint64_t{0};
constexpr uint64_t kBatch = 1000;  // entries in one SETITEMS or APPENDS: CPython's _BATCHSIZE
constexpr size_t kBlock = 64 * kKiB;

// A text or a global that occurs often: written once, then read from the memo.
struct Shared {
  std::string_view module;  // "": a text
  std::string_view name;
  uint64_t slot = kNoSlot;
};

class MetadataWriter {
 public:
  MetadataWriter(const MetadataContent& content, const std::function<void(std::string_view)>& sink)
      : content_(content), sink_(sink), file_slots_(content.files.size(), kNoSlot), out_(text_, PickleProtocol::k4) {}

  void run() {
    out_.begin();
    open(metadata_class_);
    out_.text("state_dict_metadata");
    write_state_dict();
    out_.text("planner_data");
    write_planner_data();
    out_.text("storage_data");
    write_storage();
    out_.text("storage_meta");
    out_.op(Op::NONE);
    out_.text("version");
    out_.text("1.0.0");
    close();
    out_.end();
    sink_(text_);
  }

 private:
  struct KeyState {
    uint64_t slot = kNoSlot;
    const MetadataContent::Tensor* tensor = nullptr;
    uint64_t next_chunk = 0;  // of `tensor`, for index hints
  };

  // --- pieces
  void write(Shared& s) {
    if (s.slot != kNoSlot) return out_.get(s.slot);
    if (s.module.empty())
      out_.text(s.name);
    else
      out_.global(s.module, s.name);
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
  void flush() {
    if (text_.size() < kBlock) return;
    sink_(text_);
    text_.clear();
  }
  // A list or dict of `count` entries, in batches; entry(i) writes one.
  template <class Fn>
  void batches(Op empty, Op add, uint64_t count, Fn&& entry) {
    out_.op(empty);
    for (uint64_t i = 0; i < count; ++i) {
      if (i % kBatch == 0) out_.op(Op::MARK);
      entry(i);
      if (i % kBatch == kBatch - 1 || i + 1 == count) out_.op(add);
      flush();
    }
  }
  void write_tuple(const int64_t* numbers, uint32_t count) {
    if (count > 3) out_.op(Op::MARK);
    for (uint32_t i = 0; i < count; ++i) out_.integer(numbers[i]);
    if (count > 3)
      out_.op(Op::TUPLE);
    else
      out_.tuple(count);
  }
  void write_size(uint64_t at, uint32_t rank) {
    write(size_class_);
    write_tuple(content_.ints.data() + at, rank);
    out_.tuple(1);
    out_.op(Op::REDUCE);
  }
  KeyState& write_key(std::string_view key) {
    KeyState& state = keys_[key];
    if (state.slot == kNoSlot) {
      out_.text(key);
      state.slot = out_.put();
    } else {
      out_.get(state.slot);
    }
    return state;
  }

  // --- the three dicts
  void write_properties(const MetadataContent::Tensor& tensor) {
    if (!tensor.strided) {
      Place place;
      place.tensor = tensor.key;
      fail(ProblemId::metadata_field, std::move(place), "TensorProperties.layout", "torch.strided");
    }
    write(properties_class_);
    out_.op(Op::EMPTY_TUPLE);
    out_.op(Op::NEWOBJ);
    out_.op(Op::MARK);
    auto& dtype = dtypes_.try_emplace(tensor.dtype_name, Shared{"torch", tensor.dtype_name}).first->second;
    write(dtype);
    write(get_layout_);
    write(strided_);
    out_.tuple(1);
    out_.op(Op::REDUCE);
    out_.boolean(tensor.requires_grad);
    write(memory_format_);
    out_.integer(0);  // TORCH_CONTIGUOUS_FORMAT: what torch's planner always writes
    out_.tuple(1);
    out_.op(Op::REDUCE);
    out_.boolean(false);  // pin_memory
    out_.op(Op::TUPLE);
    out_.op(Op::BUILD);
  }

  void write_tensor(const MetadataContent::Tensor& tensor) {
    open(tensor_class_);
    write(properties_);
    write_properties(tensor);
    write(size_);
    write_size(tensor.dims_at, tensor.rank);
    write(chunks_);
    batches(Op::EMPTY_LIST, Op::APPENDS, tensor.chunk_count, [&](uint64_t i) {
      const MetadataContent::Chunk& chunk = content_.chunks[tensor.first_chunk + i];
      open(chunk_class_);
      write(offsets_);
      write_size(chunk.offsets_at, tensor.rank);
      write(sizes_);
      write_size(chunk.sizes_at, tensor.rank);
      close();
    });
    close();
  }

  void write_state_dict() {
    batches(Op::EMPTY_DICT, Op::SETITEMS, content_.order.size(), [&](uint64_t i) {
      const int64_t number = content_.order[i];
      if (number < 0) {
        write_key(content_.blobs[static_cast<uint64_t>(~number)]);
        write(blob_class_);
        out_.op(Op::EMPTY_TUPLE);
        out_.op(Op::NEWOBJ);
        return;
      }
      const MetadataContent::Tensor& tensor = content_.tensors[static_cast<uint64_t>(number)];
      write_key(tensor.key).tensor = &tensor;
      write_tensor(tensor);
    });
  }

  void write_planner_data() {
    if (!content_.has_planner_data) return out_.op(Op::NONE);
    batches(Op::EMPTY_DICT, Op::SETITEMS, content_.paths.size(), [&](uint64_t i) {
      const MetadataContent::Path& path = content_.paths[i];
      write_key(path.key);
      if (path.count > 3) out_.op(Op::MARK);
      for (uint64_t k = path.first; k < path.first + path.count; ++k) {
        const MetadataContent::PathElement& element = content_.path_elements[k];
        if (element.position >= 0)
          out_.integer(element.position);
        else if (element.name == path.key)
          write_key(path.key);
        else
          out_.text(element.name);
      }
      if (path.count > 3)
        out_.op(Op::TUPLE);
      else
        out_.tuple(path.count);
    });
  }

  // `index` is a hint: the chunk's position in its tensor where the records come in that order, as they do from torch, else None.
  void write_index(const MetadataContent::Storage& record) {
    open(index_class_);
    write(fqn_);
    KeyState& key = write_key(record.key);
    write(index_);
    if (record.has_offset && is_next_chunk(key, record))
      out_.integer(narrow<int64_t>(key.next_chunk++));
    else
      out_.op(Op::NONE);
    if (record.has_offset) {
      write(offset_);
      write_size(record.offsets_at, record.rank);
    }
    close();
  }
  bool is_next_chunk(const KeyState& key, const MetadataContent::Storage& record) const {
    if (key.tensor == nullptr || key.next_chunk == key.tensor->chunk_count || record.rank != key.tensor->rank) return false;
    const int64_t* offsets = content_.ints.data() + content_.chunks[key.tensor->first_chunk + key.next_chunk].offsets_at;
    return std::equal(offsets, offsets + record.rank, content_.ints.data() + record.offsets_at);
  }

  void write_record(const MetadataContent::Storage& record) {
    open(info_class_);
    write(relative_path_);
    uint64_t& slot = file_slots_[record.file];
    if (slot == kNoSlot) {
      out_.text(content_.files[record.file]);
      slot = out_.put();
    } else {
      out_.get(slot);
    }
    write(offset_);
    out_.integer(narrow<int64_t>(record.offset));
    write(length_);
    out_.integer(narrow<int64_t>(record.length));
    if (record.transforms != 0) {
      write(transform_descriptors_);
      const auto& names = content_.transforms[record.transforms];
      batches(Op::EMPTY_LIST, Op::APPENDS, names.size(), [&](uint64_t i) { out_.text(names[i]); });
    }
    close();
  }

  void write_storage() {
    batches(Op::EMPTY_DICT, Op::SETITEMS, content_.storage.size(), [&](uint64_t i) {
      write_index(content_.storage[i]);
      write_record(content_.storage[i]);
    });
  }

  const MetadataContent& content_;
  const std::function<void(std::string_view)>& sink_;
  std::vector<uint64_t> file_slots_;
  std::unordered_map<std::string_view, KeyState> keys_;
  std::unordered_map<std::string_view, Shared> dtypes_;
  std::string text_;
  PickleWriter out_;

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

}  // namespace

void write_dcp_metadata(const MetadataContent& content, const std::function<void(std::string_view)>& sink) {
  MetadataWriter(content, sink).run();
}

std::string write_dcp_metadata(const MetadataContent& content) {
  std::string file;
  write_dcp_metadata(content, [&](std::string_view block) { file += block; });
  return file;
}

}  // namespace dcp
