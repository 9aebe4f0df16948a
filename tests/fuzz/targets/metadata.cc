// `.metadata`: what is accepted becomes a catalog; and written anew it is the same.
#include <algorithm>
#include <unordered_set>

#include "catalog/build.h"
#include "catalog/cover.h"
#include "format/dcp_metadata.h"
#include "format/dcp_metadata_writer.h"
#include "fuzz.h"

namespace dcp::fuzz {
namespace {

void check_catalog(const Catalog& catalog) {
  for (const Tensor& t : catalog.tensors) {
    must(t.first_chunk + t.chunk_count <= catalog.chunk_total, "chunks are there");
    for (uint32_t c = 0; c < t.chunk_count; ++c) must(catalog.box(t, c).sizes.size() == t.rank, "a box has the tensor's dims");
    check_cover(catalog, t);
  }
  for (const Item& item : catalog.items) must(item.file == kNone || item.file < catalog.files.size(), "an item's file is there");
}

// Of tensors: a pickle may hold chunks that no list has.
uint64_t chunks_of(const MetadataContent& content) {
  uint64_t count = 0;
  for (const MetadataContent::Tensor& t : content.tensors) count += t.chunk_count;
  return count;
}

}  // namespace

void run(Bytes input) {
  const Place place{.path = "ckpt/.metadata"};
  const MetadataContent content = read_dcp_metadata(input, place, kLimits);
  check_catalog_fits(content, place.path, kLimits);
  try {
    check_catalog(build_catalog(content, "ckpt", "ckpt").catalog);
  } catch (const Error&) {  // contradictions that leave no meaning
  }
  std::unordered_set<std::string_view> keys(content.blobs.begin(), content.blobs.end());
  for (const MetadataContent::Tensor& t : content.tensors) keys.insert(t.key);
  const bool distinct = keys.size() == content.blobs.size() + content.tensors.size();  // else there is no catalog of it to be written
  if (!distinct || !std::ranges::all_of(content.tensors, &MetadataContent::Tensor::strided)) return;
  const std::string written = write_dcp_metadata(content);
  surely("what was written is read", [&] {
    Limits limits = kLimits;
    limits.metadata_bytes = limits.memory_bytes = kGiB;
    const MetadataContent again = read_dcp_metadata(as_bytes(written), place, limits);
    must(again.tensors.size() == content.tensors.size() && chunks_of(again) == chunks_of(content) && again.blobs == content.blobs,
         "as much as before");
    must(write_dcp_metadata(again) == written, "written twice it is the same");
    return 0;
  });
}

}  // namespace dcp::fuzz
