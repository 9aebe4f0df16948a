// What another rank sends. Messages hold structs as they lie in memory, so that the input is not the message but what is done to one: a
// byte for the kind, one for the checkpoint that it is about, then changes, each of four bytes for the position and one for the new value,
// or for a cut.
#include "ranks/wire.h"

#include "catalog/build.h"
#include "catalog/structure.h"
#include "fuzz.h"
#include "items/resolve.h"
#include "ranks/catalog_wire.h"
#include "select/select.h"
#include "unit/catalog/random_checkpoint.h"

namespace dcp::fuzz {
namespace {

std::vector<std::byte> changed(std::vector<std::byte> message, Bytes changes) {
  constexpr size_t kChange = 5;
  constexpr uint32_t kCut = 1u << 31;
  for (; changes.size() >= kChange && !message.empty(); changes = changes.subspan(kChange)) {
    const auto at = load_le<uint32_t>(changes.data());
    if ((at & kCut) != 0) message.resize(at % message.size());
    else message[at % message.size()] = changes[4];
  }
  return message;
}

// All that a command looks up in it.
void use(const OpenedCatalog& opened) {
  const Catalog& catalog = opened.catalog;
  uint64_t sum = 1;
  for (const Tensor& t : catalog.tensors) {
    sum += catalog.key(t).size() + catalog.tensor_bytes(t);
    for (uint32_t c = 0; c < std::min(t.chunk_count, 100u); ++c)
      sum += static_cast<uint64_t>(catalog.place_of(catalog.item_of(t, c), catalog.key(t)).path.size() + catalog.box(t, c).sizes.size());
  }
  for (const Blob& b : catalog.blobs) sum += catalog.key(b).size();
  for (const Problem& p : opened.findings) sum += to_line(p).size();
  must(sum > 0, "something is there");
  try {
    select_keys(catalog, {});
  } catch (const Error&) {
  }
}

}  // namespace

void run(Bytes input) {
  if (input.size() < 2) return;
  const auto kind = std::to_integer<uint8_t>(input[0]);
  test::MadeCheckpoint made = test::random_checkpoint(std::to_integer<uint8_t>(input[1]));
  test::FakeIo io;
  made.put(io, "ckpt");
  const Bytes changes = input.subspan(2);
  const FrozenCatalog opened = freeze(build_catalog(made.content(), "ckpt", "ckpt"), io, FollowLinks::kCacheOnly);
  const Catalog& catalog = opened->catalog;
  if (kind % 3 == 0) {
    const OpenedCatalog received = catalog_from_wire(changed(catalog_to_wire(*opened), changes));
    use(received);
    surely("what was accepted is sent on", [&] { return catalog_from_wire(catalog_to_wire(received)); });
  } else if (kind % 3 == 1) {
    std::vector<TensorId> tensors(catalog.tensors.size());
    std::vector<BlobId> blobs(catalog.blobs.size());
    for (TensorId t = 0; t < tensors.size(); ++t) tensors[t] = t;
    for (BlobId b = 0; b < blobs.size(); ++b) blobs[b] = b;
    DataFiles files(io, catalog, FollowLinks::kCacheOnly);
    const StopFlag stop{0};
    const Resolved mine = resolve(files, tensors, blobs, {.limits = kLimits}, stop);
    Resolved merged;
    for (int time = 0; time < 2; ++time) merge_resolved(merged, catalog, changed(resolved_to_wire(mine), changes));
    must(merged.items.size() == catalog.items.size(), "facts of all items");
  } else {
    WireWriter out;
    out.problem(
        make_problem(ProblemId::short_file, {.path = "path", .member = "member", .tensor = "tensor", .offset = 5}, "got", "expected"));
    const std::vector<std::byte> message = changed(out.take(), changes);
    must(!to_line(WireReader(message).problem()).empty(), "a line for each problem");
  }
}

}  // namespace dcp::fuzz
