#include "format/item_archive.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/sums.h"
#include "base/text.h"
#include "format/decoders.h"
#include "pickle/tokens.h"

namespace dcp {

// Reader of a zip directory, as far as torch archives need it.
//
// Grammar (APPNOTE 6.3; little-endian; `?` absent from small archives of other writers, always there in torch's):
//   archive   := local* directory zip64_end? locator? end junk*
//   end       := "PK\5\6" disk:2 disk:2 entries:2 entries:2 directory_bytes:4 directory_at:4 comment_bytes:2 comment
//   locator   := "PK\6\7" disk:4 zip64_end_at:8 disks:4
//   zip64_end := "PK\6\6" bytes_after:8 by:2 needs:2 disk:4 disk:4 entries:8 entries:8 directory_bytes:8 directory_at:8 ...
//   directory := entry*
//   entry     := "PK\1\2" by:2 needs:2 flags:2 method:2 time:4 crc:4 packed:4 size:4 name_bytes:2 extra_bytes:2 comment_bytes:2
//                disk:2 internal:2 attributes:4 header_at:4 name extra comment
//   extra     := (id:2 bytes:2 content)*       id 1: size:8? packed:8? header_at:8?, each only where the fixed field is all ones
//   local     := "PK\3\4" needs:2 flags:2 method:2 time:4 crc:4 packed:4 size:4 name_bytes:2 extra_bytes:2 name extra payload
//
// Every position counts from the start of the item. Sizes of local headers are not used: torch writes zeros there.
//
// torch's reader is miniz. Its end record is the last "PK\5\6" that has room for one, whatever the comment says; it finds none where its
// search would leave the file (check_found). It ignores case in names, and of two equal names may find either. An archive that other
// readers would read differently is refused.

namespace {

constexpr uint32_t kEndMark = 0x06054b50, kLocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50, kEntryMark = 0x02014b50,
                   kLocalMark = 0x04034b50;
constexpr uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kEntryBytes = 46, kLocalBytes = 30;
constexpr uint64_t kTailBytes = kEnd64Bytes + kLocatorBytes + kEndBytes;  // what torch puts after the directory
constexpr uint64_t kSearchBytes = 64 * kKiB + kEndBytes;                  // a comment, or junk, of at most 64 KiB
constexpr uint16_t kEncrypted = 0x2041, kPatched = 0x20;  // flags: encrypted (plain, strong, directory); a patch of another file
constexpr uint32_t kFolder = 0x10;                        // DOS attribute of folders: torch reads no bytes of such an entry
constexpr uint16_t kZip64 = 1;
constexpr uint32_t kZip64Marker = std::numeric_limits<uint32_t>::max();

uint16_t u16(Bytes b, uint64_t at) { return load_le<uint16_t>(b.data() + at); }
uint32_t u32(Bytes b, uint64_t at) { return load_le<uint32_t>(b.data() + at); }
uint64_t u64(Bytes b, uint64_t at) { return load_le<uint64_t>(b.data() + at); }

std::string number(uint64_t n) { return std::to_string(n); }

// A position in the item. It becomes a Place only when something is wrong: 10^5 items are read, and a Place owns text.
struct Where {
  const Place& item;
  uint64_t at;
  operator Place() const { return at_offset(item, at); }
};

[[noreturn]] void fail_in(std::string member, const Where& where, ProblemId id, std::string got, std::string expected = {}) {
  Place place = where;
  place.member = std::move(member);
  fail(id, std::move(place), std::move(got), std::move(expected));
}

struct End {
  uint64_t entries = 0;
  uint64_t directory_at = 0;
  uint64_t directory_bytes = 0;
  uint64_t directory_limit = 0;  // where what follows the directory begins
  uint64_t at = 0;               // of the end record
  uint64_t end = 0;              // after its comment
};

// The last mark that is followed by enough bytes for an end record.
std::optional<uint64_t> last_mark(Bytes tail) {
  if (tail.size() < kEndBytes) return std::nullopt;
  for (uint64_t at = tail.size() - kEndBytes + 1; at-- > 0;) {
    if (u32(tail, at) == kEndMark) return at;
  }
  return std::nullopt;
}

// miniz (mz_zip_reader_locate_header_sig) searches blocks of 4096 bytes backwards from the end, each sharing 3 bytes with the one behind it,
// and fails if a block but the first would begin before the file.
void check_found(uint64_t at, uint64_t size, const Place& place) {
  constexpr uint64_t kBlock = 4096, kStep = kBlock - 3;
  const uint64_t distance = size - at;
  if (distance <= kBlock || size >= kBlock + (distance - kBlock + kStep - 1) / kStep * kStep) return;
  fail(ProblemId::zip_bad_end, Where{place, at}, number(distance - kEndBytes) + " bytes behind it, where torch does not find it",
       "at most " + number(kBlock - kEndBytes));
}

// torch's end record is in the last 98 bytes, so a short read is tried first.
uint64_t find_end(ItemSource& item, const Place& place) {
  const uint64_t size = item.size();
  for (const uint64_t window : {std::min(size, kTailBytes), std::min(size, kSearchBytes)}) {
    const auto found = last_mark(item.at(size - window, window));
    if (!found) continue;
    check_found(size - window + *found, size, place);
    return size - window + *found;
  }
  fail(ProblemId::zip_no_end, place);
}

// Called if the last end record is not simply the end of the archive. If it lies in the comment of an earlier one, readers differ in which
// one they use.
void check_comment(ItemSource& item, const End& end, uint64_t comment_bytes, const Place& place) {
  const uint64_t size = item.size(), window = std::min(size, kSearchBytes), first = size - window;
  const Bytes tail = item.at(first, window);
  for (uint64_t at = end.at - first; at-- > 0;) {
    if (u32(tail, at) != kEndMark || first + at + kEndBytes > end.at || first + at + kEndBytes + u16(tail, at + 20) <= end.at) continue;
    fail(ProblemId::zip_two_ends, Where{place, end.at},
         "end records at " + number(first + at) + " and, in its comment, at " + number(end.at));
  }
  if (comment_bytes > size - end.at - kEndBytes)
    fail(ProblemId::zip_bad_end, Where{place, end.at}, "a comment of " + number(comment_bytes) + " bytes",
         "at most " + number(size - end.at - kEndBytes));
}

// A field of the end record must repeat the zip64 one or be all ones.
void same_or_zip64_marker(uint64_t narrow, uint64_t ones, uint64_t wide, const Where& where) {
  if (narrow != ones && narrow != wide) fail(ProblemId::zip_bad_end, where, number(narrow), number(wide));
}

// Takes the values from the zip64 end record, if a locator points to one.
void read_end64(ItemSource& item, End& end, const Place& place) {
  if (end.at < kLocatorBytes + kEnd64Bytes) return;
  const uint64_t locator_at = end.at - kLocatorBytes;
  const Bytes locator = item.at(locator_at, kLocatorBytes);
  if (u32(locator, 0) != kLocatorMark) return;
  const uint64_t at = u64(locator, 8);
  const Where here{place, locator_at};
  if (u32(locator, 4) != 0 || u32(locator, 16) != 1) fail(ProblemId::zip_bad_end, here, "an archive in several parts");
  if (at > locator_at - kEnd64Bytes) fail(ProblemId::zip_bad_end, here, "a zip64 end record at " + number(at));
  const Bytes b = item.at(at, kEnd64Bytes);
  const Where there{place, at};
  if (u32(b, 0) != kEnd64Mark) fail(ProblemId::zip_bad_end, there, "no zip64 end record");
  // Some readers follow the locator, others look before it.
  if (const uint64_t length = locator_at - at - 12; u64(b, 4) != length)
    fail(ProblemId::zip_bad_end, there, "a zip64 end record of " + number(u64(b, 4)) + " bytes", number(length));
  if (u32(b, 16) != 0 || u32(b, 20) != 0) fail(ProblemId::zip_bad_end, there, "an archive in several parts");
  if (u64(b, 24) != u64(b, 32)) fail(ProblemId::zip_bad_end, there, number(u64(b, 24)), number(u64(b, 32)));
  same_or_zip64_marker(end.entries, 0xFFFF, u64(b, 32), there);
  same_or_zip64_marker(end.directory_bytes, kZip64Marker, u64(b, 40), there);
  same_or_zip64_marker(end.directory_at, kZip64Marker, u64(b, 48), there);
  end.entries = u64(b, 32);
  end.directory_bytes = u64(b, 40);
  end.directory_at = u64(b, 48);
  end.directory_limit = at;
}

End read_end(ItemSource& item, const Place& place, const Limits& limits) {
  End end;
  end.at = find_end(item, place);
  const Where here{place, end.at};
  const Bytes b = item.at(end.at, kEndBytes);
  if (u16(b, 4) != 0 || u16(b, 6) != 0) fail(ProblemId::zip_bad_end, here, "an archive in several parts");
  if (u16(b, 8) != u16(b, 10)) fail(ProblemId::zip_bad_end, here, number(u16(b, 8)), number(u16(b, 10)));
  end.entries = u16(b, 10);
  end.directory_bytes = u32(b, 12);
  end.directory_at = u32(b, 16);
  end.directory_limit = end.at;
  const uint16_t comment_bytes = u16(b, 20);
  end.end = end.at + kEndBytes + comment_bytes;
  if (comment_bytes != 0 || end.at + kEndBytes != item.size()) check_comment(item, end, comment_bytes, place);
  read_end64(item, end, place);
  if (end.entries > limits.zip_records)
    fail(ProblemId::over_limit, here, number(end.entries) + " records", "at most " + number(limits.zip_records));
  if (end.directory_bytes > limits.zip_directory_bytes) {
    fail(ProblemId::over_limit, here, number(end.directory_bytes) + " bytes of directory", "at most " + number(limits.zip_directory_bytes));
  }
  // With anything in between, readers that count positions from the end would see a different archive than those that count from the start.
  if (end.directory_at > end.directory_limit || end.directory_bytes != end.directory_limit - end.directory_at) {
    check_comment(item, end, 0, place);
    fail(ProblemId::zip_bad_end, here, number(end.directory_bytes) + " bytes of directory at " + number(end.directory_at),
         "an end at " + number(end.directory_limit));
  }
  // Checked before memory is allocated for entries: each needs at least its fixed part.
  if (end.entries > end.directory_bytes / kEntryBytes) {
    fail(ProblemId::zip_bad_directory, here, number(end.entries) + " records in " + number(end.directory_bytes) + " bytes");
  }
  return end;
}

bool is_utf8(std::string_view text) {
  if (std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; })) return true;
  while (!text.empty()) {
    const unsigned bytes = first_code_point(text).size;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

struct Entry {
  uint64_t size = 0, packed = 0, header = 0;
  uint32_t crc = 0, attributes = 0;
  uint16_t flags = 0, method = 0, disk = 0;
  std::string_view name;
  uint64_t bytes = 0;  // of the entry in the directory
};

// Replaces the fields that are all ones by those of the zip64 extra, in the order of the format; if no field is, extras are ignored. Two
// such extras are refused, because readers differ in which one they use.
bool apply_extra(Bytes extra, Entry& entry) {
  if (entry.size != kZip64Marker && entry.packed != kZip64Marker && entry.header != kZip64Marker) return true;
  bool met = false;
  while (extra.size() >= 4) {
    const uint16_t id = u16(extra, 0);
    const uint64_t bytes = u16(extra, 2);
    if (bytes > extra.size() - 4) return false;
    Bytes content = extra.subspan(4, bytes);
    extra = extra.subspan(4 + bytes);
    if (id != kZip64) continue;
    if (std::exchange(met, true)) return false;
    for (uint64_t* field : {&entry.size, &entry.packed, &entry.header}) {
      if (*field != kZip64Marker) continue;
      if (content.size() < 8) return false;
      *field = u64(content, 0);
      content = content.subspan(8);
    }
  }
  return met;
}

// The entry at `at`, whose fixed part and texts must lie inside the directory.
Entry read_entry(Bytes directory, uint64_t at, const Where& here) {
  const Bytes b = directory.subspan(at);
  if (b.size() < kEntryBytes || u32(b, 0) != kEntryMark) fail(ProblemId::zip_bad_directory, here, "no entry", "an entry");
  Entry entry;
  entry.flags = u16(b, 8);
  entry.method = u16(b, 10);
  entry.crc = u32(b, 16);
  entry.packed = u32(b, 20);
  entry.size = u32(b, 24);
  entry.disk = u16(b, 34);
  entry.attributes = u32(b, 38);
  entry.header = u32(b, 42);
  const uint64_t name = u16(b, 28), extra = u16(b, 30), comment = u16(b, 32);
  entry.bytes = kEntryBytes + name + extra + comment;
  if (entry.bytes > b.size()) fail(ProblemId::zip_bad_directory, here, "an entry of " + number(entry.bytes) + " bytes");
  entry.name = as_text(b.subspan(kEntryBytes, name));
  if (!apply_extra(b.subspan(kEntryBytes + name, extra), entry)) fail(ProblemId::zip_bad_directory, here, "a malformed extra field");
  return entry;
}

// Splits ROOT/NAME. The first entry determines the root, as in torch; the others must have the same.
std::string_view name_below(ZipDirectory& directory, std::string_view full, const Where& here) {
  const size_t slash = full.find('/');
  if (slash == std::string_view::npos) fail(ProblemId::zip_no_root, here, std::string(full));
  if (directory.records.empty()) directory.root = full.substr(0, slash);
  if (full.substr(0, slash) != directory.root) fail(ProblemId::zip_no_root, here, std::string(full), directory.root + "/...");
  return full.substr(slash + 1);
}

void add_record(ZipDirectory& directory, const Entry& entry, const Where& here) {
  ZipRecord record;
  record.name = name_below(directory, entry.name, here);
  if (entry.flags & kEncrypted) fail_in(record.name, here, ProblemId::zip_encrypted, {});
  if (entry.flags & kPatched) fail_in(record.name, here, ProblemId::zip_bad_directory, "patched data");
  if (entry.disk != 0) fail_in(record.name, here, ProblemId::zip_bad_directory, "an archive in several parts");
  if (entry.name.find('\0') != std::string_view::npos) fail_in(record.name, here, ProblemId::zip_bad_directory, "a name with a NUL byte");
  if (!is_utf8(entry.name)) fail_in({}, here, ProblemId::zip_bad_directory, "a name that is not UTF-8");  // torch cannot list it
  record.header = entry.header;
  record.method = entry.method;
  record.packed = entry.packed;
  record.size = entry.size;
  record.crc = entry.crc;
  if (record.method == ZipRecord::kStored && entry.size != entry.packed) {
    fail_in(record.name, here, ProblemId::zip_bad_directory, number(entry.packed) + " bytes stored", number(entry.size));
  }
  // The format's limit: two bits give at most 258 bytes.
  if (record.method == ZipRecord::kDeflated && (entry.size / 1032 > entry.packed || (entry.packed == 0 && entry.size != 0))) {
    fail_in(record.name, here, ProblemId::zip_bad_directory, number(entry.size) + " bytes packed into " + number(entry.packed));
  }
  if ((record.name.ends_with('/') || (entry.attributes & kFolder) != 0) && record.size != 0)
    fail_in(record.name, here, ProblemId::zip_bad_directory, "a folder of " + number(record.size) + " bytes");
  directory.records.push_back(std::move(record));
}

// Records in order, each with room for its local header, name and payload before the next one begins.
void check_disjoint(ZipDirectory& directory, uint64_t directory_at, const Place& place) {
  auto& records = directory.records;
  const auto by_header = [](const ZipRecord& a, const ZipRecord& b) { return a.header < b.header; };
  if (!std::ranges::is_sorted(records, by_header)) std::ranges::sort(records, by_header);
  for (size_t i = 0; i < records.size(); ++i) {
    ZipRecord& record = records[i];
    record.limit = i + 1 < records.size() ? std::min(records[i + 1].header, directory_at) : directory_at;
    const uint64_t head = kLocalBytes + directory.root.size() + 1 + record.name.size();
    if (record.header <= record.limit && head <= record.limit - record.header && record.packed <= record.limit - record.header - head)
      continue;
    fail_in(record.name, {place, record.header}, record.limit == directory_at ? ProblemId::zip_outside : ProblemId::zip_overlap,
            number(record.packed) + " bytes", "an end before " + number(record.limit));
  }
}

char fold(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Refuses names that differ only in case from names, or prefixes, that torch looks up: torch finds them anyway, other readers do not.
void check_case(const ZipRecord& record, const Place& place) {
  if (std::ranges::none_of(record.name, [](char c) { return fold(c) != c; })) return;
  std::string folded = record.name;
  std::ranges::transform(folded, folded.begin(), fold);
  constexpr std::string_view kAsked[] = {"data.pkl", "byteorder", "version", "constants.pkl", ".format_version", ".storage_alignment"};
  const bool whole = folded.starts_with(".data/") || std::ranges::find(kAsked, folded) != std::end(kAsked);
  if (!whole && (!folded.starts_with("data/") || record.name.starts_with("data/"))) return;
  fail_in(record.name, {place, record.header}, ProblemId::zip_name_case, record.name, folded);
}

void check_names(const ZipDirectory& directory, const Place& place) {
  const auto less = [](std::string_view a, std::string_view b) { return std::ranges::lexicographical_compare(a, b, {}, fold, fold); };
  const auto same = [](std::string_view a, std::string_view b) { return std::ranges::equal(a, b, {}, fold, fold); };
  std::vector<std::string_view> names(directory.records.size());
  std::ranges::transform(directory.records, names.begin(), [](const ZipRecord& r) { return std::string_view(r.name); });
  std::ranges::sort(names, less);
  if (const auto it = std::ranges::adjacent_find(names, same); it != names.end()) {
    Problem p = make_problem(ProblemId::zip_duplicate, place,
                             it[0] == it[1] ? std::string(it[0]) : std::string(it[0]) + " and " + std::string(it[1]));
    if (it[0] != it[1]) p.hint = "torch finds records without regard to case";
    throw Error(std::move(p));
  }
  for (const ZipRecord& r : directory.records) check_case(r, place);
}

}  // namespace

const ZipRecord* ZipDirectory::find(std::string_view name) const {
  const auto it = std::ranges::find(records, name, &ZipRecord::name);
  return it == records.end() ? nullptr : &*it;
}

ZipDirectory read_zip_directory(ItemSource& item, const Place& place, const Limits& limits) {
  const End end = read_end(item, place, limits);
  ZipDirectory directory;
  directory.end = end.end;
  directory.records.reserve(end.entries);
  const Bytes bytes = item.at(end.directory_at, end.directory_bytes);
  uint64_t at = 0;
  for (uint64_t i = 0; i < end.entries; ++i) {
    const Where here{place, end.directory_at + at};
    const Entry entry = read_entry(bytes, at, here);
    add_record(directory, entry, here);
    at += entry.bytes;
  }
  if (at != bytes.size()) {
    fail(ProblemId::zip_bad_directory, Where{place, end.directory_at}, number(end.entries) + " records in " + number(at) + " bytes",
         number(bytes.size()) + " bytes");
  }
  check_disjoint(directory, end.directory_at, place);
  check_names(directory, place);
  return directory;
}

uint64_t payload_of(ItemSource& item, const ZipDirectory& directory, const ZipRecord& record, const Place& place) {
  const uint64_t name_bytes = directory.root.size() + 1 + record.name.size();
  const Bytes b = item.at(record.header, kLocalBytes + name_bytes);
  const Where here{place, record.header};
  if (u32(b, 0) != kLocalMark) fail_in(record.name, here, ProblemId::zip_bad_local, "no local header");
  if (u16(b, 6) & kEncrypted) fail_in(record.name, here, ProblemId::zip_encrypted, {});
  if (u16(b, 8) != record.method) fail_in(record.name, here, ProblemId::zip_bad_local, "method " + number(u16(b, 8)));
  if (u16(b, 26) != name_bytes)
    fail_in(record.name, here, ProblemId::zip_bad_local, "a name of " + number(u16(b, 26)) + " bytes", number(name_bytes));
  const std::string_view name = as_text(b.subspan(kLocalBytes));
  if (!name.starts_with(directory.root) || name[directory.root.size()] != '/' || !name.ends_with(record.name)) {
    fail_in(record.name, here, ProblemId::zip_bad_local, "the name " + std::string(name), directory.root + "/" + record.name);
  }
  // check_disjoint has left at least this much room; the extra field of the local header must fit in the rest.
  const uint64_t payload = record.header + kLocalBytes + name_bytes + u16(b, 28);
  if (payload > record.limit || record.packed > record.limit - payload) {
    fail_in(record.name, here, ProblemId::zip_overlap, number(record.packed) + " bytes at " + number(payload),
            "an end before " + number(record.limit));
  }
  return payload;
}

namespace {

// caffe2/serialize/versions.h: kMinSupportedFileFormatVersion, kMaxSupportedFileFormatVersion. torch 1.13 to 2.15 write 3.
constexpr unsigned kMinVersion = 1, kMaxVersion = 10;
// `version` and `byteorder` hold a few letters; a longer record is something else.
constexpr uint64_t kWordBytes = 16;
// A record is read in blocks of this size.
constexpr uint64_t kBlockBytes = 64 * kKiB;

Place place_in(const Place& item, uint64_t at, const ZipRecord& record) {
  Place here = at_offset(item, at);
  here.member = record.name;
  return here;
}

// Reads all of a record whose size is known to be small enough. Throws crc_mismatch.
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

// Checks records that dcpctl does not need, but torch reads when it opens an archive: if it cannot, it refuses the archive.
void check_unused(ItemSource& item, const ZipDirectory& directory, const Place& place) {
  for (const std::string_view name : {".format_version", ".data/serialization_id"})
    if (const ZipRecord* record = directory.find(name)) payload_of(item, directory, *record, place);
  if (directory.find(".storage_alignment") == nullptr) return;
  const ZipRecord& record = readable_record(directory, ".storage_alignment", place);
  const std::string text = read_word(item, directory, record, ProblemId::item_alignment, place);
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos)
    fail(ProblemId::item_alignment, place_in(place, record.header, record), text, "digits");
}

// torch.load checks the first bytes (torch/serialization.py, _is_zipfile; if they differ, it reads the file as its format before 1.6,
// whatever follows) and looks for TorchScript's own record (_is_torchscript_zip).
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
    throw Error(with_remedy(
        make_problem(ProblemId::over_limit, pickle.place, std::to_string(record.size) + " bytes", "at most " + std::to_string(cap)),
        Remedy::kLargerPickle, record.size + kMiB));
  }
  pickle.bytes = whole_record(item, record, at, place);
  return pickle;
}

}  // namespace dcp
