// torch.save files made in memory from opcodes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fake_io.h"
#include "catalog/data_files.h"
#include "catalog/made_item.h"
#include "catalog/structure.h"
#include "inputs/open.h"
#include "items/resolve.h"
#include "select/select.h"

namespace dcp::test {

using POp = dcp::Op;

// Opcodes for data.pkl, protocol 2.
class Made {
 public:
  Made() { out.begin(); }
  Made& op(POp code) { return out.op(code), *this; }
  Made& dict() { return op(POp::EMPTY_DICT).op(POp::MARK); }
  Made& end_dict() { return op(POp::SETITEMS); }
  Made& list() { return op(POp::EMPTY_LIST).op(POp::MARK); }
  Made& end_list() { return op(POp::APPENDS); }
  Made& key(std::string_view name) { return out.text(name), *this; }
  Made& number(int64_t n) { return out.integer(n), *this; }
  Made& tensor(const MadeView& v) { return write_view(out, v), *this; }
  Made& floats(int64_t n, const std::string& storage) {
    return tensor(
        {.dtype = DType::float32, .storage = storage, .storage_elements = static_cast<uint64_t>(n), .sizes = {n}, .strides = {1}});
  }
  std::string done() { return op(POp::STOP).text; }
  std::string text;
  PickleWriter out{text, PickleProtocol::k2};
};

inline void put(FakeIo& io, const std::string& pickle, std::vector<MadeRecord> more = {}) {
  std::vector<MadeRecord> records{{"data.pkl", pickle}, {"byteorder", "little"}};
  records.insert(records.end(), more.begin(), more.end());
  records.push_back({"version", "3\n"});
  io.put("m.pt", made_archive(records));
}
// Everything of m.pt.
inline Resolved resolved(FakeIo& io, const Catalog& c, const ResolveOptions& options = {}) {
  DataFiles files(io, c, FollowLinks::kCacheOnly);
  std::vector<TensorId> tensors(c.tensors.size());
  std::vector<BlobId> blobs(c.blobs.size());
  for (TensorId t = 0; t < tensors.size(); ++t) tensors[t] = t;
  for (BlobId b = 0; b < blobs.size(); ++b) blobs[b] = b;
  const StopFlag stop{0};
  return resolve(files, tensors, blobs, options, stop);
}

inline const std::string kEight = "01234567";
inline const std::vector<MadeRecord> kTwo{{"data/0", kEight}, {"data/1", kEight}};

}  // namespace dcp::test
