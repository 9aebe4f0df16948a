// Reader of a zip directory, as far as torch archives need it.
//
// Grammar (APPNOTE 6.3; little-endian; `?` absent from small archives of other writers, always there in torch's):
//   archive   := local* directory zip64_end? locator? end junk*
//   end       := "PK\5\6" disk:2 disk:2 entries:2 entries:2 directory_bytes:4 directory_at:4 comment_bytes:2 comment
//   locator   := "PK\6\7" disk:4 zip64_end_at:8 disks:4
//   zip64_end := "PK\6\6" bytes_after:8 by:2 needs:2 disk:4 disk:4 entries:8 entries:8 directory_bytes:8 directory_at:8 ...
//   directory := entry*
//   entry     := "PK\1\2" by:2 needs:2 flags:2 method:2 time:4 crc:4 packed:4 size:4 name_bytes:2 extra_bytes:2 comment_bytes:2
//                disk:2 attributes:6 header_at:4 name extra comment
//   extra     := (id:2 bytes:2 content)*       id 1: size:8? packed:8? header_at:8?, each only where the fixed field is all ones
//   local     := "PK\3\4" needs:2 flags:2 method:2 time:4 crc:4 packed:4 size:4 name_bytes:2 extra_bytes:2 name extra payload
//
// Every position counts from the start of the item. Sizes of local headers are not used: torch writes zeros there.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "format/torch_item.h"
#include "pickle/tokens.h"

namespace dcp {
namespace {

constexpr uint32_t kEndMark = 0x06054b50, kLocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50, kEntryMark = 0x02014b50,
                   kLocalMark = 0x04034b50;
constexpr uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kEntryBytes = 46, kLocalBytes = 30;
constexpr uint64_t kTailBytes = kEnd64Bytes + kLocatorBytes + kEndBytes;  // what torch puts after the directory
constexpr uint64_t kSearchBytes = 64 * kKiB + kEndBytes;                  // a comment, or junk, of at most 64 KiB
constexpr uint16_t kEncrypted = 1, kZip64 = 1;
constexpr uint32_t kOnes = std::numeric_limits<uint32_t>::max();

uint16_t u16(Bytes b, uint64_t at) { return load_le<uint16_t>(b.data() + at); }
uint32_t u32(Bytes b, uint64_t at) { return load_le<uint32_t>(b.data() + at); }
uint64_t u64(Bytes b, uint64_t at) { return load_le<uint64_t>(b.data() + at); }

std::string number(uint64_t n) { return std::to_string(n); }

// A position in the item, made into a Place only when something is wrong: 10^5 items are read, and a Place owns text.
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

bool is_end(Bytes tail, uint64_t at) { return u32(tail, at) == kEndMark && u16(tail, at + 20) <= tail.size() - at - kEndBytes; }

// The last end record that fits. torch's lies in the last 98 bytes, so a short read comes first. Bytes are tail of the item.
std::optional<uint64_t> last_end(Bytes tail) {
  if (tail.size() < kEndBytes) return std::nullopt;
  for (uint64_t at = tail.size() - kEndBytes + 1; at-- > 0;) {
    if (is_end(tail, at)) return at;
  }
  return std::nullopt;
}

uint64_t find_end(ItemSource& item, const Place& place) {
  const uint64_t size = item.size();
  const uint64_t first = std::min(size, kTailBytes);
  if (const auto at = last_end(item.at(size - first, first))) return size - first + *at;
  const uint64_t window = std::min(size, kSearchBytes);
  if (const auto at = last_end(item.at(size - window, window))) return size - window + *at;
  fail(ProblemId::zip_no_end, place);
}

// A field of the end record repeats the zip64 one or is all ones.
void same_or_ones(uint64_t narrow, uint64_t ones, uint64_t wide, const Where& where) {
  if (narrow != ones && narrow != wide) fail(ProblemId::zip_bad_end, where, number(narrow), number(wide));
}

// Takes over what the zip64 end record says, if a locator points to one.
void read_end64(ItemSource& item, End& end, const Place& place) {
  if (end.at < kLocatorBytes + kEnd64Bytes) return;
  const uint64_t locator_at = end.at - kLocatorBytes;
  const Bytes locator = item.at(locator_at, kLocatorBytes);
  if (u32(locator, 0) != kLocatorMark) return;
  const uint64_t at = u64(locator, 8);
  const Where here{place, locator_at};
  if (u32(locator, 4) != 0 || u32(locator, 16) > 1) fail(ProblemId::zip_bad_end, here, "an archive in several parts");
  if (at > locator_at - kEnd64Bytes) fail(ProblemId::zip_bad_end, here, "a zip64 end record at " + number(at));
  const Bytes b = item.at(at, kEnd64Bytes);
  const Where there{place, at};
  if (u32(b, 0) != kEnd64Mark) fail(ProblemId::zip_bad_end, there, "no zip64 end record");
  if (u32(b, 16) != 0 || u32(b, 20) != 0) fail(ProblemId::zip_bad_end, there, "an archive in several parts");
  if (u64(b, 24) != u64(b, 32)) fail(ProblemId::zip_bad_end, there, number(u64(b, 24)), number(u64(b, 32)));
  same_or_ones(end.entries, 0xFFFF, u64(b, 32), there);
  same_or_ones(end.directory_bytes, kOnes, u64(b, 40), there);
  same_or_ones(end.directory_at, kOnes, u64(b, 48), there);
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
  end.end = end.at + kEndBytes + u16(b, 20);
  read_end64(item, end, place);
  if (end.entries > limits.zip_records) fail(ProblemId::over_limit, here, number(end.entries) + " records", "at most " + number(limits.zip_records));
  if (end.directory_bytes > limits.zip_directory_bytes) {
    fail(ProblemId::over_limit, here, number(end.directory_bytes) + " bytes of directory", "at most " + number(limits.zip_directory_bytes));
  }
  if (end.directory_at > end.directory_limit || end.directory_bytes > end.directory_limit - end.directory_at) {
    fail(ProblemId::zip_bad_end, here, number(end.directory_bytes) + " bytes of directory at " + number(end.directory_at),
         "at most " + number(end.directory_limit) + " bytes before it");
  }
  // Before any memory is taken for entries: each needs its fixed part and a name of one byte and a slash.
  if (end.entries > end.directory_bytes / kEntryBytes) {
    fail(ProblemId::zip_bad_directory, here, number(end.entries) + " records in " + number(end.directory_bytes) + " bytes");
  }
  return end;
}

struct Entry {
  uint64_t size = 0, packed = 0, header = 0;
  uint32_t crc = 0;
  uint16_t flags = 0, method = 0;
  std::string_view name;
  uint64_t bytes = 0;  // of the entry in the directory
};

// Replaces the fields that are all ones by those of the zip64 extra, in the order of the format.
bool apply_extra(Bytes extra, Entry& entry) {
  while (extra.size() >= 4) {
    const uint16_t id = u16(extra, 0);
    const uint64_t bytes = u16(extra, 2);
    if (bytes > extra.size() - 4) return false;
    Bytes content = extra.subspan(4, bytes);
    extra = extra.subspan(4 + bytes);
    if (id != kZip64) continue;
    for (uint64_t* field : {&entry.size, &entry.packed, &entry.header}) {
      if (*field != kOnes) continue;
      if (content.size() < 8) return false;
      *field = u64(content, 0);
      content = content.subspan(8);
    }
  }
  return true;
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
  entry.header = u32(b, 42);
  const uint64_t name = u16(b, 28), extra = u16(b, 30), comment = u16(b, 32);
  entry.bytes = kEntryBytes + name + extra + comment;
  if (entry.bytes > b.size()) fail(ProblemId::zip_bad_directory, here, "an entry of " + number(entry.bytes) + " bytes");
  entry.name = as_text(b.subspan(kEntryBytes, name));
  if (!apply_extra(b.subspan(kEntryBytes + name, extra), entry)) fail(ProblemId::zip_bad_directory, here, "a malformed extra field");
  return entry;
}

// Splits ROOT/NAME. The first entry says what the root is (torch takes it from there), the others must have it.
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
  record.header = entry.header;
  record.compressed = entry.method != 0;
  record.size = entry.packed;
  record.crc = entry.crc;
  if (!record.compressed && entry.size != entry.packed) {
    fail_in(record.name, here, ProblemId::zip_bad_directory, number(entry.packed) + " bytes stored", number(entry.size));
  }
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
    if (record.header <= record.limit && head <= record.limit - record.header && record.size <= record.limit - record.header - head)
      continue;
    fail_in(record.name, {place, record.header}, record.limit == directory_at ? ProblemId::zip_outside : ProblemId::zip_overlap,
            number(record.size) + " bytes", "an end before " + number(record.limit));
  }
}

void check_names(const ZipDirectory& directory, const Place& place) {
  std::vector<std::string_view> names(directory.records.size());
  std::ranges::transform(directory.records, names.begin(), [](const ZipRecord& r) { return std::string_view(r.name); });
  std::ranges::sort(names);
  if (const auto it = std::ranges::adjacent_find(names); it != names.end()) fail(ProblemId::zip_duplicate, place, std::string(*it));
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
  if ((u16(b, 8) != 0) != record.compressed) fail_in(record.name, here, ProblemId::zip_bad_local, "method " + number(u16(b, 8)));
  const std::string_view name = as_text(b.subspan(kLocalBytes));
  if (u16(b, 26) != name_bytes || !name.starts_with(directory.root) || name[directory.root.size()] != '/' || !name.ends_with(record.name)) {
    fail_in(record.name, here, ProblemId::zip_bad_local, "the name " + std::string(name), directory.root + "/" + record.name);
  }
  // check_disjoint left at least this much room; the extra field of the local header must fit in what is over.
  const uint64_t payload = record.header + kLocalBytes + name_bytes + u16(b, 28);
  if (payload > record.limit || record.size > record.limit - payload) {
    fail_in(record.name, here, ProblemId::zip_overlap, number(record.size) + " bytes at " + number(payload),
            "an end before " + number(record.limit));
  }
  return payload;
}

}  // namespace dcp
