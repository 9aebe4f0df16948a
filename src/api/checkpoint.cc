#include "dcpctl/checkpoint.h"

#include <unordered_map>

#include "api/convert.h"
#include "app/read.h"

namespace dcpctl {

struct Checkpoint::State {
  State(const std::string& path, const OpenOptions& options)
      : reader({.source = source_of(path, options.step), .extra_memory = options.max_memory, .threads = options.threads}, outside.world) {
    const dcp::Catalog& catalog = reader.catalog();
    tensors.reserve(catalog.tensors.size());
    for (const dcp::Tensor& t : catalog.tensors) {
      const dcp::Dims dims = catalog.dims(t);
      numbers.emplace(catalog.key(t), tensors.size());
      tensors.push_back({.key = std::string(catalog.key(t)),
                         .dtype = t.dtype_known ? std::string(dcp::facts_of(t.dtype).name) : "",
                         .shape = {dims.begin(), dims.end()},
                         .bytes = catalog.tensor_bytes(t)});
    }
    for (const dcp::Blob& b : catalog.blobs) objects.emplace_back(catalog.key(b));
  }

  const TensorInfo& tensor(std::string_view key) const {
    const auto found = numbers.find(key);
    if (found == numbers.end()) dcp::fail(dcp::ProblemId::key_missing, {.path = reader.catalog().path, .tensor = std::string(key)});
    return tensors[found->second];
  }

  Outside outside;
  dcp::CheckpointReader reader;
  std::unordered_map<std::string_view, size_t> numbers;  // views of the catalog's strings
  std::vector<TensorInfo> tensors;
  std::vector<std::string> objects;
};

namespace {

dcp::SliceAxis axis_of(const Range& range, size_t dim, const TensorInfo& tensor) {
  const auto refuse = [&](const std::string& got, const std::string& expected) {
    dcp::fail(dcp::ProblemId::usage, {.tensor = tensor.key}, got + " along dim " + std::to_string(dim), expected);
  };
  const int64_t size = tensor.shape[dim];
  if (range.step < 1) refuse("a step of " + std::to_string(range.step), "1 or more");
  if (range.start < 0 || range.start > size) refuse("index " + std::to_string(range.start), "0 to " + std::to_string(size));
  const int64_t max_count = (size - range.start + range.step - 1) / range.step;
  if (range.count < -1 || range.count > max_count)
    refuse(std::to_string(range.count) + " indices from " + std::to_string(range.start), "at most " + std::to_string(max_count));
  return {.start = range.start, .step = range.step, .count = range.count < 0 ? max_count : range.count};
}

// The command line leaves such tensors unchanged; a caller with a buffer for the converted elements gets these or an error.
dcp::DType conversion(const TensorInfo& from, const std::string& to) {
  const dcp::DType wanted = cast_target(to);
  const auto stored = dcp::dtype_named(from.dtype);
  if (stored && *stored != wanted && !dcp::is_cast_target(*stored))
    dcp::fail(dcp::ProblemId::usage, {.tensor = from.key}, from.dtype + " to " + to, "a floating-point tensor");
  return wanted;
}

}  // namespace

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Checkpoint open(const std::string& path, const OpenOptions& options) {
  return guarded([&] { return Checkpoint(std::make_unique<Checkpoint::State>(path, options)); });
}

const std::string& Checkpoint::path() const { return state_->reader.catalog().path; }
const std::vector<TensorInfo>& Checkpoint::tensors() const { return state_->tensors; }
const std::vector<std::string>& Checkpoint::objects() const { return state_->objects; }

const TensorInfo& Checkpoint::tensor(std::string_view key) const {
  return guarded([&]() -> std::reference_wrapper<const TensorInfo> { return state_->tensor(key); });
}

void Checkpoint::read(std::string_view key, std::span<std::byte> to, const ReadOptions& options) const {
  guarded([&] {
    const TensorInfo& tensor = state_->tensor(key);
    dcp::CheckpointReader::Request part{.tensor = static_cast<dcp::TensorId>(&tensor - state_->tensors.data()), .axes = {}, .dtypes = {}};
    if (!options.dtype.empty()) part.dtypes.rules = {{.glob = "*", .dtype = conversion(tensor, options.dtype)}};
    if (!options.slice.empty()) {
      if (options.slice.size() != tensor.shape.size())
        dcp::fail(dcp::ProblemId::usage, {.tensor = tensor.key}, std::to_string(options.slice.size()) + " ranges",
                  std::to_string(tensor.shape.size()) + ", one for each dim");
      part.axes.emplace();
      for (size_t d = 0; d < options.slice.size(); ++d) part.axes->push_back(axis_of(options.slice[d], d, tensor));
    }
    state_->reader.read(part, to);
  });
}

}  // namespace dcpctl
