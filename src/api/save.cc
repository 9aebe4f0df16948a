#include "dcpctl/save.h"

#include "api/convert.h"
#include "app/memory_shard.h"
#include "app/save.h"
#include "base/limits.h"
#include "base/workers.h"

namespace dcpctl {
namespace {

dcp::MemoryShard shard_of(const Shard& s) {
  return {.key = s.key,
          .dtype = s.dtype,
          .shape = s.shape,
          .offsets = s.offsets,
          .sizes = s.sizes,
          .strides = s.strides,
          .data = static_cast<const std::byte*>(s.data),
          .path = s.path,
          .requires_grad = s.requires_grad};
}

std::vector<dcp::MemoryShard> shards_of(std::span<const Shard> shards) {
  std::vector<dcp::MemoryShard> out;
  for (const Shard& s : shards) out.push_back(shard_of(s));
  return out;
}

std::vector<dcp::MemoryObject> objects_of(std::span<const Object> objects) {
  std::vector<dcp::MemoryObject> out;
  for (const Object& o : objects) out.push_back({.key = o.key, .path = o.path, .bytes = {static_cast<const std::byte*>(o.data), o.bytes}});
  return out;
}

dcp::SaveRequest request_of(const std::string& path, const SaveOptions& options) {
  return {.path = path,
          .shards = {},
          .failure = {},
          .rank = options.group.rank,
          .world_size = options.group.size,
          .all_gather = options.group.all_gather,
          .replace = options.replace ? dcp::Replace::kYes : dcp::Replace::kNo,
          .sync = options.sync,
          .threads = options.threads};
}

// `failure`: why there is nothing to write; reported to the other ranks.
SaveReport write(const std::string& path, std::span<const dcp::MemoryShard> shards, const SaveOptions& options,
                 const std::optional<dcp::Problem>& failure) {
  Outside outside(options.control);
  const std::vector<dcp::MemoryObject> objects = objects_of(options.objects);
  dcp::SaveRequest request = request_of(path, options);
  request.shards = shards;
  request.objects = objects;
  request.failure = failure;
  const dcp::SaveResult done = dcp::save(request, outside.world);
  return {.tensor_bytes = done.tensor_bytes, .file_bytes = done.file_bytes, .seconds = static_cast<double>(done.nanoseconds) / 1e9};
}

}  // namespace

SaveReport save(const std::string& path, std::span<const Shard> shards, const SaveOptions& options) {
  return save_or_fail(path, shards, options, std::nullopt);
}

SaveReport save_or_fail(const std::string& path, std::span<const Shard> shards, const SaveOptions& options,
                        const std::optional<dcp::Problem>& failure) {
  return guarded([&] { return write(path, shards_of(shards), options, failure); });
}

struct Staging::State {
  explicit State(StagingOptions with) : options(std::move(with)) {}
  ~State() {
    queue.reset();
    release();
  }

  void release() {
    if (buffer != nullptr) options.memory->deallocate(buffer, capacity, kAlignment);
    buffer = nullptr, capacity = 0;
  }

  // Copies the shards into the buffer, one after the other. The returned shards are in the buffer, and row-major.
  std::vector<dcp::MemoryShard> stage(std::span<const Shard> shards, unsigned threads) {
    std::vector<dcp::CheckedShard> from;
    std::vector<uint64_t> at;
    uint64_t bytes = 0;
    for (const Shard& s : shards) {
      from.push_back(dcp::checked(shard_of(s)));
      at.push_back(bytes);
      bytes += (from.back().bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    if (bytes > capacity) {
      release();
      buffer = static_cast<std::byte*>(options.memory->allocate(bytes, kAlignment));
      capacity = bytes;
    }
    copy(from, at, threads);
    std::vector<dcp::MemoryShard> staged;
    for (size_t n = 0; n < from.size(); ++n) {
      staged.push_back(std::move(from[n].shard));
      staged.back().strides.clear();
      staged.back().data = buffer + at[n];
    }
    return staged;
  }

  void copy(const std::vector<dcp::CheckedShard>& from, const std::vector<uint64_t>& at, unsigned threads) const {
    if (options.copy) {
      for (size_t n = 0; n < from.size(); ++n) {
        std::byte* to = buffer + at[n];
        dcp::each_run(from[n], UINT64_MAX, [&](dcp::Bytes run) {
          options.copy(to, run.data(), run.size());
          to += run.size();
        });
      }
      return;
    }
    const dcp::StopFlag never{0};
    dcp::parallel_for(threads > 0 ? threads : dcp::default_workers(), from.size(), never, [&](unsigned, uint64_t n) {
      std::byte* to = buffer + at[n];
      dcp::each_block(from[n], dcp::kMiB, [&](dcp::Bytes block) {
        std::ranges::copy(block, to);
        to += block.size();
      });
    });
  }

  static constexpr size_t kAlignment = 64;
  const StagingOptions options;
  std::byte* buffer = nullptr;
  uint64_t capacity = 0;
  std::unique_ptr<dcp::SerialQueue> queue = std::make_unique<dcp::SerialQueue>();
};

Staging::Staging(StagingOptions options) : state_(guarded([&] { return std::make_unique<State>(std::move(options)); })) {}
Staging::Staging(Staging&&) noexcept = default;
Staging& Staging::operator=(Staging&&) noexcept = default;
Staging::~Staging() = default;
uint64_t Staging::bytes() const { return state_->capacity; }

std::future<SaveReport> async_save(const std::string& path, std::span<const Shard> shards, Staging& staging, const SaveOptions& options) {
  Staging::State& state = *staging.state_;
  return guarded([&] {
    state.queue->wait();  // jobs throw nothing
    std::vector<dcp::MemoryShard> staged;
    std::optional<dcp::Problem> failure;
    try {
      staged = state.stage(shards, options.threads);
    } catch (const std::exception& error) {  // the other ranks wait for this one's save
      failure = dcp::problem_of(error);
    }
    // Objects are small, so they are copied as they are.
    struct Kept {
      std::vector<std::string> bytes;
      std::vector<Object> objects;
    };
    auto kept = std::make_shared<Kept>();
    for (const Object& o : options.objects) kept->bytes.emplace_back(static_cast<const char*>(o.data), o.bytes);
    for (size_t n = 0; n < options.objects.size(); ++n) {
      kept->objects.push_back(options.objects[n]);
      kept->objects.back().data = kept->bytes[n].data();
    }
    auto promise = std::make_shared<std::promise<SaveReport>>();
    std::future<SaveReport> future = promise->get_future();
    state.queue->run([promise, path, staged = std::move(staged), kept, options = options, failure = std::move(failure)]() mutable {
      options.objects = kept->objects;
      try {
        promise->set_value(guarded([&] { return write(path, staged, options, failure); }));
      } catch (...) {
        promise->set_exception(std::current_exception());
      }
    });
    return future;
  });
}

// --- in steps

struct [[gnu::visibility("hidden")]] Saving::State {
  State(const std::string& path, const SaveOptions& options) : outside(options.control), save(request_of(path, options), outside.world) {}

  std::vector<Place> append(const std::vector<dcp::StepSave::Item>& items, Control* control) {
    dcp::World world = outside.world_of(control);
    std::vector<Place> places;
    for (const dcp::StepSave::Place& p : save.append(items, world)) places.push_back({save.file_name(), p.offset, p.length});
    return places;
  }

  Outside outside;
  dcp::StepSave save;
};

Saving::Saving(const std::string& path, const SaveOptions& options)
    : state_(guarded([&] { return std::make_unique<State>(path, options); })) {}
Saving::Saving(Saving&&) noexcept = default;
Saving& Saving::operator=(Saving&&) noexcept = default;
Saving::~Saving() = default;

std::vector<Saving::Place> Saving::append(std::span<const Shard> shards, Control* control) {
  return guarded([&] {
    std::vector<dcp::MemoryShard> given;
    for (const Shard& s : shards) {
      given.push_back(shard_of(s));
      if (!s.sizes.empty()) given.back().shape = s.sizes;  // its item knows of the box alone
      given.back().offsets.clear();
    }
    std::vector<dcp::StepSave::Item> items;
    for (const dcp::MemoryShard& s : given) items.push_back({.shard = &s});
    return state_->append(items, control);
  });
}

std::vector<Saving::Place> Saving::append(std::span<const Object> objects, Control* control) {
  return guarded([&] {
    const std::vector<dcp::MemoryObject> given = objects_of(objects);
    std::vector<dcp::StepSave::Item> items;
    for (const dcp::MemoryObject& o : given) items.push_back({.object = &o});
    return state_->append(items, control);
  });
}

void Saving::complete(Control* control) {
  guarded([&] {
    dcp::World world = state_->outside.world_of(control);
    state_->save.complete(world);
  });
}

void Saving::finish(std::string_view metadata, Control* control) {
  guarded([&] {
    dcp::World world = state_->outside.world_of(control);
    state_->save.finish(metadata, world);
  });
}

}  // namespace dcpctl
