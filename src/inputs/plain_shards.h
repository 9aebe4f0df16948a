// Tensors in files of ranks that are not DTensors: they are the same on every rank, or parts that do not say which part they are.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "inputs/rank_files.h"
#include "inputs/torch_file.h"

namespace dcp {

// A tensor in one file.
struct PlainTensor {
  size_t file = 0;
  Dims dims;
  Dims strides;  // storage offset, then strides; none: row-major from the first byte
  const ItemInfo* info = nullptr;
  bool is_packed = false;  // in a compressed record
};
using PlainTensors = std::map<std::string_view, std::vector<PlainTensor>>;  // by key, in the order of the ranks

// A tensor of which files have parts. A file that is not listed has no part of it; none is listed if it is unknown which file has which
// part.
struct JoinedTensor {
  std::vector<int64_t> sizes;
  uint32_t dim = 0;
  std::map<size_t, std::pair<int64_t, std::vector<int64_t>>> parts;  // by file: where its part begins along `dim`, and the part's sizes

  TensorPart part(size_t file, const Value& local) const;
};
using JoinedTensors = std::map<std::string, JoinedTensor, std::less<>>;

// Examines files of ranks that hold the same part of the state dict. Bytes are compared by the CRCs in the files' directories, or read if
// these are not conclusive.
class PlainShards {
 public:
  PlainShards(Store& store, const std::string& path, const std::vector<RankFile>& files, const OpenOptions& options)
      : store_(store), path_(path), files_(files), options_(options) {}

  // Joins the parts of tensors along OpenOptions::shards_on_dim. Tensors that are whole on all ranks, and those about which ranks only seem
  // to contradict each other, are left unchanged. Adds findings about what cannot be known.
  JoinedTensors join(const PlainTensors& tensors, size_t ranks, std::vector<Problem>& findings);
  // If most bytes or most matrices differ between ranks, they are parts. Then findings are added, and nothing is joined.
  JoinedTensors refuse_shards(const PlainTensors& tensors, size_t ranks, std::vector<Problem>& findings);
  // Whether the directories show that all files hold the same tensors.
  static bool are_same(const PlainTensors& tensors, size_t ranks);

 private:
  using Ranks = std::vector<PlainTensor>;
  enum class Is : uint8_t { kWhole, kPart, kEither, kOther };  // kOther: a part, but not along that dim

  bool is_named(std::string_view key) const;  // as replicated
  Is judge(std::string_view key, const Ranks& ranks, size_t count);
  void add_others(const PlainTensors& tensors, const std::map<std::string_view, Is>& is, std::vector<Problem>& findings) const;
  void add_shards(const PlainTensors& tensors, std::vector<std::string> differing, std::vector<std::string> equal,
                  std::vector<Problem>& findings) const;
  void settle_by_shape(const PlainTensors& tensors, std::map<std::string_view, Is>& is) const;
  bool differ(const PlainTensor& a, const PlainTensor& b, uint64_t at_most);
  bool any_differ(const Ranks& ranks, uint64_t at_most);
  bool is_constant(const PlainTensor& t, uint64_t at_most);
  uint32_t read_crc(const PlainTensor& t, uint64_t at_most);
  // Returns how many there are.
  uint64_t visit_bytes(const PlainTensor& t, uint64_t at_most, const std::function<void(Bytes)>& visit);
  bool repeat_rank(const PlainTensors& tensors, const std::vector<std::string>& parts, std::vector<Problem>& findings);

  Store& store_;
  const std::string& path_;
  const std::vector<RankFile>& files_;
  const OpenOptions& options_;
};

}  // namespace dcp
