// Hugging Face's index of the files of a model, which says which file holds each tensor.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "format/safetensors.h"
#include "inputs/input.h"

namespace dcp {

// Several facts of one kind as one finding: 10^5 lines would hide the rest.
class Tally {
 public:
  void add(std::string_view tensor, std::string got = {}, std::string expected = {}) {
    if (count_++ > 0) return;
    tensor_ = tensor;
    got_ = std::move(got);
    expected_ = std::move(expected);
  }
  uint64_t count() const { return count_; }
  void report(ProblemId id, Severity severity, Place place, std::vector<Problem>& findings) const {
    if (count_ == 0) return;
    place.tensor = tensor_;
    std::string got = got_;
    if (count_ > 1) got += (got.empty() ? "this one" : ",") + std::string(" and ") + std::to_string(count_ - 1) + " more";
    findings.push_back(make_finding(id, severity, std::move(place), std::move(got), expected_));
  }

 private:
  uint64_t count_ = 0;
  std::string tensor_, got_, expected_;
};

// Whether it is the name of an index of files that end in `ending`: model.safetensors.index.json, and, as transformers calls a variant's,
// model.safetensors.index.fp16.json.
bool is_index_name(std::string_view name, std::string_view ending);

// The folder's index of such files: `usual`, or else the only one; "" if there is none. Throws not_checkpoint for several.
std::string index_of(const std::string& path, const std::vector<DirEntry>& entries, std::string_view ending, std::string_view usual);

// Deducts its memory from `left`. Throws file_missing, over_limit, memory_cap, hf_index_bad.
HfIndex open_index(Store& store, const std::string& path, const std::string& index, const OpenOptions& options, Limits& left);

// The tensors in one of the files that an index names.
struct HeldTensors {
  std::string_view file;
  std::vector<std::string_view> tensors;
  bool are_shards = false;  // for a tensor in several shards the index can name only one file
  std::function<std::string(std::string_view tensor)> shape_of = nullptr;
};
// Tensors that no file holds, by the missing file that the index names.
using LostTensors = std::map<std::string_view, std::vector<std::string_view>>;
struct IndexVerdict {
  std::set<std::pair<uint32_t, std::string>> dropped;  // file and tensor: the index names another file, which holds it, too
  bool incomplete = false;                             // files or tensors are missing
};
// Compares the index with the content of the files. Tensors that it names and no file holds are missing; if two files hold a tensor, the
// index decides. `hint_for` gives the hint if files are missing.
IndexVerdict compare_index(const HfIndex& index, std::span<const HeldTensors> held, const Place& place, std::vector<Problem>& findings,
                           const std::function<std::string(const LostTensors&)>& hint_for = nullptr);

// `here`: the tensors in files that the index does not name; `instead`: what to do if these are the lost ones.
std::string hint_for_lost(const LostTensors& lost, const std::unordered_set<std::string>& here, const std::string& instead);

// Fills Catalog::lacking.
void note_lacking(const HfIndex& index, Catalog& catalog);
// Compares the total size of all tensors with the index.
void compare_total(const HfIndex& index, const Catalog& catalog, const Place& place, std::vector<Problem>& findings);

}  // namespace dcp
