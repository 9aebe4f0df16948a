#include "format/item_archive.h"

#include <charconv>
#include <string>

#include "base/sums.h"
#include "pickle/tokens.h"

namespace dcp {
namespace {

// caffe2/serialize/versions.h: kMinSupportedFileFormatVersion, kMaxSupportedFileFormatVersion. torch 1.13 to 2.15 write 3.
constexpr unsigned kMinVersion = 1, kMaxVersion = 10;
// `version` and `byteorder` are a few letters; more of them is some other file.
constexpr uint64_t kWordBytes = 16;

std::string read_word(ItemSource& item, const ZipDirectory& directory, const ZipRecord& record, ProblemId id, const Place& place) {
  const uint64_t at = payload_of(item, directory, record, place);
  if (record.size > kWordBytes) {
    Place here = at_offset(place, at);
    here.member = record.name;
    fail(id, std::move(here), std::to_string(record.size) + " bytes");
  }
  const Bytes bytes = item.at(at, record.size);
  if (!has_crc(record) || crc32(bytes) == record.crc) return std::string(as_text(bytes));
  Place here = at_offset(place, at);
  here.member = record.name;
  here.length = record.size;
  fail(ProblemId::crc_mismatch, std::move(here));
}

// torch reads the number and ignores what follows it; "3\n" and "3" are both in use.
void check_version(ItemSource& item, const ZipDirectory& directory, const Place& place) {
  const ZipRecord& record = stored_record(directory, "version", place);
  const std::string text = read_word(item, directory, record, ProblemId::item_version, place);
  unsigned version = 0;
  std::from_chars(text.data(), text.data() + text.size(), version);
  if (version >= kMinVersion && version <= kMaxVersion) return;
  Place here = at_offset(place, record.header);
  here.member = record.name;
  fail(ProblemId::item_version, std::move(here), text, std::to_string(kMinVersion) + " to " + std::to_string(kMaxVersion));
}

bool read_big_endian(ItemSource& item, const ZipDirectory& directory, const Place& place) {
  if (directory.find("byteorder") == nullptr) return false;  // torch <= 2.0 wrote none
  const ZipRecord& record = stored_record(directory, "byteorder", place);
  const std::string text = read_word(item, directory, record, ProblemId::item_byteorder, place);
  if (text == "little" || text == "big") return text == "big";
  Place here = at_offset(place, record.header);
  here.member = record.name;
  fail(ProblemId::item_byteorder, std::move(here), text, "little or big");
}

}  // namespace

void check_stored(const ZipRecord& record, const Place& place) {
  if (!record.compressed) return;
  Place here = at_offset(place, record.header);
  here.member = record.name;
  fail(ProblemId::item_compressed, std::move(here));
}

const ZipRecord& stored_record(const ZipDirectory& directory, std::string_view name, const Place& place) {
  const ZipRecord* record = directory.find(name);
  if (record == nullptr) {
    Place here = place;
    here.member = name;
    fail(ProblemId::item_no_record, std::move(here));
  }
  check_stored(*record, place);
  return *record;
}

ItemArchive open_item_archive(ItemSource& item, const Place& place, const Limits& limits) {
  ItemArchive archive{.directory = read_zip_directory(item, place, limits)};
  check_version(item, archive.directory, place);
  archive.big_endian = read_big_endian(item, archive.directory, place);
  return archive;
}

ItemPickle read_item_pickle(ItemSource& item, const ZipDirectory& directory, uint64_t cap, const Place& place) {
  const ZipRecord& record = stored_record(directory, "data.pkl", place);
  const uint64_t at = payload_of(item, directory, record, place);
  ItemPickle pickle{.bytes = {}, .place = at_offset(place, at)};
  pickle.place.member = record.name;
  if (record.size > cap) {
    Problem p = make_problem(ProblemId::over_limit, pickle.place, std::to_string(record.size) + " bytes", "at most " + std::to_string(cap));
    p.hint = "give --max-pickle " + std::to_string(record.size / kMiB + 1) + "MiB if you trust where the file comes from";
    throw Error(std::move(p));
  }
  const Bytes bytes = item.at(at, record.size);
  if (has_crc(record) && crc32(bytes) != record.crc) {
    pickle.place.length = record.size;
    fail(ProblemId::crc_mismatch, pickle.place);
  }
  pickle.bytes.assign(bytes.begin(), bytes.end());
  return pickle;
}

bool looks_like_safetensors(Bytes head) {
  constexpr uint64_t kMostHeaderBytes = 100'000'000;  // of safetensors itself
  if (head.size() < kSafetensorsHeadBytes) return false;
  const std::string_view json = as_text(head.subspan(8, 2));
  return load_le<uint64_t>(head.data()) <= kMostHeaderBytes && json == "{\"";
}

}  // namespace dcp
