#include "exec/joined_reads.h"

#include <algorithm>
#include <utility>

namespace dcp {

class JoinedReads::Pieces final : public FilePieces {
 public:
  Pieces(JoinedReads& all, uint64_t unit) : FilePieces(all.source_.files), all_(all) {
    visit_reads(all.plan_, all.source_, all.extents_, unit,
                {.read =
                     [&](uint32_t file, uint64_t offset, uint64_t bytes) {
                       if (is_full_) return;
                       stretches_.push_back({file, offset, offset + bytes, bytes});
                       if (stretches_.size() < kMost) return;
                       join();
                       is_full_ = stretches_.size() > kMost / 2;
                     },
                 .decode = [](const Item&) {}});
    join();
  }
  ~Pieces() override { all_.give_back(std::move(buffer_)); }

  MutableBytes read(uint32_t file, uint64_t offset, MutableBytes into) override {
    const auto after =
        std::ranges::upper_bound(stretches_, std::pair(file, offset), {}, [](const Stretch& s) { return std::pair(s.file, s.begin); });
    if (after == stretches_.begin()) return FilePieces::read(file, offset, into);
    const Stretch& s = *std::prev(after);
    if (!s.is_joined || s.file != file || offset + into.size() > s.end) return FilePieces::read(file, offset, into);
    if (held_ != &s) {
      if (buffer_.empty()) buffer_ = all_.take_buffer();
      FilePieces::read(file, s.begin, MutableBytes(buffer_).first(s.end - s.begin));
      if (s.end - s.begin > s.wanted) all_.between_ += s.end - s.begin - s.wanted;
      held_ = &s;
    }
    return MutableBytes(buffer_).subspan(offset - s.begin, into.size());
  }

  static constexpr uint64_t kLongest = 2 << 20;

 private:
  struct Stretch {
    uint32_t file = 0;
    uint64_t begin = 0, end = 0;
    uint64_t wanted = 0;  // bytes of it that are asked for
    bool is_joined = false;
  };
  static constexpr size_t kMost = 1 << 14;

  void join() {
    std::ranges::sort(stretches_, {}, [](const Stretch& s) { return std::pair(s.file, s.begin); });
    size_t joined = 0;
    for (const Stretch& s : stretches_) {
      Stretch* last = joined == 0 ? nullptr : &stretches_[joined - 1];
      if (last == nullptr || last->file != s.file || s.begin > last->end + kJoinGap || s.end - last->begin > kLongest) {
        stretches_[joined++] = s;
      } else {
        last->end = std::max(last->end, s.end);
        last->wanted += s.wanted;
        last->is_joined = true;
      }
    }
    stretches_.resize(joined);
  }

  JoinedReads& all_;
  std::vector<Stretch> stretches_;
  bool is_full_ = false;  // further reads are made one by one
  Buffer buffer_;
  const Stretch* held_ = nullptr;
};

UnitBatch JoinedReads::take(uint64_t unit) {
  UnitBatch batch{.units = {{.ordinal = unit}}, .pieces = {}};
  if (plan_.group_of(unit).kind == Group::Kind::kBoxes) batch.pieces = std::make_unique<Pieces>(*this, unit);
  else batch.pieces = std::make_unique<FilePieces>(source_.files);
  return batch;
}

JoinedReads::Buffer JoinedReads::take_buffer() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    free_.reserve(++buffers_);  // giving it back must not throw
    return Buffer(Pieces::kLongest);
  }
  Buffer buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void JoinedReads::give_back(Buffer buffer) {
  if (buffer.empty()) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(buffer));
}

}  // namespace dcp
