// The functions for C: structs of any size become those of today, and what takes time becomes a job on a thread of its own.
#include "dcpctl/c.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>

#include "api/checkpoint_state.h"
#include "base/json.h"
#include "base/workers.h"
#include "catalog/placements.h"
#include "dcpctl/dcpctl.h"

namespace {

// A struct of the caller's, whose size it says: members that it does not know are zero.
template <class T>
T taken(const T* given, size_t number = 0) {
  T out{};
  if (given == nullptr) return out;
  const auto* at = reinterpret_cast<const char*>(given) + number * given->size;
  std::memcpy(&out, at, std::min(given->size, sizeof(T)));
  return out;
}

// Fills in one of the caller's, whose size stays: members that only the caller knows become zero.
template <class T>
void give(T value, T* to, size_t number = 0) {
  value.size = to->size;
  char* at = reinterpret_cast<char*>(to) + number * value.size;
  std::memcpy(at, &value, std::min(value.size, sizeof(T)));
  if (value.size > sizeof(T)) std::memset(at + sizeof(T), 0, value.size - sizeof(T));
}

std::string text(const char* given) { return given == nullptr ? "" : given; }
std::vector<std::string> texts(const char* const* list) {
  std::vector<std::string> out;
  for (; list != nullptr && *list != nullptr; ++list) out.emplace_back(*list);
  return out;
}
dcpctl_text view(std::string_view of) { return {of.data(), of.size()}; }
std::vector<int64_t> numbers(const int64_t* list, size_t count) {
  return list == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(list, list + count);
}

dcpctl_problem problem_for_c(const dcpctl::Problem& p) {
  return {.size = sizeof(dcpctl_problem),
          .kind = static_cast<int32_t>(p.kind),
          .severity = static_cast<int32_t>(p.severity),
          .id = view(p.id),
          .path = view(p.path),
          .member = view(p.member),
          .key = view(p.key),
          .offset = p.offset ? &*p.offset : nullptr,
          .rank = p.rank ? &*p.rank : nullptr,
          .what = view(p.what),
          .got = view(p.got),
          .expected = view(p.expected),
          .hint = view(p.hint),
          .line = view(p.line)};
}

}  // namespace

struct dcpctl_checkpoint {
  std::shared_ptr<const dcpctl::Checkpoint> checkpoint;
  dcpctl::Facts facts;
  uint64_t tensors = 0;

  explicit dcpctl_checkpoint(dcpctl::Checkpoint opened)
      : checkpoint(std::make_shared<const dcpctl::Checkpoint>(std::move(opened))), facts(checkpoint->facts()) {
    tensors = static_cast<uint64_t>(std::ranges::count_if(state().entries(), [](const dcp::Entry& e) { return !e.is_blob(); }));
  }
  const dcpctl::Checkpoint::State& state() const { return checkpoint->state(); }
};

struct dcpctl_saving {
  std::shared_ptr<dcpctl::Saving> saving;
};

struct dcpctl_job {
  // What the work leaves.
  struct Result {
    std::unique_ptr<dcpctl_checkpoint> checkpoint;
    std::unique_ptr<dcpctl_saving> saving;
    std::vector<std::string> texts;
    std::vector<dcpctl::Saving::Place> places;
    uint64_t bytes_read = 0, bytes_written = 0, records_compared = 0, records_not_compared = 0;
  };
  using Work = std::function<void(dcpctl_job&, Result&)>;

  explicit dcpctl_job(Work work) : work_(std::move(work)) {
    queue_.run([this] { run(); });
  }
  ~dcpctl_job() {
    control.cancel();
    const std::lock_guard lock(mutex_);
    break_exchange(dcp::ProblemId::interrupted);
  }

  dcpctl::Control control;

  dcpctl_state wait(int64_t milliseconds) {
    std::unique_lock lock(mutex_);
    const auto is_over = [&] { return state_ != DCPCTL_RUNNING; };
    if (milliseconds < 0) changed_.wait(lock, is_over);
    else changed_.wait_for(lock, std::chrono::milliseconds(std::min(milliseconds, int64_t{1} << 40)), is_over);
    return state_;
  }

  const dcpctl_problem* problem() const {
    const std::lock_guard lock(mutex_);
    return state_ == DCPCTL_FAILED ? &problem_ : nullptr;
  }

  dcpctl_result take() {
    const std::lock_guard lock(mutex_);
    if (state_ != DCPCTL_DONE) return {};
    return {.size = sizeof(dcpctl_result),
            .checkpoint = result_.checkpoint.release(),
            .texts = views_.data(),
            .text_count = views_.size(),
            .bytes_read = result_.bytes_read,
            .bytes_written = result_.bytes_written,
            .records_compared = result_.records_compared,
            .records_not_compared = result_.records_not_compared,
            .nanoseconds = nanoseconds_,
            .saving = result_.saving.release(),
            .places = places_.data(),
            .place_count = places_.size()};
  }

  // --- the texts of ranks
  std::vector<std::string> exchange(const std::string& mine) {
    std::unique_lock lock(mutex_);
    mine_ = mine;
    state_ = DCPCTL_EXCHANGE;
    changed_.notify_all();
    changed_.wait(lock, [&] { return state_ != DCPCTL_EXCHANGE || broken_; });
    state_ = DCPCTL_RUNNING;
    if (broken_) dcp::fail(*broken_, {});
    return std::move(all_);
  }
  dcpctl_text mine() const {
    const std::lock_guard lock(mutex_);
    return state_ == DCPCTL_EXCHANGE ? view(mine_) : dcpctl_text{};
  }
  void give(const dcpctl_text* given, size_t count) {
    const std::lock_guard lock(mutex_);
    if (state_ != DCPCTL_EXCHANGE) return;
    try {
      all_.clear();
      for (size_t n = 0; n < count; ++n) all_.emplace_back(given[n].data, given[n].bytes);
    } catch (const std::exception&) {
      return break_exchange(dcp::ProblemId::memory_out);
    }
    state_ = DCPCTL_RUNNING;
    changed_.notify_all();
  }

 private:
  void break_exchange(dcp::ProblemId why) {
    broken_ = why;
    changed_.notify_all();
  }

  void run() {
    const auto begin = std::chrono::steady_clock::now();
    dcpctl_state end = DCPCTL_FAILED;
    try {
      try {
        dcpctl::guarded([&] { work_(*this, result_); });
        for (const std::string& t : result_.texts) views_.push_back(view(t));
        for (const dcpctl::Saving::Place& p : result_.places) places_.push_back({sizeof(dcpctl_place), view(p.file), p.offset, p.length});
        end = DCPCTL_DONE;
      } catch (const dcpctl::Error& error) {
        const bool is_cancelled = control.state().stop != 0;  // whatever came of it
        why_ = is_cancelled ? dcpctl::to_public(dcp::make_problem(dcp::ProblemId::interrupted, {})) : error.problem();
      }
    } catch (...) {  // no memory to say what it was
    }
    work_ = {};  // and what it holds, before the caller hears of the end
    const std::lock_guard lock(mutex_);
    nanoseconds_ = static_cast<uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
    problem_ = problem_for_c(why_);
    state_ = end;
    changed_.notify_all();
  }

  Work work_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  dcpctl_state state_ = DCPCTL_RUNNING;
  Result result_;
  std::vector<dcpctl_text> views_;
  std::vector<dcpctl_place> places_;
  uint64_t nanoseconds_ = 0;
  dcpctl::Problem why_ = dcpctl::to_public(dcp::make_problem(dcp::ProblemId::memory_out, {}));  // until more is known
  dcpctl_problem problem_{};
  std::string mine_;
  std::vector<std::string> all_;
  std::optional<dcp::ProblemId> broken_;  // no exchange any more
  dcp::SerialQueue queue_;                // last: it ends first
};

namespace {

// Runs `make`, which copies the caller's arguments, and starts what it returns. Without memory or a thread for it there is no job.
dcpctl_job* start(const std::function<dcpctl_job::Work()>& make) {
  try {
    return new dcpctl_job(make());
  } catch (const std::exception&) {
    return nullptr;
  }
}

dcpctl::OpenOptions open_options(const dcpctl_open_options& o) {
  dcpctl::OpenOptions out{.step = text(o.step)};
  if (o.max_memory > 0) out.max_memory = o.max_memory;
  out.threads = o.threads;
  out.include = texts(o.include);
  out.exclude = texts(o.exclude);
  out.root = text(o.root);
  out.model_only = o.model_only != 0;
  out.renames = texts(o.rename);
  out.dtype = text(o.dtype);
  out.dtype_rules = texts(o.dtype_rules);
  out.map = text(o.map);
  out.map_to = text(o.map_to);
  out.map_config = text(o.map_config);
  if (o.prefer_rank != nullptr) out.prefer_rank = *o.prefer_rank;
  return out;
}

const dcp::Entry& entry_at(const dcpctl::Checkpoint::State& state, uint64_t number) {
  const std::vector<dcp::Entry>& entries = state.entries();
  if (number >= entries.size())
    dcp::fail(dcp::ProblemId::usage, {.path = state.catalog().path}, "entry " + std::to_string(number),
              "one of " + std::to_string(entries.size()));
  return entries[number];
}

std::string described(const dcpctl::Checkpoint::State& state, const dcp::Entry& e, dcpctl::Control& control) {
  return dcp::json_document([&](dcp::JsonWriter& json) {
    if (!e.is_blob()) return void(json.member("placement", dcp::sharding_words(state.catalog(), state.tensor(e))));
    dcp::World world = state.outside.world_of(&control);
    const dcpctl::ObjectInfo info = dcpctl::object_info(state.reader.object(e, world), state.reader.limits());
    if (!info.value.empty()) json.key("value").digits(info.value);
    else json.member("would_call", info.would_call).member("refused", info.refused);
  });
}

std::string object_file(const dcpctl::Checkpoint::State& state, const dcp::Entry& e, dcpctl::Control& control) {
  if (!e.is_blob()) dcp::fail(dcp::ProblemId::usage, {.path = state.catalog().path, .tensor = std::string(e.key)}, "a tensor", "an object");
  dcp::World world = state.outside.world_of(&control);
  const std::vector<std::byte> bytes = state.reader.object_file(e, world);
  return std::string(dcp::as_text(bytes));
}

// A job that makes a text for each of some entries.
dcpctl_job* start_texts(dcpctl_checkpoint* of, const uint64_t* entries, size_t count,
                        std::string (*make)(const dcpctl::Checkpoint::State&, const dcp::Entry&, dcpctl::Control&)) {
  return start([&] {
    return [checkpoint = of->checkpoint, wanted = std::vector<uint64_t>(entries, entries + count), make](dcpctl_job& job,
                                                                                                         dcpctl_job::Result& result) {
      const dcpctl::Checkpoint::State& state = checkpoint->state();
      for (const uint64_t n : wanted) {
        state.outside.world_of(&job.control).check_stop();
        result.texts.push_back(make(state, entry_at(state, n), job.control));
      }
    };
  });
}

// The caller's lists, copied.
struct GivenPart {
  uint64_t entry = 0;
  std::vector<int64_t> starts, counts, steps, strides;
  void* to = nullptr;
  std::string dtype;
};

std::vector<GivenPart> parts_of(const dcpctl::Checkpoint::State& state, const dcpctl_part* parts, size_t count) {
  std::vector<GivenPart> out;
  out.reserve(count);
  for (size_t n = 0; n < count; ++n) {
    const dcpctl_part p = taken(parts, n);
    const bool is_tensor = p.entry < state.entries().size() && !state.entries()[p.entry].is_blob();
    const size_t rank = is_tensor ? state.tensor(state.entries()[p.entry]).rank : 0;
    out.push_back({.entry = p.entry,
                   .starts = numbers(p.starts, rank),
                   .counts = numbers(p.counts, rank),
                   .steps = numbers(p.steps, rank),
                   .strides = numbers(p.strides, rank),
                   .to = p.to,
                   .dtype = text(p.dtype)});
  }
  return out;
}

dcp::CheckpointReader::Part part_of(const dcpctl::Checkpoint::State& state, const GivenPart& given) {
  entry_at(state, given.entry);
  const size_t ranges = std::max({given.starts.size(), given.counts.size(), given.steps.size()});
  std::vector<dcpctl::Range> slice(ranges);
  for (size_t d = 0; d < ranges; ++d) {
    if (!given.starts.empty()) slice[d].start = given.starts[d];
    if (!given.counts.empty()) slice[d].count = given.counts[d];
    if (!given.steps.empty()) slice[d].step = given.steps[d];
  }
  return state.part(static_cast<uint32_t>(given.entry), slice, given.to, given.strides, given.dtype);
}

// Owns what a Shard refers to.
dcpctl::Shard shard_of(const dcpctl_shard& s) {
  const bool is_given = s.shape != nullptr || s.sizes != nullptr;
  dcpctl::Shard out{.key = std::string(s.key.data, s.key.bytes),
                    .dtype = text(s.dtype),
                    .shape = is_given ? numbers(s.shape, s.rank) : std::vector<int64_t>(s.rank, -1),  // which saving refuses
                    .offsets = numbers(s.offsets, s.rank),
                    .sizes = numbers(s.sizes, s.rank),
                    .strides = numbers(s.strides, s.rank),
                    .data = s.data};
  for (size_t n = 0; n < s.path_parts; ++n) out.path.emplace_back(s.path[n].data, s.path[n].bytes);
  out.requires_grad = s.requires_grad != 0;
  return out;
}

// What a save is given: tensors, and objects, in their own orders.
struct GivenShards {
  std::vector<dcpctl::Shard> shards;
  std::vector<dcpctl::Object> objects;
  std::vector<bool> is_object;  // by number
};

GivenShards given_shards(const dcpctl_shard* shards, size_t count) {
  GivenShards given;
  for (size_t n = 0; n < count; ++n) {
    const dcpctl_shard s = taken(shards, n);
    dcpctl::Shard shard = shard_of(s);
    given.is_object.push_back(s.dtype == nullptr);
    if (s.dtype != nullptr) given.shards.push_back(std::move(shard));
    else given.objects.push_back({.key = shard.key, .path = shard.path, .data = s.data, .bytes = s.bytes});
  }
  return given;
}

dcpctl::SaveOptions save_options(const dcpctl_save_options& o, dcpctl_job& job) {
  dcpctl::SaveOptions options{.replace = o.replace != 0, .sync = o.skip_sync == 0, .threads = o.threads, .objects = {}};
  options.control = &job.control;
  options.group = {
      .rank = o.rank, .size = std::max(o.world_size, 1u), .all_gather = [&job](const std::string& mine) { return job.exchange(mine); }};
  return options;
}

// From bytes to elements.
void count_elements(dcpctl::Shard& shard) {
  const auto dtype = dcp::dtype_named(shard.dtype);
  if (!dtype) return;  // which saving refuses
  const auto element = static_cast<int64_t>(dcp::bytes_of(*dtype));
  for (int64_t& stride : shard.strides) {
    if (stride % element != 0)
      dcp::fail(dcp::ProblemId::usage, {.tensor = shard.key}, "a stride of " + std::to_string(stride) + " bytes",
                "a multiple of " + std::to_string(element));
    stride /= element;
  }
}

}  // namespace

uint32_t dcpctl_abi_version() { return DCPCTL_ABI_VERSION; }
const char* dcpctl_version() { return DCPCTL_VERSION; }

// --- jobs

int32_t dcpctl_job_wait(dcpctl_job* job, int64_t milliseconds) { return job->wait(milliseconds); }
void dcpctl_job_progress(const dcpctl_job* job, dcpctl_progress* progress) {
  give({.size = 0, .bytes_done = job->control.bytes_done(), .bytes_total = job->control.bytes_total()}, progress);
}
void dcpctl_job_cancel(dcpctl_job* job) { job->control.cancel(); }
const dcpctl_problem* dcpctl_job_problem(const dcpctl_job* job) { return job->problem(); }
void dcpctl_job_result(dcpctl_job* job, dcpctl_result* result) { give(job->take(), result); }
dcpctl_text dcpctl_job_text(const dcpctl_job* job) { return job->mine(); }
void dcpctl_job_give(dcpctl_job* job, const dcpctl_text* texts, size_t count) { job->give(texts, count); }
void dcpctl_job_free(dcpctl_job* job) { delete job; }

// --- opening

dcpctl_job* dcpctl_open(const char* path, const dcpctl_open_options* options) {
  return start([&] {
    return [path = std::string(path), options = open_options(taken(options))](dcpctl_job& job, dcpctl_job::Result& result) mutable {
      options.control = &job.control;
      result.checkpoint = std::make_unique<dcpctl_checkpoint>(dcpctl::open(path, options));
    };
  });
}

void dcpctl_checkpoint_free(dcpctl_checkpoint* checkpoint) { delete checkpoint; }

// --- what is in a checkpoint

void dcpctl_checkpoint_facts(const dcpctl_checkpoint* of, dcpctl_facts* facts) {
  const dcpctl::Checkpoint::State& state = of->state();
  give({.size = 0,
        .path = view(state.catalog().path),
        .kind = view(of->facts.kind),
        .written_by = view(of->facts.written_by),
        .step = of->facts.step ? &*of->facts.step : nullptr,
        .ranks = of->facts.ranks,
        .has_map = state.reader.has_map() ? 1 : 0,
        .entries = state.entries().size(),
        .tensors = of->tensors,
        .objects = state.entries().size() - of->tensors,
        .chunks = of->facts.chunks},
       facts);
}

uint64_t dcpctl_entries(const dcpctl_checkpoint* of, uint64_t first, uint64_t count, dcpctl_entry* entries) {
  const dcpctl::Checkpoint::State& state = of->state();
  const dcp::Catalog& catalog = state.catalog();
  uint64_t n = 0;
  for (; n < count && first < state.entries().size(); ++n, ++first) {
    const dcp::Entry& e = state.entries()[first];
    const dcp::PathRange path = e.is_blob() ? catalog.blobs[e.blob()].path : catalog.tensors[e.tensor()].path;
    dcpctl_entry entry{};
    entry.key = view(e.key);
    entry.is_object = e.is_blob() ? 1 : 0;
    entry.path_parts = e.count > 0 ? e.count : std::max(path.count, 1u);
    if (e.is_blob()) {
      entry.bytes = catalog.items[catalog.item_of(e.blob())].length;
      entry.chunks = 1;
    } else {
      const dcp::Tensor& t = state.tensor(e);
      if (t.dtype_known) entry.dtype = view(dcp::facts_of(e.dtype).name);
      entry.shape = catalog.dims(t).data();
      entry.rank = t.rank;
      entry.bytes = t.dtype_known ? catalog.elements(t) * dcp::bytes_of(e.dtype) : 0;
      entry.chunks = t.chunk_count;
      entry.requires_grad = t.requires_grad ? 1 : 0;
    }
    give(entry, entries, n);
  }
  return n;
}

uint64_t dcpctl_find(const dcpctl_checkpoint* of, const char* key, size_t bytes) {
  try {
    if (const auto found = of->state().find({key, bytes})) return *found;
  } catch (const std::bad_alloc&) {
  }
  return UINT64_MAX;
}

uint64_t dcpctl_path(const dcpctl_checkpoint* of, uint64_t entry, uint64_t first, uint64_t count, dcpctl_path_part* parts) {
  try {
    const dcpctl::Checkpoint::State& state = of->state();
    if (entry >= state.entries().size()) return 0;
    const std::vector<dcp::PathPart> path = state.reader.path(state.entries()[entry]);
    uint64_t n = 0;
    for (; n < count && first < path.size(); ++n, ++first)
      give({.size = 0, .name = view(path[first].name), .position = path[first].position, .is_integer = path[first].is_integer}, parts, n);
    return n;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

uint64_t dcpctl_chunks(const dcpctl_checkpoint* of, uint64_t entry, uint64_t first, uint64_t count, dcpctl_chunk* chunks) {
  const dcpctl::Checkpoint::State& state = of->state();
  if (entry >= state.entries().size()) return 0;
  const dcp::Entry& e = state.entries()[entry];
  uint64_t n = 0;
  for (; n < count && first < state.chunks(e); ++n, ++first) {
    const auto c = static_cast<uint32_t>(first);
    const dcp::BoxView box = state.box(e, c);
    const dcp::Item& item = state.item(e, c);
    dcpctl_chunk chunk{};
    chunk.offsets = box.offsets.data();
    chunk.sizes = box.sizes.data();
    if (item.file != dcp::kNone) {
      chunk.file = view(state.catalog().file_name(item.file));
      chunk.offset = item.offset;
      chunk.length = item.length;
    }
    give(chunk, chunks, n);
  }
  return n;
}

// --- reading

dcpctl_job* dcpctl_describe(dcpctl_checkpoint* checkpoint, const uint64_t* entries, size_t count) {
  return start_texts(checkpoint, entries, count, described);
}

dcpctl_job* dcpctl_objects(dcpctl_checkpoint* checkpoint, const uint64_t* entries, size_t count) {
  return start_texts(checkpoint, entries, count, object_file);
}

dcpctl_job* dcpctl_read(dcpctl_checkpoint* of, const dcpctl_part* parts, size_t count, const dcpctl_read_options* options) {
  return start([&] {
    return [checkpoint = of->checkpoint, given = parts_of(of->state(), parts, count), threads = taken(options).threads](
               dcpctl_job& job, dcpctl_job::Result& result) {
      const dcpctl::Checkpoint::State& state = checkpoint->state();
      std::vector<dcp::CheckpointReader::Part> wanted;
      wanted.reserve(given.size());
      for (const GivenPart& g : given) wanted.push_back(part_of(state, g));
      const dcpctl::ReadReport report = state.read(wanted, threads, &job.control);
      result.bytes_read = report.bytes_read;
      result.records_compared = report.records_compared;
      result.records_not_compared = report.records_not_compared;
    };
  });
}

// --- saving

dcpctl_job* dcpctl_save(const char* path, const dcpctl_shard* shards, size_t count, const dcpctl_save_options* options) {
  return start([&] {
    return [path = std::string(path), given = given_shards(shards, count), o = taken(options)](dcpctl_job& job,
                                                                                               dcpctl_job::Result& result) mutable {
      std::optional<dcp::Problem> failure;
      try {
        for (dcpctl::Shard& s : given.shards) count_elements(s);
      } catch (const dcp::Error& error) {
        failure = error.problem();
      }
      dcpctl::SaveOptions how = save_options(o, job);
      how.objects = given.objects;
      result.bytes_written = dcpctl::save_or_fail(path, given.shards, how, failure).file_bytes;
    };
  });
}

dcpctl_job* dcpctl_begin(const char* path, const dcpctl_save_options* options) {
  return start([&] {
    return [path = std::string(path), o = taken(options)](dcpctl_job& job, dcpctl_job::Result& result) {
      result.saving = std::make_unique<dcpctl_saving>(std::make_shared<dcpctl::Saving>(path, save_options(o, job)));
    };
  });
}

dcpctl_job* dcpctl_append(dcpctl_saving* of, const dcpctl_shard* shards, size_t count) {
  return start([&] {
    return [saving = of->saving, given = given_shards(shards, count)](dcpctl_job& job, dcpctl_job::Result& result) mutable {
      for (dcpctl::Shard& s : given.shards) count_elements(s);
      const std::vector<dcpctl::Saving::Place> tensors = saving->append(given.shards, &job.control);
      const std::vector<dcpctl::Saving::Place> objects =
          given.objects.empty() ? std::vector<dcpctl::Saving::Place>() : saving->append(given.objects, &job.control);
      size_t tensor = 0, object = 0;
      for (const bool is_object : given.is_object) {
        result.places.push_back(is_object ? objects[object++] : tensors[tensor++]);
        result.bytes_written += result.places.back().length;
      }
    };
  });
}

dcpctl_job* dcpctl_complete(dcpctl_saving* of) {
  return start([&] { return [saving = of->saving](dcpctl_job& job, dcpctl_job::Result&) { saving->complete(&job.control); }; });
}

dcpctl_job* dcpctl_finish(dcpctl_saving* of, const void* metadata, size_t bytes) {
  return start([&] {
    return [saving = of->saving, text = std::string(static_cast<const char*>(metadata), bytes)](dcpctl_job& job, dcpctl_job::Result&) {
      saving->finish(text, &job.control);
    };
  });
}

void dcpctl_saving_free(dcpctl_saving* saving) { delete saving; }
