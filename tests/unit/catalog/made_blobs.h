// Byte items and opaque tensors for made checkpoints: pickles as torch writes them, with tensors inside.
#pragma once

#include "catalog/made_checkpoint.h"

namespace dcp::test {

inline std::string noise(Rng& rng, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(rng());
  return out;
}

// {'lr': 0.5, 'moments': [tensor, ...]}, each tensor one-dimensional with a storage of its own; storages keyed '0', '1', ...
inline MadeBlob nested_blob(Rng& rng, const std::string& key, const std::vector<int64_t>& lengths) {
  MadeBlob blob{.key = key, .pickle = {}};
  PickleWriter out(blob.pickle, PickleProtocol::k2);
  out.begin();
  out.op(dcp::Op::EMPTY_DICT);
  out.op(dcp::Op::MARK);
  out.text("lr");
  out.real(0.5);
  out.text("moments");
  out.op(dcp::Op::EMPTY_LIST);
  out.op(dcp::Op::MARK);
  for (const int64_t n : lengths) {
    const std::string storage = std::to_string(blob.storages.size());
    write_view(out,
               {.dtype = DType::float32, .storage = storage, .storage_elements = static_cast<uint64_t>(n), .sizes = {n}, .strides = {1}});
    blob.storages.push_back({"data/" + storage, noise(rng, static_cast<size_t>(n) * 4)});
  }
  out.op(dcp::Op::APPENDS);
  out.op(dcp::Op::SETITEMS);
  out.end();
  return blob;
}

// A value that needs no storage: an integer.
inline MadeBlob number_blob(const std::string& key, int64_t value) {
  MadeBlob blob{.key = key, .pickle = {}};
  PickleWriter out(blob.pickle, PickleProtocol::k2);
  out.begin();
  out.integer(value);
  out.end();
  return blob;
}

// An object of a class that torch.load(weights_only=True) refuses.
inline MadeBlob object_blob(const std::string& key, std::string_view module, std::string_view name) {
  MadeBlob blob{.key = key, .pickle = {}};
  PickleWriter out(blob.pickle, PickleProtocol::k2);
  out.begin();
  out.global(module, name);
  out.op(dcp::Op::EMPTY_TUPLE);
  out.op(dcp::Op::REDUCE);
  out.end();
  return blob;
}

// torch._utils._rebuild_qtensor(storage, 0, (n,), (1,), (per_tensor_affine, 0.5, 3), False, OrderedDict()): a tensor that is not plain.
inline MadeChunk quantized_chunk(Rng& rng, int64_t n) {
  MadeChunk chunk = whole_chunk({n});
  chunk.storage = noise(rng, static_cast<size_t>(n));
  PickleWriter out(chunk.pickle, PickleProtocol::k2);
  out.begin();
  out.global("torch._utils", "_rebuild_qtensor");
  out.op(dcp::Op::MARK);
  out.op(dcp::Op::MARK);
  out.text("storage");
  out.global("torch", "QInt8Storage");
  out.text("0");
  out.text("cpu");
  out.integer(n);
  out.op(dcp::Op::TUPLE);
  out.op(dcp::Op::BINPERSID);
  out.integer(0);
  out.integer(n);
  out.tuple(1);
  out.integer(1);
  out.tuple(1);
  out.global("torch", "per_tensor_affine");
  out.real(0.5);
  out.integer(3);
  out.tuple(3);
  out.boolean(false);
  out.global("collections", "OrderedDict");
  out.op(dcp::Op::EMPTY_TUPLE);
  out.op(dcp::Op::REDUCE);
  out.op(dcp::Op::TUPLE);
  out.op(dcp::Op::REDUCE);
  out.end();
  return chunk;
}

}  // namespace dcp::test
