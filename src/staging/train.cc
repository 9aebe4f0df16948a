#include "staging/train.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <future>
#include <memory>
#include <numeric>

#include "base/text.h"
#include "base/workers.h"
#include "exec/dcp_folder.h"
#include "exec/synthetic.h"
#include "kernels/kernels.h"
#include "select/training_state.h"
#include "staging/host_memory.h"
#include "staging/measure.h"

namespace dcp {
namespace {

constexpr std::array<std::string_view, 3> kNames{"disabled", "async", "async_with_pinned_mem"};
constexpr uint64_t kStampEvery = 4096;  // as in the device's stamp()
constexpr uint64_t kHostAlignment = 64;
constexpr uint64_t kBlock = 4 << 20;  // copied, converted and written at once

enum Lane : size_t { kTraining, kStaging, kWriter };
enum Kind : size_t { kForward, kOptimizer, kCopying, kWaiting, kWriting };

bool is_model(const FolderTensor& t) { return !names_training_state(std::string_view(t.key).substr(0, t.key.find('.'))); }

// The content of a checkpoint: the tensors of the workload, and their dtypes.
struct Content {
  std::vector<size_t> tensors;  // of the workload
  std::optional<DcpFolder> folder;
  std::vector<DType> dtypes;  // in the files
};

Content content_of(const Workload& w, bool model_only, std::optional<DType> export_dtype) {
  Content c;
  std::vector<FolderTensor> tensors;
  std::vector<FolderChunk> chunks;
  for (size_t t = 0; t < w.tensors.size(); ++t) {
    if (model_only && !is_model(w.tensors[t])) continue;
    FolderTensor tensor = w.tensors[t];
    if (export_dtype && castable(tensor.dtype)) tensor.dtype = *export_dtype;
    chunks.push_back({.tensor = static_cast<uint32_t>(tensors.size()),
                      .rank = 0,
                      .offsets = std::vector<int64_t>(tensor.dims.size(), 0),
                      .sizes = tensor.dims});
    c.tensors.push_back(t);
    c.dtypes.push_back(tensor.dtype);
    tensors.push_back(std::move(tensor));
  }
  if (tensors.empty()) fail(ProblemId::nothing_selected, {}, "no tensor of the model in " + w.name);
  c.folder.emplace(std::move(tensors), std::move(chunks), 1);
  return c;
}

class Trainer {
 public:
  Trainer(Io& io, Device& device, const Workload& workload, const TrainSpec& spec, const StopFlag& stop)
      : io_(io),
        device_(device),
        workload_(workload),
        mode_(spec.mode),
        spec_(spec),
        stop_(stop),
        folder_(io, io.open_folder(spec.folder)),
        full_(content_of(workload, false, std::nullopt)),
        at_(offsets_of(workload.tensors, kStampEvery)),
        host_at_(offsets_of(workload.tensors, kHostAlignment)),
        memory_(device.allocate(at_.back())),
        compute_(device.stream()),
        copies_(device.stream()),
        block_(kBlock) {
    if (spec.last_model_only || spec.export_dtype) last_ = content_of(workload, spec.last_model_only, spec.export_dtype);
    for (size_t t = 0; t < workload.tensors.size(); ++t) fill(t);
    result_.mode = mode_;
    if (mode_ == SaveMode::kAsyncPinned) pinned_ = device.allocate_pinned(host_at_.back());
    if (mode_) result_.host_bytes = mode_ == SaveMode::kDisabled ? kBlock : host_at_.back();
    result_.saves.reserve(spec.steps);  // the writer keeps a pointer
  }

  TrainResult run() {
    start_ = io_.now_ns();
    for (uint32_t step = 1; step <= spec_.steps; ++step) {
      const uint64_t begin = io_.now_ns();
      check_stop();
      timed(kTraining, kForward, step, [&] { work(spec_.step_ns / 5 * 4); });
      if (staged_.valid()) result_.saves.back().staging_ns += timed(kTraining, kWaiting, step, [&] { staged_.get(); });
      timed(kTraining, kOptimizer, step, [&] {
        device_.stamp(compute_, memory_.get(), at_.back(), std::to_integer<uint8_t>(stamp_of(step)));
        work(spec_.step_ns / 5);
      });
      const bool last = step == spec_.steps;
      if (mode_ && (last || step % spec_.save_every == 0)) save(step, last);
      result_.step_ns.push_back(io_.now_ns() - begin);
    }
    writer_.wait();
    result_.spans.insert(result_.spans.end(), writer_spans_.begin(), writer_spans_.end());
    return std::move(result_);
  }

 private:
  void fill(size_t t) {
    const FolderTensor& tensor = workload_.tensors[t];
    const uint64_t element = bytes_of(tensor.dtype), total = tensor_bytes(tensor);
    for (uint64_t done = 0; done < total; done += kBlock) {
      const MutableBytes bytes = MutableBytes(block_).first(std::min(kBlock, total - done));
      synthetic_values(bytes, tensor.dtype, 1, static_cast<uint32_t>(t), done / element);
      device_.upload(memory_.get() + at_[t] + done, bytes);
    }
  }

  void check_stop() const {
    if (const int signal = stop_.load()) fail(signal == SIGINT ? ProblemId::interrupted : ProblemId::terminated, {});
  }

  void work(uint64_t ns) {
    device_.work(compute_, ns);
    device_.wait(compute_);
  }

  template <class Body>
  uint64_t timed(Lane lane, Kind kind, uint32_t step, const Body& body) {
    const uint64_t begin = io_.now_ns();
    body();
    const uint64_t end = io_.now_ns();
    (lane == kTraining ? result_.spans : writer_spans_)
        .push_back({lane, kind, begin - start_, end - start_, std::string(kTrainKinds[kind]) + ", step " + std::to_string(step)});
    return end - begin;
  }

  void save(uint32_t step, bool last) {
    const uint64_t begin = io_.now_ns();
    SaveFacts& s = result_.saves.emplace_back(SaveFacts{.step = step, .last = last});
    if (mode_ != SaveMode::kDisabled) s.waiting_ns = timed(kTraining, kWaiting, step, [&] { writer_.wait(); });
    if (last || mode_ == SaveMode::kDisabled) {
      s.staging_ns = timed(kTraining, kWriting, step, [&] {
        write(last && last_ ? *last_ : full_, step, s, [&](size_t t, uint64_t at, uint64_t n) { return from_device(t, at, n); });
      });
      s.durable_ns = io_.now_ns() - begin;
      return;
    }
    const auto written_from = [this, &s, step, begin](const std::byte* host) {
      timed(kWriter, kWriting, step,
            [&] { write(full_, step, s, [&](size_t t, uint64_t at, uint64_t n) { return Bytes(host + host_at_[t] + at, n); }); });
      s.durable_ns = io_.now_ns() - begin;
    };
    if (mode_ == SaveMode::kAsync) {
      std::shared_ptr<HostMemory> host;
      s.staging_ns = timed(kTraining, kCopying, step, [&] {
        host = std::make_shared<HostMemory>(host_at_.back(), Pages::kOrdinary);
        copy_all(host->data());
        device_.wait(copies_);
      });
      writer_.run([host, written_from] { written_from(host->data()); });
      return;
    }
    s.staging_ns = timed(kTraining, kCopying, step,
                         [&] { copy_all(pinned_.get()); });  // starts the copies, which run during the next forward and backward
    auto staged = std::make_shared<std::promise<void>>();
    staged_ = staged->get_future();
    writer_.run([this, staged, written_from, step] {
      try {
        timed(kStaging, kCopying, step, [&] { device_.wait(copies_); });
        staged->set_value();
      } catch (...) {
        staged->set_exception(std::current_exception());
        throw;
      }
      written_from(pinned_.get());
    });
  }

  void copy_all(std::byte* host) {
    for (size_t t = 0; t < workload_.tensors.size(); ++t)
      device_.copy(copies_, host + host_at_[t], memory_.get() + at_[t], tensor_bytes(workload_.tensors[t]));
  }

  Bytes from_device(size_t t, uint64_t at, uint64_t bytes) {
    device_.copy(copies_, block_.data(), memory_.get() + at_[t] + at, bytes);
    device_.wait(copies_);
    return Bytes(block_).first(bytes);
  }

  // `bytes_at(tensor, offset, bytes)` returns a part of a tensor, of at most kBlock bytes, valid until the next call.
  template <class BytesAt>
  void write(const Content& content, uint32_t step, SaveFacts& s, const BytesAt& bytes_at) {
    std::vector<std::byte> converted;
    const auto payload = [&](size_t chunk, const DcpFolder::Emit& emit) {
      const size_t t = content.tensors[chunk];
      const DType from = workload_.tensors[t].dtype, to = content.dtypes[chunk];
      const uint64_t total = tensor_bytes(workload_.tensors[t]);
      for (uint64_t done = 0; done < total; done += kBlock) {
        const Bytes bytes = bytes_at(t, done, std::min(kBlock, total - done));
        if (from == to) {
          emit(bytes);
          continue;
        }
        const uint64_t elements = bytes.size() / bytes_of(from);
        converted.resize(elements * bytes_of(to));
        convert(converted.data(), to, bytes.data(), from, elements);
        emit(converted);
      }
    };
    const std::string name = "step-" + std::to_string(step);
    kept_.push_back({name, content.folder->write(io_, spec_.folder + "/" + name, {.sync = spec_.sync}, stop_, payload)});
    s.bytes = content.folder->file_bytes();
    while (spec_.keep_latest_k > 0 && kept_.size() > spec_.keep_latest_k) purge();
  }

  // `.metadata` first, so that a half-removed folder is never taken for a checkpoint. A folder that is no longer the one that was written
  // is kept.
  void purge() {
    const auto [name, written] = kept_.front();
    kept_.pop_front();
    const std::optional<Handle> handle = io_.open_folder(folder_.get(), name);
    if (!handle) return;
    const OpenFile old(io_, *handle);
    if (io_.facts(*handle).id != written && io_.write_capabilities(*handle).keeps_ids) return;
    io_.remove_file(*handle, ".metadata");
    io_.remove_file(*handle, "__0_0.distcp");
    io_.remove_folder(folder_.get(), name);
  }

  Io& io_;
  Device& device_;
  const Workload& workload_;
  const std::optional<SaveMode> mode_;
  const TrainSpec& spec_;
  const StopFlag& stop_;
  const OpenFile folder_;  // the spec's
  const Content full_;
  std::optional<Content> last_;
  const std::vector<uint64_t> at_, host_at_;  // of tensors in device memory and in a host buffer
  Device::Memory memory_, pinned_;
  Device::Stream compute_, copies_;
  std::vector<std::byte> block_;
  std::deque<std::pair<std::string, FileId>> kept_;
  std::future<void> staged_;
  uint64_t start_ = 0;
  TrainResult result_;
  std::vector<Span> writer_spans_;
  SerialQueue writer_;  // last: its thread uses all of the above
};

uint64_t mean_step(const TrainResult& r) {
  const size_t n = std::max<size_t>(r.step_ns.size(), 2) - 1;  // the last step is saved in another way
  return std::accumulate(r.step_ns.begin(), r.step_ns.begin() + static_cast<ptrdiff_t>(std::min(n, r.step_ns.size())), uint64_t{0}) / n;
}

}  // namespace

std::string_view name_of(SaveMode mode) { return kNames[static_cast<size_t>(mode)]; }

std::optional<SaveMode> save_mode_named(std::string_view name) {
  for (const SaveMode m : kSaveModes)
    if (name_of(m) == name) return m;
  return std::nullopt;
}

// Elements of bytes 0x30 to 0x3f are finite in every floating dtype, and of similar size.
std::byte stamp_of(uint32_t step) { return static_cast<std::byte>(0x30 + step % 16); }

TrainResult train(Io& io, Device& device, const Workload& workload, const TrainSpec& spec, const StopFlag& stop) {
  return Trainer(io, device, workload, spec, stop).run();
}

TrainSummary summarize(const TrainResult& result, const TrainResult& without_saves) {
  std::vector<uint64_t> stalls, durable;
  for (const SaveFacts& s : result.saves) {
    if (s.last && result.saves.size() > 1) continue;
    stalls.push_back(s.stall_ns());
    durable.push_back(s.durable_ns);
  }
  TrainSummary summary{.step_ns = mean_step(result)};
  if (!stalls.empty()) {
    summary.stall_ns = spread_of(stalls).median;
    summary.durable_ns = spread_of(durable).median;
  }
  const uint64_t bare = mean_step(without_saves);
  if (bare > 0) summary.overhead = static_cast<double>(summary.step_ns) / static_cast<double>(bare) - 1;
  return summary;
}

std::string train_verdict(const std::vector<TrainResult>& modes, const TrainResult& without_saves) {
  const TrainResult* best = nullptr;
  std::string others;
  for (const TrainResult& m : modes)
    if (best == nullptr || summarize(m, without_saves).stall_ns < summarize(*best, without_saves).stall_ns) best = &m;
  if (best == nullptr) return "No mode was measured.";
  for (const TrainResult& m : modes)
    if (&m != best)
      others += (others.empty() ? "; " : ", ") + std::string(name_of(*m.mode)) + " " + duration(summarize(m, without_saves).stall_ns);
  const TrainSummary s = summarize(*best, without_saves);
  return "Save in mode " + std::string(name_of(*best->mode)) + ": each save stalls training for " + duration(s.stall_ns) +
         " and is durable after " + duration(s.durable_ns) + ", with " + human_bytes(best->host_bytes) + " of host memory" + others + ".";
}

}  // namespace dcp
