// A torch.save file: its records, its state dict, all of it read and planned.
#include "format/blob.h"
#include "fuzz.h"
#include "items/item_source.h"
#include "whole.h"

namespace dcp::fuzz {
namespace {

template <class F>
void tried(F f) {
  try {
    f();
  } catch (const Error&) {
  }
}

}  // namespace

void run(Bytes input) {
  const Place place{.path = "model.pt"};
  MemorySource source(input);
  tried([&] {
    const BlobItem blob = read_blob_item(source, place, kLimits);
    for (const BlobItem::Storage& s : blob.storages)
      must(s.payload <= input.size() && s.bytes <= input.size() - s.payload, "a storage lies in the archive");
  });
  tried([&] { read_blob_records(source, place, kLimits); });
  tried([&] { read_tensor_item(source, place, kLimits); });
  test::FakeIo io;
  io.put("model.pt", as_text(input));
  run_whole(io, "model.pt", input);
}

}  // namespace dcp::fuzz
