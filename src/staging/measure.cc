#include "staging/measure.h"

#include <algorithm>
#include <array>
#include <barrier>
#include <exception>

#include "base/text.h"
#include "base/workers.h"
#include "exec/synthetic.h"
#include "staging/host_memory.h"

namespace dcp {

Spread spread_of(std::vector<uint64_t> values) {
  std::ranges::sort(values);
  const auto at = [&](size_t quarter) { return values[(values.size() - 1) * quarter / 4]; };
  Spread s{.min = values.front(), .median = at(2), .max = values.back()};
  if (s.median > 0) s.quartiles = static_cast<double>(at(3) - at(1)) / static_cast<double>(s.median);
  return s;
}
namespace {

constexpr std::array<std::string_view, 6> kNames{"pageable",   "pinned-fresh",    "pinned-reused",
                                                 "registered", "registered-huge", "pinned-coalesced"};

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Deals copies out over the streams: each goes to the one with the fewest bytes so far. Copies of gathered bytes stay on stream 0, after
// the gathering.
class Dealer {
 public:
  Dealer(CopyPlan& plan, const StagingCase& how) : plan_(plan), how_(how), load_(std::max(how.streams, 1u), 0) {}

  void add(uint64_t from, uint64_t to, uint64_t bytes, bool gathered) {
    const uint64_t each = how_.chunk_bytes == 0 ? bytes : how_.chunk_bytes;
    for (uint64_t done = 0; done < bytes; done += each) {
      const auto stream = gathered ? 0u : static_cast<unsigned>(std::ranges::min_element(load_) - load_.begin());
      const uint64_t n = std::min(each, bytes - done);
      plan_.copies.push_back({.from = from + done, .to = to + done, .bytes = n, .gathered = gathered, .stream = stream});
      load_[stream] += n;
    }
  }

 private:
  CopyPlan& plan_;
  const StagingCase& how_;
  std::vector<uint64_t> load_;
};

// A buffer on the host, its owner, and how long it took to get.
struct Buffer {
  std::shared_ptr<HostMemory> host;
  std::shared_ptr<void> held;
  std::byte* data = nullptr;
  uint64_t allocate_ns = 0, touch_ns = 0;
};

class Run {
 public:
  Run(Io& io, const StagingSource& source, const Workload& workload, const StagingCase& how)
      : io_(io), source_(source), how_(how), plan_(plan_copies(workload, how)), device_(*source.device) {
    for (unsigned s = 0; s < std::max(how.streams, 1u); ++s) streams_.push_back(device_.stream());
    if (!plan_.gather.empty()) {
      std::vector<DcpctlDevicePiece> pieces;
      for (const CopyPlan::Part& p : plan_.gather) pieces.push_back({source.memory.get() + p.from, p.at, p.bytes});
      gathered_ = device_.allocate(plan_.gathered_bytes);
      gather_ = device_.prepare_gather(pieces);
    }
    if (!is_fresh()) buffer_ = allocate();
  }

  bool is_fresh() const { return how_.method == StagingMethod::kPageable || how_.method == StagingMethod::kPinnedFresh; }
  uint64_t setup_ns() const { return buffer_.allocate_ns + buffer_.touch_ns; }
  bool is_huge_by_wish() const { return how_.method == StagingMethod::kRegisteredHuge && !buffer_.host->from_pool(); }
  const CopyPlan& plan() const { return plan_; }

  Repeat once() {
    if (!is_fresh()) return {.copy_ns = copy(buffer_)};
    const Buffer buffer = allocate();
    return {.allocate_ns = buffer.allocate_ns, .touch_ns = buffer.touch_ns, .copy_ns = copy(buffer)};
  }

 private:
  Buffer allocate() {
    const OnNode node(how_.node);
    Buffer b;
    const uint64_t begin = io_.now_ns();
    const bool pinned = how_.method == StagingMethod::kPinnedFresh || how_.method == StagingMethod::kPinnedReused ||
                        how_.method == StagingMethod::kCoalesced;
    if (pinned) {
      const Device::Memory memory = device_.allocate_pinned(plan_.host_bytes);
      b.data = memory.get();
      b.held = memory;
      b.allocate_ns = io_.now_ns() - begin;
      return b;
    }
    b.host =
        std::make_shared<HostMemory>(plan_.host_bytes, how_.method == StagingMethod::kRegisteredHuge ? Pages::kHuge : Pages::kOrdinary);
    b.data = b.host->data();
    const uint64_t allocated = io_.now_ns();
    b.host->touch();
    const uint64_t touched = io_.now_ns();
    b.touch_ns = touched - allocated;
    if (how_.method != StagingMethod::kPageable) b.held = device_.pin(b.data, plan_.host_bytes);
    b.allocate_ns = allocated - begin + (io_.now_ns() - touched);
    return b;
  }

  uint64_t copy(const Buffer& to) {
    const uint64_t begin = io_.now_ns();
    if (gather_) device_.gather(streams_[0], gather_, gathered_.get());
    for (const CopyPlan::Copy& c : plan_.copies)
      device_.copy(streams_[c.stream], to.data + c.to, (c.gathered ? gathered_.get() : source_.memory.get()) + c.from, c.bytes);
    for (const Device::Stream& s : streams_) device_.wait(s);
    return io_.now_ns() - begin;
  }

  Io& io_;
  const StagingSource& source_;
  const StagingCase how_;
  const CopyPlan plan_;
  Device& device_;
  std::vector<Device::Stream> streams_;
  Device::Memory gathered_;
  Device::Gather gather_;
  Buffer buffer_;
};

bool is_device_fault(const Error& e) { return e.problem().id == ProblemId::device_failed || e.problem().id == ProblemId::memory_out; }

std::vector<StagingLine> unavailable(std::vector<StagingLine> lines, const Error& e) {
  for (StagingLine& l : lines) {
    l.repeats.clear();
    l.unavailable = e.problem().got.empty() ? std::string(e.problem().what) : e.problem().got;
  }
  return lines;
}

}  // namespace

std::string_view name_of(StagingMethod method) { return kNames[static_cast<size_t>(method)]; }

std::optional<StagingMethod> method_named(std::string_view name) {
  for (const StagingMethod m : kStagingMethods)
    if (name_of(m) == name) return m;
  return std::nullopt;
}

CopyPlan plan_copies(const Workload& workload, const StagingCase& how) {
  CopyPlan plan;
  const std::vector<uint64_t> from = offsets_of(workload.tensors, CopyPlan::kSourceAlignment);
  plan.source_bytes = from.back();
  const bool coalesced = how.method == StagingMethod::kCoalesced;
  const auto is_small = [&](size_t t) { return tensor_bytes(workload.tensors[t]) <= CopyPlan::kSmall; };
  for (size_t t = 0; coalesced && t < workload.tensors.size(); ++t) {
    if (!is_small(t)) continue;
    plan.gather.push_back({.from = from[t], .at = plan.gathered_bytes, .bytes = tensor_bytes(workload.tensors[t])});
    plan.gathered_bytes += round_up(plan.gather.back().bytes, CopyPlan::kHostAlignment);
  }
  plan.host_bytes = plan.gathered_bytes;
  Dealer dealer(plan, how);
  if (plan.gathered_bytes > 0) dealer.add(0, 0, plan.gathered_bytes, true);
  for (size_t t = 0; t < workload.tensors.size(); ++t) {
    if (coalesced && is_small(t)) continue;
    const uint64_t bytes = tensor_bytes(workload.tensors[t]);
    dealer.add(from[t], plan.host_bytes, bytes, false);
    plan.host_bytes += round_up(bytes, CopyPlan::kHostAlignment);
  }
  return plan;
}

bool is_redundant(const CopyPlan& plan, const Workload& workload, const StagingCase& how) {
  if (how.method == StagingMethod::kCoalesced && plan.gather.size() < 2) return true;
  if (how.chunk_bytes > 0 && how.chunk_bytes >= std::max(workload.largest(), plan.gathered_bytes)) return true;
  const auto last = std::ranges::max_element(plan.copies, {}, &CopyPlan::Copy::stream);
  return how.streams > 1 && (last == plan.copies.end() || last->stream + 1 < how.streams);
}

Spread StagingLine::copy() const {
  std::vector<uint64_t> values;
  for (const Repeat& r : repeats) values.push_back(r.copy_ns);
  return spread_of(std::move(values));
}

Spread StagingLine::blocking() const {
  std::vector<uint64_t> values;
  for (const Repeat& r : repeats) values.push_back(r.blocking_ns());
  return spread_of(std::move(values));
}

void check_memory(const std::vector<Workload>& workloads, uint64_t devices, uint64_t device_free, uint64_t host_available,
                  DeviceMemory memory) {
  for (const Workload& w : workloads) {
    const CopyPlan plan = plan_copies(w, {.method = StagingMethod::kCoalesced});
    const uint64_t on_device = plan.source_bytes + plan.gathered_bytes;
    const uint64_t on_host = devices * (plan.host_bytes + (memory == DeviceMemory::kHosts ? on_device : 0));
    const auto need = [&](uint64_t bytes, uint64_t there, const char* where) {
      if (bytes > there) fail(ProblemId::staging_memory, {}, human_bytes(there) + " free " + where, human_bytes(bytes) + " for " + w.name);
    };
    if (memory == DeviceMemory::kOwn) need(on_device, device_free, "on the device");
    need(on_host, host_available, "on the host");
  }
}

StagingSource make_source(Device& device, const std::vector<Workload>& workloads) {
  uint64_t bytes = 0;
  for (const Workload& w : workloads) bytes = std::max(bytes, offsets_of(w.tensors, CopyPlan::kSourceAlignment).back());
  StagingSource source{&device, device.allocate(std::max<uint64_t>(bytes, 1))};
  std::vector<std::byte> noise(std::min<uint64_t>(bytes, 1 << 20));
  synthetic_values(noise, DType::uint8, 1, 0, 0);
  for (uint64_t at = 0; at < bytes; at += noise.size())
    device.upload(source.memory.get() + at, Bytes(noise).first(std::min<uint64_t>(noise.size(), bytes - at)));
  return source;
}

std::vector<StagingLine> measure(Io& io, const std::vector<StagingSource>& sources, const StagingJob& job, const MeasureOptions& options,
                                 const StopFlag& stop) {
  const auto& [workload, how] = job;
  std::vector<StagingLine> lines;
  for (const StagingSource& s : sources)
    lines.push_back({.device = s.device->index(), .how = how, .bytes = workload.bytes(), .tensors = workload.tensors.size()});
  std::vector<std::unique_ptr<Run>> runs(sources.size());
  std::vector<std::unique_ptr<SerialQueue>> queues;
  for (size_t d = 0; d < sources.size(); ++d) queues.push_back(std::make_unique<SerialQueue>());
  const auto on_all = [&](const auto& each) {
    for (size_t d = 0; d < queues.size(); ++d) queues[d]->run([&each, d] { each(d); });
    std::exception_ptr first;  // wait for all, even after a failure: they use the caller's locals
    for (const auto& q : queues) {
      try {
        q->wait();
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
  };
  try {
    on_all([&](size_t d) { runs[d] = std::make_unique<Run>(io, sources[d], workload, how); });
    for (unsigned r = 0; r < options.warmup + options.repeats; ++r) {
      if (stop.load() != 0) break;
      std::barrier start(static_cast<std::ptrdiff_t>(sources.size()));
      on_all([&](size_t d) {
        start.arrive_and_wait();
        const Repeat repeat = runs[d]->once();
        if (r >= options.warmup) lines[d].repeats.push_back(repeat);
      });
    }
  } catch (const Error& e) {
    if (!is_device_fault(e)) throw;
    return unavailable(std::move(lines), e);
  }
  for (size_t d = 0; d < lines.size(); ++d) {
    lines[d].copies = runs[d]->plan().copies.size();
    lines[d].setup_ns = runs[d]->setup_ns();
    lines[d].host_bytes = runs[d]->plan().host_bytes;
    lines[d].device_bytes = runs[d]->plan().gathered_bytes;
    if (runs[d]->is_huge_by_wish()) lines[d].note = "huge pages by madvise, not from the pool";
  }
  return lines;
}

}  // namespace dcp
