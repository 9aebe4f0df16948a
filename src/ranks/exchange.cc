#include "ranks/exchange.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ranks/session.h"
#include "ranks/wire.h"

namespace dcp {
namespace {

// A message of 8 MiB moves at the full rate of a connection; a larger one gains nothing.
constexpr uint64_t kBatchBytes = 8 * kMiB;
constexpr uint64_t kMaxUnits = 8;
constexpr unsigned kMaxSenders = 4;

// Decoded items come in messages of this size, each with its count of bytes in front; the last one has kLast set.
constexpr uint64_t kStreamBytes = 1 * kMiB;
constexpr uint64_t kLast = uint64_t{1} << 63;

uint64_t units_of_batch(const Plan& plan) {
  return std::clamp<uint64_t>(kBatchBytes / std::max<uint64_t>(plan.worker_bytes / 2, 1), 1, kMaxUnits);
}

// As the readers of the file say it (format/decoders).
[[noreturn]] void fail_too_long(const Item& item, const Place& place) {
  if (item.transforms == Item::kDeflated) fail(ProblemId::deflate_broken, place, "more bytes than the archive's directory says");
  fail(ProblemId::zstd_too_large, place);
}

uint32_t tag_of(uint64_t batch) { return 1 + static_cast<uint32_t>(batch % (uint64_t{1} << 30)); }

}  // namespace

// A buffer whose message is in flight. Abandoned if the message fails.
class Exchange::BorrowedBuffer {
 public:
  BorrowedBuffer(Exchange& exchange, uint64_t bytes) : x_(exchange), buffer_(exchange.borrow(bytes)) {}
  ~BorrowedBuffer() {
    if (ended_) x_.give_back(std::move(buffer_));
    else Link::abandon(std::move(buffer_));
  }
  BorrowedBuffer(const BorrowedBuffer&) = delete;
  BorrowedBuffer& operator=(const BorrowedBuffer&) = delete;
  MutableBytes bytes() { return buffer_; }
  void end() { ended_ = true; }

 private:
  Exchange& x_;
  std::vector<std::byte> buffer_;
  bool ended_ = false;
};

// The bytes of one batch: from the files that this rank sees, and from a message of each other reader.
class MessagePieces : public PieceSource {
 public:
  MessagePieces(Exchange& exchange, uint64_t batch, std::span<const UnitTask> units)
      : x_(exchange), tag_(tag_of(batch)), files_(exchange.source_.files) {
    std::map<uint32_t, uint64_t> bytes;  // by reader
    const ReadVisitor visit{.read =
                                [&](uint32_t file, uint64_t, uint64_t n) {
                                  if (const uint32_t r = reader(file); r != x_.session_.rank()) bytes[r] += n;
                                },
                            .decode = [](const Item&) {}};
    for (const UnitTask& u : units) visit_reads(x_.plan_, x_.source_, x_.extents_, u.ordinal, visit);
    for (const auto& [r, n] : bytes) {
      From& from = from_.try_emplace(r, x_, n).first->second;
      from.message = x_.session_.link().receive(r, tag_, from.buffer.bytes().first(n));
    }
  }

  MutableBytes read(uint32_t file, uint64_t offset, MutableBytes into) override {
    const uint32_t r = reader(file);
    if (r == x_.session_.rank()) return files_.read(file, offset, into);
    From& from = from_.at(r);
    // Wait for all messages in the order of ranks: NCCL delivers them one at a time, and two workers must not wait for each other's.
    if (!std::exchange(arrived_, true))
      for (auto& [from_rank, other] : from_) {
        other.message.wait();
        other.buffer.end();
      }
    if (into.size() > from.bytes - from.at) fail(ProblemId::internal, {}, "more reads than planned from rank " + std::to_string(r));
    x_.received_ += into.size();
    return from.buffer.bytes().subspan(std::exchange(from.at, from.at + into.size()), into.size());
  }

  void decode(const Item& item, const Place& place, uint64_t cap, const std::function<void(Bytes)>& sink) override {
    const uint32_t r = reader(item.file);
    if (r == x_.session_.rank()) return files_.decode(item, place, cap, sink);
    x_.received_ += item.length;
    uint64_t left = item.transforms == 0 ? kLast : cap;  // as in decode_item
    for (uint64_t head = 0; (head & kLast) == 0;) {
      const std::vector<std::byte> buffer = x_.session_.link().receive_all(r, tag_, sizeof head + kStreamBytes);
      head = load_le<uint64_t>(buffer.data());
      const uint64_t bytes = head & ~kLast;
      if (bytes > kStreamBytes) WireReader::wrong();
      if (bytes > left) fail_too_long(item, place);
      left -= bytes;
      sink(Bytes(buffer).subspan(sizeof head, bytes));
    }
  }

 private:
  struct From {
    From(Exchange& exchange, uint64_t n) : buffer(exchange, n), bytes(n) {}
    Exchange::BorrowedBuffer buffer;
    Link::Message message;  // must be destroyed before its buffer
    uint64_t bytes = 0, at = 0;
  };
  uint32_t reader(uint32_t file) const { return x_.visibility_.reader(file, x_.session_.rank()); }
  Exchange& x_;
  uint32_t tag_;
  FilePieces files_;
  std::map<uint32_t, From> from_;
  bool arrived_ = false;
};

// Sends what this rank reads for one batch of another rank.
class Exchange::Sender {
 public:
  Sender(Exchange& exchange, uint32_t to, uint64_t batch, Progress& progress)
      : x_(exchange), to_(to), tag_(tag_of(batch)), files_(exchange.source_.files), progress_(progress) {
    const auto mine = [&](uint32_t file) { return x_.visibility_.reader(file, to_) == x_.session_.rank(); };
    const ReadVisitor visit{.read =
                                [&](uint32_t file, uint64_t offset, uint64_t bytes) {
                                  if (mine(file)) reads_.push_back({file, offset, bytes});
                                },
                            .decode =
                                [&](const Item& item) {
                                  if (mine(item.file)) items_.push_back(item);
                                }};
    for (const UnitTask& u : x_.units_of(to, batch)) visit_reads(x_.plan_, x_.source_, x_.extents_, u.ordinal, visit);
  }

  void send() {
    uint64_t bytes = 0, at = 0;
    for (const Read& r : reads_) bytes += r.bytes;
    BorrowedBuffer buffer(x_, std::max(bytes, items_.empty() ? 0 : sizeof(uint64_t) + kStreamBytes));
    for (const Read& r : reads_) {
      files_.read(r.file, r.offset, buffer.bytes().subspan(at, r.bytes));
      at += r.bytes;
    }
    if (bytes > 0) message(buffer.bytes().first(bytes));
    for (const Item& item : items_) stream(item, buffer.bytes().first(sizeof(uint64_t) + kStreamBytes)), bytes += item.length;
    progress_.bytes_read.fetch_add(bytes, std::memory_order_relaxed);
    buffer.end();
  }

 private:
  struct Read {
    uint32_t file;
    uint64_t offset, bytes;
  };
  void message(Bytes bytes) {
    x_.session_.link().send(to_, tag_, bytes).wait();
    x_.sent_.fetch_add(bytes.size(), std::memory_order_relaxed);
  }
  void stream(const Item& item, MutableBytes whole) {
    uint64_t held = 0;
    const auto flush = [&](uint64_t flag) {
      store_le<uint64_t>(whole.data(), held | flag);
      message(whole);
      held = 0;
    };
    // The receiver knows how much may come, and ends the run if it is more (MessagePieces::decode).
    files_.decode(item, {.path = x_.source_.catalog.file_path(item.file)}, kLast, [&](Bytes block) {
      while (!block.empty()) {
        const uint64_t n = std::min<uint64_t>(block.size(), kStreamBytes - held);
        std::copy_n(block.begin(), n, whole.begin() + static_cast<int64_t>(sizeof(uint64_t) + held));
        held += n;
        block = block.subspan(n);
        if (held == kStreamBytes) flush(0);
      }
    });
    flush(kLast);
  }
  Exchange& x_;
  uint32_t to_, tag_;
  FilePieces files_;
  Progress& progress_;
  std::vector<Read> reads_;
  std::vector<Item> items_;
};

Exchange::Exchange(Session& session, const FileVisibility& visibility, SharedWork work)
    : session_(session),
      visibility_(visibility),
      plan_(work.plan),
      source_(work.source),
      dealing_(std::move(work.units)),
      writers_(work.writers),
      extents_(plan_, source_.catalog),
      units_(units_of_batch(plan_)),
      ahead_(session.link().in_order() ? 0 : work.workers) {}

Exchange::~Exchange() = default;

uint64_t Exchange::worker_bytes(const Plan& plan) { return (1 + 2 * units_of_batch(plan)) * plan.worker_bytes; }

std::span<const UnitTask> Exchange::units_of(uint32_t rank, uint64_t batch) const {
  const std::span all(dealing_[rank]);
  return all.subspan(batch * units_, std::min<uint64_t>(units_, all.size() - batch * units_));
}

UnitBatch Exchange::take(uint64_t batch) {
  session_.check();
  const std::span units = units_of(session_.rank(), batch);
  UnitBatch taken{.units = {units.begin(), units.end()}, .pieces = {}};
  const std::lock_guard lock(requests_mutex_);
  for (const uint64_t end = std::min(batch + 1 + ahead_, batches()); next_request_ < end; ++next_request_)
    requested_[next_request_] = std::make_unique<MessagePieces>(*this, next_request_, units_of(session_.rank(), next_request_));
  taken.pieces = std::move(requested_.extract(batch).mapped());
  return taken;
}

// Sums go up the tree and back down.
void Exchange::join(RunSums& sums, RunLosses& losses) {
  if (writers_ == Writers::kRank0) return;
  std::vector<RunSums::Part> parts = sums.parts();
  std::vector<CastLosses> counts = losses.counts();
  const auto take = [&] {
    WireWriter out;
    out.array(parts);
    out.array(counts);
    return out.take();
  };
  RankTree tree(session_);
  tree.gather(
      [&](Bytes bytes) {
        WireReader in(bytes);
        const auto theirs = in.array_of<RunSums::Part>(parts.size());
        const auto their_counts = in.array_of<CastLosses>(counts.size());
        for (size_t i = 0; i < parts.size(); ++i) parts[i].raw ^= theirs[i].raw, parts[i].bytes += theirs[i].bytes;
        for (size_t i = 0; i < counts.size(); ++i) counts[i] += their_counts[i];
      },
      take);
  const std::vector<std::byte> all = tree.broadcast(session_.rank() == 0 ? take() : std::vector<std::byte>());
  WireReader in(all);
  sums.set(in.array_of<RunSums::Part>(parts.size()));
  losses.set(in.array_of<CastLosses>(counts.size()));
}

void Exchange::serve(unsigned workers, Progress& progress, const StopFlag& stop) {
  std::vector<uint32_t> receivers;
  uint64_t max = 0;
  for (uint32_t r = 0; r < session_.world_size(); ++r) {
    if (r == session_.rank() || batches_of(r) == 0) continue;
    receivers.push_back(r);
    max = std::max(max, batches_of(r));
  }
  parallel_for(std::min(workers, kMaxSenders), max * receivers.size(), stop, [&](unsigned, uint64_t n) {
    const uint32_t to = receivers[n % receivers.size()];
    if (n / receivers.size() < batches_of(to)) Sender(*this, to, n / receivers.size(), progress).send();
  });
}

std::vector<std::byte> Exchange::borrow(uint64_t bytes) {
  std::vector<std::byte> buffer;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      buffer = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (buffer.size() < bytes) buffer.resize(bytes);
  return buffer;
}

void Exchange::give_back(std::vector<std::byte> buffer) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(buffer));
}

Dealing deal_to_readers(const Plan& plan, const SourceFacts& source, const FileVisibility& visibility, uint32_t world_size) {
  Dealing dealing(world_size);
  const MaxExtents extents(plan, source.catalog);
  for (uint64_t u = 0; u < plan.units; ++u) {
    uint32_t file = kNone;
    const auto note = [&](uint32_t f) { file = std::min(file, f); };
    visit_reads(plan, source, extents, u,
                {.read = [&](uint32_t f, uint64_t, uint64_t) { note(f); }, .decode = [&](const Item& item) { note(item.file); }});
    const auto turn = static_cast<uint32_t>(u % world_size);
    dealing[file == kNone ? turn : visibility.reader(file, turn)].push_back({.ordinal = u});
  }
  return dealing;
}

}  // namespace dcp
