#include "format/item_archive.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "base/sums.h"
#include "base/text.h"
#include "format/inflate.h"
#include "pickle/tokens.h"

namespace dcp {
namespace {

// caffe2/serialize/versions.h: kMinSupportedFileFormatVersion, kMaxSupportedFileFormatVersion. torch 1.13 to 2.15 write 3.
constexpr unsigned kMinVersion = 1, kMaxVersion = 10;
// `version` and `byteorder` are a few letters; more of them is some other file.
constexpr uint64_t kWordBytes = 16;
// What is read of a record at once.
constexpr uint64_t kBlockBytes = 64 * kKiB;

Place place_in(const Place& item, uint64_t at, const ZipRecord& record) {
  Place here = at_offset(item, at);
  here.member = record.name;
  return here;
}

// All of a record whose size is known to be small enough; crc_mismatch.
std::vector<std::byte> whole_record(ItemSource& item, const ZipRecord& record, uint64_t payload, const Place& place) {
  std::vector<std::byte> bytes;
  bytes.reserve(record.size);
  read_record(item, record, payload, place, [&](Bytes b) { bytes.insert(bytes.end(), b.begin(), b.end()); });
  if (!has_crc(record) || crc32(bytes) == record.crc) return bytes;
  Place here = place_in(place, payload, record);
  here.length = record.packed;
  fail(ProblemId::crc_mismatch, std::move(here));
}

std::string read_word(ItemSource& item, const ZipDirectory& directory, const ZipRecord& record, ProblemId id, const Place& place) {
  const uint64_t at = payload_of(item, directory, record, place);
  if (record.size > kWordBytes) {
    fail(id, place_in(place, at, record), std::to_string(record.size) + " bytes");
  }
  return std::string(as_text(whole_record(item, record, at, place)));
}

// torch reads the number and ignores what follows it; "3\n" and "3" are both in use. It looks for `.data/version` first.
void check_version(ItemSource& item, const ZipDirectory& directory, const Place& place) {
  const bool hidden = directory.find(".data/version") != nullptr;
  const ZipRecord& record = readable_record(directory, hidden ? ".data/version" : "version", place);
  const std::string text = read_word(item, directory, record, ProblemId::item_version, place);
  unsigned version = 0;
  std::from_chars(text.data(), text.data() + text.size(), version);
  if (version >= kMinVersion && version <= kMaxVersion) return;
  fail(ProblemId::item_version, place_in(place, record.header, record), text,
       std::to_string(kMinVersion) + " to " + std::to_string(kMaxVersion));
}

bool read_big_endian(ItemSource& item, const ZipDirectory& directory, const Place& place) {
  if (directory.find("byteorder") == nullptr) return false;  // torch <= 2.0 wrote none
  const ZipRecord& record = readable_record(directory, "byteorder", place);
  const std::string text = read_word(item, directory, record, ProblemId::item_byteorder, place);
  if (text == "little" || text == "big") return text == "big";
  fail(ProblemId::item_byteorder, place_in(place, record.header, record), text, "little or big");
}

// What nothing here needs, but torch reads as it opens an archive: where it cannot, it refuses all of it.
void check_unused(ItemSource& item, const ZipDirectory& directory, const Place& place) {
  for (const std::string_view name : {".format_version", ".data/serialization_id"})
    if (const ZipRecord* record = directory.find(name)) payload_of(item, directory, *record, place);
  if (directory.find(".storage_alignment") == nullptr) return;
  const ZipRecord& record = readable_record(directory, ".storage_alignment", place);
  const std::string text = read_word(item, directory, record, ProblemId::item_alignment, place);
  if (!is_digits(text)) fail(ProblemId::item_alignment, place_in(place, record.header, record), text, "digits");
}

// torch.load asks the first bytes (torch/serialization.py, _is_zipfile; what begins otherwise is read as its format before 1.6, whatever follows)
// and for TorchScript's own record (_is_torchscript_zip).
void check_kind(ItemSource& item, const ZipDirectory& directory, const Place& place) {
  constexpr std::string_view kBegin("PK\3\4");
  const std::string begin(as_text(item.at(0, std::min<uint64_t>(item.size(), kBegin.size()))));
  if (begin != kBegin) fail(ProblemId::item_not_archive, place, "text '" + begin + "' at its begin", "'" + std::string(kBegin) + "'");
  if (directory.find("constants.pkl") != nullptr) fail(ProblemId::item_not_archive, place, "constants.pkl, as TorchScript has");
}

}  // namespace

void check_method(const ZipRecord& record, const Place& place) {
  if (record.method == ZipRecord::kStored || record.method == ZipRecord::kDeflated) return;
  fail(ProblemId::item_compressed, place_in(place, record.header, record), "method " + std::to_string(record.method));
}

void read_record(ItemSource& item, const ZipRecord& record, uint64_t payload, const Place& place, const std::function<void(Bytes)>& sink) {
  check_method(record, place);
  uint64_t at = 0;
  const auto next = [&] {
    const uint64_t bytes = std::min(kBlockBytes, record.packed - at);
    if (bytes == 0) return Bytes();
    return item.at(payload + std::exchange(at, at + bytes), bytes);
  };
  if (!record.deflated()) {
    while (at < record.packed) sink(next());
    return;
  }
  InflateReader reader(next, place_in(place, payload, record), record.size);
  std::vector<std::byte> block(std::min(kBlockBytes, record.size + 1));
  uint64_t total = 0;
  while (const size_t n = reader.read(block)) {
    sink(Bytes(block).first(n));
    total += n;
  }
  if (total != record.size)
    fail(ProblemId::deflate_broken, place_in(place, payload, record), std::to_string(total) + " bytes", std::to_string(record.size));
}

bool check_record_crc(ItemSource& item, const ZipRecord& record, uint64_t payload, const Place& place) {
  uint32_t raw = 0;
  read_record(item, record, payload, place, [&](Bytes b) { raw = crc32_shift(raw, b.size()) ^ crc32_raw(b); });
  const uint32_t got = crc32_finish(raw, record.size);
  if (!has_crc(record) && got != 0) return false;
  if (got == record.crc) return true;
  Place here = place_in(place, payload, record);
  here.length = record.packed;
  throw Error(crc_problem(std::move(here), record.size, got, record.crc));
}

const ZipRecord& readable_record(const ZipDirectory& directory, std::string_view name, const Place& place) {
  const ZipRecord* record = directory.find(name);
  if (record == nullptr) {
    Place here = place;
    here.member = name;
    fail(ProblemId::item_no_record, std::move(here));
  }
  check_method(*record, place);
  return *record;
}

ItemArchive open_item_archive(ItemSource& item, const Place& place, const Limits& limits) {
  ItemArchive archive{.directory = read_zip_directory(item, place, limits)};
  check_version(item, archive.directory, place);
  archive.big_endian = read_big_endian(item, archive.directory, place);
  check_unused(item, archive.directory, place);
  check_kind(item, archive.directory, place);
  return archive;
}

ItemPickle read_item_pickle(ItemSource& item, const ZipDirectory& directory, uint64_t cap, const Limits& limits, const Place& place) {
  const ZipRecord& record = readable_record(directory, "data.pkl", place);
  const uint64_t at = payload_of(item, directory, record, place);
  if (record.deflated()) cap = std::min(cap, limits.decoded_bytes + 16 * record.packed);
  ItemPickle pickle{.bytes = {}, .packed = record.packed, .place = at_offset(place, at)};
  pickle.place.member = record.name;
  if (record.size > cap) {
    Problem p = make_problem(ProblemId::over_limit, pickle.place, std::to_string(record.size) + " bytes", "at most " + std::to_string(cap));
    p.remedy = Remedy::kLargerPickle;
    p.enough_bytes = record.size + kMiB;
    throw Error(std::move(p));
  }
  pickle.bytes = whole_record(item, record, at, place);
  return pickle;
}

}  // namespace dcp
