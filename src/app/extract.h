// One key of a checkpoint, to be shown or streamed. Files of it are written by app/write.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/output.h"
#include "app/stages.h"
#include "kernels/kernels.h"
#include "pickle/graph.h"

namespace dcp {

struct ExtractRequest {
  ReadRequest read;
  std::string key;
  std::optional<Subscript> slice;  // of a tensor
  DtypeOptions dtypes;
  Fp8Overflow fp8_overflow = Fp8Overflow::kSaturate;
  bool check_crcs = true;  // of a whole tensor: they are not those of a slice
};

// The elements at both ends of each dim, row-major: `head` indices from its beginning and `tail` to its end.
struct Glance {
  std::vector<int64_t> head, tail;
  std::vector<bool> is_cut;  // by dim: something lies between them
  std::vector<std::byte> elements;
  bool is_whole() const { return std::ranges::find(is_cut, true) == is_cut.end(); }
};

class Extraction {
 public:
  // Opens, selects and resolves. Throws what writing the key to a file would throw.
  Extraction(ExtractRequest request, World& world);
  bool is_object() const { return entry().is_blob(); }
  std::string_view key() const { return entry().key; }
  const std::string& checkpoint() const { return opened_.catalog().path; }  // a step of a run
  // Writes a text file about it, whole or not at all. Throws output_in_source, and what save_text throws.
  void save(const std::string& path, const std::function<void(const TextOut&)>& emit, const SmallFileOptions& options);

  // --- an object
  PickleGraph object();

  // --- a tensor, or the slice of one
  DType dtype() const { return entry().dtype; }
  const std::vector<int64_t>& shape() const { return shape_; }
  uint64_t bytes() const { return volume(shape_) * bytes_of(dtype()); }
  // Reads the whole tensor and checks its CRCs, if the request says so. The next three do so, too; who passes something on before calls it
  // himself: what is damaged is not handed out, and a stream cannot be taken back.
  void check();
  // Its elements, row-major and little-endian, in pieces from front to back: memory is bounded, whatever its size.
  void each_piece(const std::function<void(Bytes)>& fn);
  // The bytes of a file of it, from front to back. Throws usage for an object in a form that can only hold tensors.
  void stream(OutputRequest::Kind form, const std::function<void(Bytes)>& fn);
  // The whole tensor if it has at most `max` elements; otherwise a few at each end.
  Glance glance(uint64_t max);

 private:
  // The archive's directory needs a CRC that is known only after reading everything: so it reads twice, and checks CRCs before the first
  // byte is passed on.
  void torch_file(const std::function<void(Bytes)>& fn);
  const Entry& entry() const { return selection_.entries.front(); }
  Source source() const { return opened_.with(resolved_); }
  DerivedPart part_of(const IndexMap& map) const { return derive_part(source(), entry().tensor(), map, dtype()); }
  std::vector<std::byte> read(const IndexMap& map);
  void pieces(const std::function<void(Bytes)>& fn);
  void run(const Plan& plan, const Source& source, Sink& sink);
  bool is_decoded();

  const ExtractRequest request_;
  World& world_;
  const Opened opened_;
  Selection selection_;
  std::vector<SliceAxis> axes_;  // of a tensor
  std::vector<int64_t> shape_;
  Resolved resolved_;
  unsigned workers_ = 0;  // 0: unknown so far
  bool is_checked_ = false;
};

}  // namespace dcp
