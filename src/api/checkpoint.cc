#include "api/checkpoint_state.h"
#include "base/file_names.h"
#include "catalog/placements.h"
#include "items/item_source.h"

namespace dcpctl {
namespace {

dcp::CheckpointReaderOptions reader_options(const std::string& path, const OpenOptions& options) {
  dcp::CheckpointReaderOptions out{
      .source = source_of(path, options.step), .select = {}, .map = {}, .extra_memory = options.max_memory, .threads = options.threads};
  out.map.map = options.map;
  out.map.config = options.map_config;
  out.map.to = options.map_to;
  out.source.prefer_rank = options.prefer_rank;
  dcp::SelectOptions& select = out.select;
  for (const std::string& glob : options.include) select.rules.push_back({dcp::KeyRule::Kind::kInclude, glob});
  for (const std::string& glob : options.exclude) select.rules.push_back({dcp::KeyRule::Kind::kExclude, glob});
  select.unmatched = dcp::Unmatched::kRefuse;
  select.model_only = options.model_only;
  select.root = options.root;
  for (const std::string& text : options.renames) select.renames.push_back(rename_of(text));
  if (!options.dtype.empty()) select.dtypes.dtype = cast_target(options.dtype);
  for (const std::string& text : options.dtype_rules) select.dtypes.rules.push_back(dtype_rule_of(text));
  if (options.map.empty() && !options.map_to.empty())
    dcp::fail(dcp::ProblemId::usage, {.path = path}, "a second map alone", "a map before it");
  return out;
}

dcp::SliceAxis axis_of(const Range& range, size_t dim, std::string_view key, int64_t size) {
  const auto refuse = [&](const std::string& got, const std::string& expected) {
    dcp::fail(dcp::ProblemId::usage, {.tensor = std::string(key)}, got + " along dim " + std::to_string(dim), expected);
  };
  if (range.step < 1) refuse("a step of " + std::to_string(range.step), "1 or more");
  if (range.start < 0 || range.start > size) refuse("index " + std::to_string(range.start), "0 to " + std::to_string(size));
  const int64_t max_count = size == range.start ? 0 : (size - range.start - 1) / range.step + 1;
  if (range.count < -1 || range.count > max_count)
    refuse(std::to_string(range.count) + " indices from " + std::to_string(range.start), "at most " + std::to_string(max_count));
  return {.start = range.start, .step = range.step, .count = range.count < 0 ? max_count : range.count};
}

// The command line leaves such tensors unchanged; a caller with a buffer for the converted elements gets these or an error.
dcp::DType conversion(std::string_view key, dcp::DType from, const std::string& to) {
  const dcp::DType wanted = dcp::dtype_named(to) == from ? from : cast_target(to);
  if (from != wanted && !dcp::is_cast_target(from))
    dcp::fail(dcp::ProblemId::usage, {.tensor = std::string(key)}, std::string(dcp::facts_of(from).name) + " to " + to,
              "a floating-point tensor");
  return wanted;
}

}  // namespace

Checkpoint::State::State(const std::string& path, const OpenOptions& options)
    : outside(options.control), reader(reader_options(path, options), outside.world) {}

std::optional<uint32_t> Checkpoint::State::find(std::string_view key) const {
  std::call_once(found_once_, [&] {
    numbers_.reserve(entries().size());
    for (uint32_t n = 0; n < entries().size(); ++n) numbers_.emplace(entries()[n].key, n);
  });
  const auto found = numbers_.find(key);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

uint32_t Checkpoint::State::number_of(std::string_view key) const {
  const auto found = find(key);
  if (!found) dcp::fail(dcp::ProblemId::key_missing, {.path = catalog().path, .tensor = std::string(key)});
  return *found;
}

const Checkpoint::State::Lists& Checkpoint::State::lists() const {
  std::call_once(lists_once_, [&] {
    for (const dcp::Entry& e : entries()) {
      lists_.number_of.push_back(static_cast<uint32_t>(lists_.tensors.size()));
      if (e.is_blob()) {
        lists_.objects.emplace_back(e.key);
        continue;
      }
      const dcp::Tensor& t = tensor(e);
      const dcp::Dims dims = catalog().dims(t);
      const std::string dtype = dtype_of(e, t);
      lists_.tensors.push_back({.key = std::string(e.key),
                                .dtype = dtype,
                                .shape = {dims.begin(), dims.end()},
                                .bytes = dtype.empty() ? 0 : dcp::volume(dims) * dcp::bytes_of(e.dtype)});
    }
  });
  return lists_;
}

dcp::CheckpointReader::Part Checkpoint::State::part(uint32_t number, std::span<const Range> slice, void* to, std::vector<int64_t> strides,
                                                    const std::string& dtype) const {
  const dcp::Entry& e = entries()[number];
  const auto refuse = [&](const std::string& got, const std::string& expected) {
    dcp::fail(dcp::ProblemId::usage, {.tensor = std::string(e.key), .object = e.is_blob()}, got, expected);
  };
  if (e.is_blob()) refuse("an object", "a tensor");
  const dcp::Dims dims = catalog().dims(tensor(e));
  dcp::CheckpointReader::Part part{.entry = number, .axes = {}, .dtype = e.dtype, .to = static_cast<std::byte*>(to), .strides = {}};
  if (!dtype.empty()) part.dtype = conversion(e.key, e.dtype, dtype);
  std::vector<int64_t> counts(dims.begin(), dims.end());
  if (!slice.empty()) {
    if (slice.size() != dims.size()) refuse(std::to_string(slice.size()) + " ranges", std::to_string(dims.size()) + ", one for each dim");
    part.axes.emplace();
    for (size_t d = 0; d < slice.size(); ++d) {
      part.axes->push_back(axis_of(slice[d], d, e.key, dims[d]));
      counts[d] = part.axes->back().count;
    }
    if (std::ranges::equal(counts, dims)) part.axes.reset();
  }
  if (strides.empty()) {
    const dcp::Numbers dense = dcp::row_major(counts);
    for (size_t d = 0; d < counts.size(); ++d) strides.push_back(dense[d] * static_cast<int64_t>(dcp::bytes_of(part.dtype)));
  }
  if (strides.size() != dims.size())
    refuse(std::to_string(strides.size()) + " strides", std::to_string(dims.size()) + ", one for each dim");
  if (to == nullptr && dcp::volume(counts) > 0) refuse("no memory", "the address of the first element");
  part.strides = std::move(strides);
  return part;
}

ReadReport Checkpoint::State::read(const std::vector<dcp::CheckpointReader::Part>& parts, unsigned threads, Control* control) const {
  dcp::World world = outside.world_of(control);
  const uint64_t begin = outside.io->now_ns();
  const dcp::CheckpointReader::Report done = reader.read(parts, threads, world);
  return {.bytes_read = done.bytes_read,
          .records_compared = done.records_compared,
          .records_not_compared = done.records_not_compared,
          .seconds = static_cast<double>(outside.io->now_ns() - begin) / 1e9};
}

std::string dtype_of(const dcp::Entry& e, const dcp::Tensor& t) { return t.dtype_known ? std::string(dcp::facts_of(e.dtype).name) : ""; }

Facts facts_of(const Checkpoint::State& state) {
  const dcp::Catalog& catalog = state.catalog();
  Facts facts{.kind = std::string(catalog.traits().name), .written_by = catalog.provenance.written_by, .step = {}};
  if (catalog.provenance.by_dcpctl) facts.written_by = "dcpctl";
  facts.ranks = dcp::world_size_shown(catalog);
  facts.chunks = catalog.chunk_total;
  // The last name that says one: run/step-1000/model.pt is of step 1000.
  for (std::string path = catalog.path; !facts.step && !path.empty();) {
    const dcp::SplitPath split = dcp::split_path(path);
    if (dcp::names_step(split.name)) facts.step = dcp::step_number(split.name);
    path = split.prefix.substr(0, split.prefix.find_last_not_of('/') + 1);
  }
  return facts;
}

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Checkpoint open(const std::string& path, const OpenOptions& options) {
  return guarded([&] { return Checkpoint(std::make_unique<Checkpoint::State>(path, options)); });
}

const std::string& Checkpoint::path() const { return state_->catalog().path; }
const std::vector<TensorInfo>& Checkpoint::tensors() const { return state_->lists().tensors; }
const std::vector<std::string>& Checkpoint::objects() const { return state_->lists().objects; }
Facts Checkpoint::facts() const {
  return guarded([&] { return facts_of(*state_); });
}

static uint32_t tensor_named(const Checkpoint::State& state, std::string_view key) {
  const uint32_t n = state.number_of(key);
  if (state.entries()[n].is_blob()) dcp::fail(dcp::ProblemId::key_missing, {.path = state.catalog().path, .tensor = std::string(key)});
  return n;
}

static const dcp::Entry& object_named(const Checkpoint::State& state, std::string_view key) {
  const dcp::Entry& e = state.entries()[state.number_of(key)];
  if (!e.is_blob()) dcp::fail(dcp::ProblemId::usage, {.path = state.catalog().path, .tensor = std::string(key)}, "a tensor", "an object");
  return e;
}

const TensorInfo& Checkpoint::tensor(std::string_view key) const {
  return guarded([&]() -> std::reference_wrapper<const TensorInfo> {
    const uint32_t n = tensor_named(*state_, key);
    return state_->lists().tensors[state_->lists().number_of[n]];
  });
}

std::vector<PathPart> Checkpoint::path_of(std::string_view key) const {
  return guarded([&] {
    std::vector<PathPart> path;
    for (const dcp::PathPart& p : state_->reader.path(state_->entries()[state_->number_of(key)]))
      path.push_back({.name = std::string(p.name), .position = p.position, .is_integer = p.is_integer});
    return path;
  });
}

std::vector<Chunk> Checkpoint::chunks_of(std::string_view key) const {
  return guarded([&] {
    const dcp::Entry& e = state_->entries()[state_->number_of(key)];
    std::vector<Chunk> chunks;
    for (uint32_t c = 0; c < state_->chunks(e); ++c) {
      const dcp::BoxView box = state_->box(e, c);
      const dcp::Item& item = state_->item(e, c);
      chunks.push_back({.offsets = {box.offsets.begin(), box.offsets.end()}, .sizes = {box.sizes.begin(), box.sizes.end()}});
      if (item.file == dcp::kNone) continue;
      chunks.back().file = state_->catalog().file_name(item.file);
      chunks.back().offset = item.offset;
      chunks.back().length = item.length;
    }
    return chunks;
  });
}

std::string Checkpoint::placement_of(std::string_view key) const {
  return guarded([&] {
    const dcp::Entry& e = state_->entries()[state_->number_of(key)];
    return e.is_blob() ? std::string() : dcp::sharding_words(state_->catalog(), state_->tensor(e));
  });
}

ObjectInfo Checkpoint::object(std::string_view key) const {
  return guarded([&] {
    const dcp::Entry& e = object_named(*state_, key);
    dcp::World world = state_->outside.world_of(nullptr);
    return object_info(state_->reader.object(e, world), state_->reader.limits());
  });
}

std::vector<std::byte> Checkpoint::object_file(std::string_view key, Control* control) const {
  return guarded([&] {
    const dcp::Entry& e = object_named(*state_, key);
    dcp::World world = state_->outside.world_of(control);
    return state_->reader.object_file(e, world);
  });
}

void Checkpoint::read(std::string_view key, std::span<std::byte> to, const ReadOptions& options) const {
  guarded([&] {
    const uint32_t n = tensor_named(*state_, key);
    const dcp::CheckpointReader::Part part = state_->part(n, options.slice, to.data(), {}, options.dtype);
    uint64_t bytes = dcp::bytes_of(part.dtype);
    const dcp::Dims dims = state_->catalog().dims(state_->tensor(state_->entries()[n]));
    for (size_t d = 0; d < dims.size(); ++d) bytes *= static_cast<uint64_t>(part.axes ? (*part.axes)[d].count : dims[d]);
    if (bytes != to.size())
      dcp::fail(dcp::ProblemId::usage, {.path = path()}, "a buffer of " + std::to_string(to.size()) + " bytes", std::to_string(bytes));
    state_->read({part}, 0, nullptr);
  });
}

ReadReport Checkpoint::read(std::span<const Part> parts, const ReadAllOptions& options) const {
  return guarded([&] {
    std::vector<dcp::CheckpointReader::Part> given;
    for (const Part& p : parts) given.push_back(state_->part(state_->number_of(p.key), p.slice, p.to, p.strides, p.dtype));
    return state_->read(given, options.threads, options.control);
  });
}

}  // namespace dcpctl
