// An open checkpoint, as the functions for C++ and for C see it.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/convert.h"
#include "app/read.h"
#include "dcpctl/checkpoint.h"

namespace dcpctl {

struct [[gnu::visibility("hidden")]] Checkpoint::State {
  State(const std::string& path, const OpenOptions& options);

  const dcp::Catalog& catalog() const { return reader.catalog(); }
  const std::vector<dcp::Entry>& entries() const { return reader.entries(); }
  const dcp::Tensor& tensor(const dcp::Entry& e) const { return catalog().tensors[e.tensor()]; }
  // An object has one chunk, without a box.
  uint64_t chunks(const dcp::Entry& e) const { return e.is_blob() ? 1 : tensor(e).chunk_count; }
  dcp::BoxView box(const dcp::Entry& e, uint32_t chunk) const { return e.is_blob() ? dcp::BoxView{} : catalog().box(tensor(e), chunk); }
  const dcp::Item& item(const dcp::Entry& e, uint32_t chunk) const {
    return catalog().items[e.is_blob() ? catalog().item_of(e.blob()) : catalog().item_of(tensor(e), chunk)];
  }
  std::optional<uint32_t> find(std::string_view key) const;
  uint32_t number_of(std::string_view key) const;  // throws key_missing

  // A part of an entry's tensor. `strides` empty: row-major. Throws usage.
  dcp::CheckpointReader::Part part(uint32_t entry, std::span<const Range> slice, void* to, std::vector<int64_t> strides,
                                   const std::string& dtype) const;
  ReadReport read(const std::vector<dcp::CheckpointReader::Part>& parts, unsigned threads, Control* control) const;

  // What the functions for C++ give by reference, made when it is asked for.
  struct Lists {
    std::vector<TensorInfo> tensors;
    std::vector<uint32_t> number_of;  // by entry, of its tensor
    std::vector<std::string> objects;
  };
  const Lists& lists() const;

  // A call has a world of its own, and changes nothing that another sees.
  mutable Outside outside;
  mutable dcp::CheckpointReader reader;

 private:
  mutable std::once_flag found_once_, lists_once_;
  mutable std::unordered_map<std::string_view, uint32_t> numbers_;  // views of the reader's keys
  mutable Lists lists_;
};

std::string dtype_of(const dcp::Entry& entry, const dcp::Tensor& tensor);
Facts facts_of(const Checkpoint::State& state);
// JSON of an object's value if its pickle holds plain values alone.
ObjectInfo object_info(const dcp::BlobItem& object, const dcp::Limits& limits);

}  // namespace dcpctl
