// Tensors in files of ranks that are no DTensors: the same on every rank, or parts that do not say which they are.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "inputs/rank_files.h"
#include "inputs/torch_reader.h"

namespace dcp {

// Of one file.
struct PlainTensor {
  size_t file = 0;
  Dims dims;
  Dims strides;  // storage offset, then strides; none: row-major from the first byte
  const ItemInfo* info = nullptr;
  bool is_packed = false;  // in a compressed record
};
using PlainTensors = std::map<std::string_view, std::vector<PlainTensor>>;  // by key, in the order of the ranks

// The tensor that files have parts of. A file that is not listed has nothing of it, and none is if it is not known who has what.
struct JoinedTensor {
  std::vector<int64_t> sizes;
  uint32_t dim = 0;
  std::map<size_t, std::pair<int64_t, std::vector<int64_t>>> parts;  // of a file: where along `dim` it begins, its sizes

  TensorPart part(size_t file, const Value& local) const;
};
using JoinedTensors = std::map<std::string, JoinedTensor, std::less<>>;

// Looks at files of ranks that hold the same part of the state dict. Bytes are compared by the CRCs in the files' directories; where these do
// not tell, they are read.
class PlainShards {
 public:
  PlainShards(Store& store, const std::string& path, const std::vector<RankFile>& files, const OpenOptions& options)
      : store_(store), path_(path), files_(files), options_(options) {}

  // Joins the parts of tensors along OpenOptions::shards_on_dim. What is whole on all ranks, and what only looks as if ranks contradicted each
  // other, is left as it is. Adds findings of what cannot be known.
  JoinedTensors join(const PlainTensors& tensors, size_t ranks, std::vector<Problem>& findings);
  // Where most of what ranks have differs, it is parts. Then it adds a finding, and none is joined.
  JoinedTensors refuse_shards(const PlainTensors& tensors, size_t ranks, std::vector<Problem>& findings);
  // Whether the directories show that all files hold the same.
  static bool are_same(const PlainTensors& tensors, size_t ranks);

 private:
  using Ranks = std::vector<PlainTensor>;
  enum class Is : uint8_t { kWhole, kPart, kEither };

  Is judge(std::string_view key, const Ranks& ranks, size_t count);
  void settle_by_shape(const PlainTensors& tensors, std::map<std::string_view, Is>& is) const;
  bool differ(const PlainTensor& a, const PlainTensor& b, uint64_t at_most);
  bool any_differ(const Ranks& ranks, uint64_t at_most);
  uint32_t read_crc(const PlainTensor& t, uint64_t at_most);
  bool repeat_rank(const PlainTensors& tensors, const std::vector<std::string>& parts, std::vector<Problem>& findings);

  Store& store_;
  const std::string& path_;
  const std::vector<RankFile>& files_;
  const OpenOptions& options_;
};

}  // namespace dcp
