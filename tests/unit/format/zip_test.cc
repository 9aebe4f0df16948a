#include <catch2/catch_test_macros.hpp>

#include "format/items.h"

using namespace dcp;
using namespace dcp::test;

namespace {

ZipDirectory directory_of(const std::string& bytes) {
  MemoryItem item(bytes);
  return read_zip_directory(item, item_place(), Limits{});
}
std::string zip_error(const std::string& bytes) {
  return error_of([&] { directory_of(bytes); });
}
// Reads the directory and then the header of every record.
void read_all(const std::string& bytes) {
  MemoryItem item(bytes);
  const ZipDirectory directory = read_zip_directory(item, item_place(), Limits{});
  for (const ZipRecord& record : directory.records) {
    const uint64_t at = payload_of(item, directory, record, item_place());
    if (record.size > 0) item.at(at, record.size);
  }
}
std::string local_error(const std::string& bytes) {
  return error_of([&] { read_all(bytes); });
}

// Positions in data/float32.item: the three records of torch's tail.
constexpr size_t kEnd64 = 1577 - 98, kLocator = 1577 - 42, kEnd = 1577 - 22;

std::string patched(size_t at, std::string_view bytes) {
  std::string item = real_item("float32");
  patch(item, at, bytes);
  return item;
}

}  // namespace

TEST_CASE("a real item's records are found") {
  const std::string bytes = real_item("float32");
  const ZipDirectory d = directory_of(bytes);
  CHECK(d.root == "archive");
  CHECK(d.end == bytes.size());
  REQUIRE(d.records.size() == 7);
  CHECK(d.records[0].name == "data.pkl");
  const ZipRecord* data = d.find("data/0");
  REQUIRE(data != nullptr);
  CHECK(data->size == 40);
  CHECK(data->packed == 40);
  CHECK(data->method == ZipRecord::kStored);
  CHECK(d.find("data/1") == nullptr);
  MemoryItem item(bytes);
  CHECK(payload_of(item, d, *data, item_place()) == 704);
}

TEST_CASE("a plain zip without descriptors, padding and zip64 records is read") {
  const std::string bytes = PlainZip().add("r/data.pkl", "abc").add("r/data/0", "").finish();
  const ZipDirectory d = directory_of(bytes);
  CHECK(d.root == "r");
  CHECK(d.end == bytes.size());
  MemoryItem item(bytes);
  CHECK(payload_of(item, d, *d.find("data.pkl"), item_place()) == 40);
  CHECK(d.find("data/0")->size == 0);
}

TEST_CASE("bytes after the end record are reported, not refused") {
  const std::string bytes = real_item("float32");
  for (const size_t junk : {1u, 76u, 98u, 4074u}) CHECK(directory_of(bytes + std::string(junk, 'x')).end == bytes.size());
  const std::string large = PlainZip().add("r/a", std::string(5000, 'a')).finish();
  for (const size_t junk : {5000u, 65536u}) CHECK(directory_of(large + std::string(junk, 'x')).end == large.size());
  CHECK(zip_error(bytes + std::string(65537, 'x')) == "zip_no_end: x.distcp: is not a zip archive: it has no end record");
}

TEST_CASE("an end record that torch does not find: a block of its search would begin before the archive") {
  const auto end = [](size_t bytes, size_t junk) {
    const std::string empty = PlainZip().add("r/a", "").finish();
    const std::string head = PlainZip().add("r/a", std::string(bytes - empty.size(), 'a')).finish();
    return zip_error(head + std::string(junk, 'x'));
  };
  CHECK(end(1653, 4074).empty());
  CHECK(end(1653, 4075) ==
        "zip_bad_end: x.distcp @ 0x65f: the archive's end record is invalid (got 4075 bytes behind it, where torch does not find it, "
        "expected at most 4074)");
  // Where torch 2.15 begins and ceases to find it.
  for (const size_t junk : {6536u, 8167u, 10629u, 12260u, 14722u, 63838u, 65469u}) CHECK(end(1653, junk).empty());
  for (const size_t junk : {6535u, 8168u, 10628u, 12261u, 14721u, 63837u, 65470u}) CHECK(end(1653, junk).starts_with("zip_bad_end"));
}

TEST_CASE("records may lie in any order") {
  // Two entries of equal length change places in the directory.
  const std::string bytes = PlainZip().add("r/a", "12").add("r/b", "3").finish();
  const size_t a = position(bytes, "PK\1\2"), size = 46 + 3;
  std::string swapped = bytes;
  patch(swapped, a, bytes.substr(a + size, size) + bytes.substr(a, size));
  const ZipDirectory d = directory_of(swapped);
  CHECK(d.records[0].name == "a");
  CHECK(d.records[1].name == "b");
}

TEST_CASE("a comment is part of the archive") {
  std::string bytes = PlainZip().add("r/a", "12").finish();
  patch(bytes, bytes.size() - 2, std::string("\3\0", 2));
  CHECK(directory_of(bytes + "abc").end == bytes.size() + 3);
}

TEST_CASE("a record that is compressed is marked") {
  const ZipDirectory d = directory_of(PlainZip().add("r/a", "12", 0, 8).finish());
  CHECK(d.records[0].deflated());
}

TEST_CASE("the end record is the last one that has room, as torch takes it") {
  const std::string bytes = PlainZip().add("r/a", "12").finish();
  const size_t end = bytes.size() - 22;
  // One in the comment of another, whether its own comment fits or not.
  for (const std::string& said : {std::string(2, '\0'), std::string("\7\0", 2), std::string("\4\0", 2)}) {
    std::string inner = bytes.substr(end);
    patch(inner, 20, said);
    for (const std::string& after : {std::string(), std::string("junk")}) {
      std::string both = bytes + inner + after;
      patch(both, end + 20, std::string(1, static_cast<char>(22 + after.size())));
      CHECK(zip_error(both) == "zip_two_ends: x.distcp @ 0x6a: the archive has two end records, and could be read in two ways: end "
                               "records at 84 and, in its "
                               "comment, at 106");
    }
  }
  std::string long_comment = bytes + "abc";
  patch(long_comment, end + 20, "\4");
  CHECK(zip_error(long_comment) ==
        "zip_bad_end: x.distcp @ 0x54: the archive's end record is invalid (got a comment of 4 bytes, expected at most 3)");
  // A mark without room for a record is text.
  std::string marked = bytes + "PK\5\6" + std::string(17, 'x');
  patch(marked, end + 20, "\x15");
  CHECK(directory_of(marked).end == marked.size());
}

TEST_CASE("names that torch takes for one another") {
  CHECK(zip_error(PlainZip().add("r/data/0", "1").add("r/DATA/0", "2").finish())
            .starts_with("zip_duplicate: x.distcp: two records of the archive have the same name: "));
  CHECK(zip_error(PlainZip().add("r/data/a", "1").add("r/data/A", "2").finish()).find("data/A") != std::string::npos);
  CHECK(zip_error(PlainZip().add("r/data/\xC3\xA4", "1").add("r/data/\xC3\x84", "2").finish()).empty());  // of ASCII only
  for (const char* name : {"Data.pkl", "BYTEORDER", "Version", "DATA/0", ".data/serialization_ID", "constants.PKL"})
    CHECK(zip_error(PlainZip().add(std::string("r/") + name, "1").finish()).starts_with("zip_name_case: x.distcp > "));
  CHECK(zip_error(PlainZip().add("r/data/KEY", "1").add("r/Notes", "2").finish()).empty());
  CHECK(zip_error(PlainZip().add(std::string("r/data/0\0x", 10), "1").finish()).ends_with(": a name with a NUL byte"));
}

TEST_CASE("what is marked as a folder holds nothing") {
  CHECK(zip_error(PlainZip().add("r/data/", "1").finish()).ends_with(": a folder of 1 bytes"));
  const auto marked = [](std::string bytes, const char* attributes) {
    patch(bytes, position(bytes, "PK\1\2") + 38, attributes);
    return zip_error(bytes);
  };
  CHECK(marked(PlainZip().add("r/data/0", "1").finish(), "\x10").ends_with(": a folder of 1 bytes"));
  CHECK(marked(PlainZip().add("r/data/0", "").finish(), "\x10").empty());
  CHECK(marked(PlainZip().add("r/data/0", "1").finish(), "\x20").empty());
}

TEST_CASE("nothing lies between the directory and what ends it") {
  const std::string bytes = PlainZip().add("r/a", "12").finish();
  CHECK(zip_error(bytes.substr(0, bytes.size() - 22) + "gap" + bytes.substr(bytes.size() - 22)) ==
        "zip_bad_end: x.distcp @ 0x57: the archive's end record is invalid (got 49 bytes of directory at 35, expected an end at 87)");
  std::string real = real_item("float32");
  patch(real, kEnd64 + 4, "\x2d");
  CHECK(zip_error(real).ends_with("(got a zip64 end record of 45 bytes, expected 44)"));
}

TEST_CASE("malformed end records") {
  CHECK(zip_error("") == "zip_no_end: x.distcp: is not a zip archive: it has no end record");
  CHECK(zip_error(std::string(5000, 'a')) == "zip_no_end: x.distcp: is not a zip archive: it has no end record");
  CHECK(zip_error(patched(kEnd + 4, "\1")) ==
        "zip_bad_end: x.distcp @ 0x613: the archive's end record is invalid: an archive in several parts");
  CHECK(zip_error(patched(kEnd + 8, "\6")) == "zip_bad_end: x.distcp @ 0x613: the archive's end record is invalid (got 6, expected 7)");
  CHECK(zip_error(patched(kEnd + 8, std::string("\6\0\6", 3))) ==
        "zip_bad_end: x.distcp @ 0x5c7: the archive's end record is invalid (got 6, expected 7)");
  CHECK(zip_error(patched(kEnd + 16, std::string("\1\0\0\0", 4))) ==
        "zip_bad_end: x.distcp @ 0x5c7: the archive's end record is invalid (got 1, expected 1016)");
  CHECK(zip_error(patched(kEnd64, "x")) == "zip_bad_end: x.distcp @ 0x5c7: the archive's end record is invalid: no zip64 end record");
  CHECK(zip_error(patched(kEnd64 + 24, "\6")) == "zip_bad_end: x.distcp @ 0x5c7: the archive's end record is invalid (got 6, expected 7)");
  CHECK(zip_error(patched(kLocator + 8, "\xFF\xFF")) ==
        "zip_bad_end: x.distcp @ 0x5ff: the archive's end record is invalid: a zip64 end record at 65535");
  CHECK(zip_error(patched(kLocator + 16, "\2")) ==
        "zip_bad_end: x.distcp @ 0x5ff: the archive's end record is invalid: an archive in several parts");
}

TEST_CASE("a directory that is not where it is said to be") {
  std::string bytes = PlainZip().add("r/a", "12").finish();
  const size_t end = bytes.size() - 22;
  std::string far = bytes, shifted = bytes, empty = bytes;
  patch(far, end + 16, "\x70");
  CHECK(zip_error(far) ==
        "zip_bad_end: x.distcp @ 0x54: the archive's end record is invalid (got 49 bytes of directory at 112, expected an end at 84)");
  patch(shifted, end + 16, "\x22");
  CHECK(zip_error(shifted) ==
        "zip_bad_end: x.distcp @ 0x54: the archive's end record is invalid (got 49 bytes of directory at 34, expected an end at 84)");
  patch(empty, end + 8, std::string("\0\0\0\0", 4));
  CHECK(zip_error(empty) ==
        "zip_bad_directory: x.distcp @ 0x23: the archive's directory is invalid (got 0 records in 0 bytes, expected 49 bytes)");
}

TEST_CASE("numbers over the limits are refused before they are used") {
  std::string bytes = PlainZip().add("r/a", "12").finish();
  MemoryItem item(bytes);
  CHECK(error_of([&] { read_zip_directory(item, item_place(), Limits{.zip_records = 0}); }) ==
        "over_limit: x.distcp @ 0x54: a number in the file is over the limit (got 1 records, expected at most 0)");
  CHECK(error_of([&] { read_zip_directory(item, item_place(), Limits{.zip_directory_bytes = 48}); }) ==
        "over_limit: x.distcp @ 0x54: a number in the file is over the limit (got 49 bytes of directory, expected at most 48)");
  patch(bytes, bytes.size() - 14, "\xFF\x7F\xFF\x7F");
  CHECK(zip_error(bytes) == "zip_bad_directory: x.distcp @ 0x54: the archive's directory is invalid: 32767 records in 49 bytes");
}

TEST_CASE("malformed directory entries") {
  const std::string bytes = PlainZip().add("r/a", "12").finish();
  const size_t entry = position(bytes, "PK\1\2");
  const auto error_at = [&](size_t at, std::string_view what) {
    std::string copy = bytes;
    patch(copy, entry + at, what);
    return zip_error(copy);
  };
  CHECK(error_at(28, "\4") == "zip_bad_directory: x.distcp @ 0x23: the archive's directory is invalid: an entry of 50 bytes");
  CHECK(error_at(46, "abc") == "zip_no_root: x.distcp @ 0x23: a record of the archive is not in the archive's folder: abc");
  CHECK(error_at(8, "\1") == "zip_encrypted: x.distcp > a @ 0x23: a record of the archive is encrypted");
  CHECK(error_at(20, "\3") ==
        "zip_bad_directory: x.distcp > a @ 0x23: the archive's directory is invalid (got 3 bytes stored, expected 2)");
  CHECK(
      error_at(20, std::string("\3\0\0\0\3", 5)) ==
      "zip_outside: x.distcp > a @ 0x0: a record reaches into the archive's directory or beyond (got 3 bytes, expected an end before 35)");
  CHECK(
      error_at(42, "\x40") ==
      "zip_outside: x.distcp > a @ 0x40: a record reaches into the archive's directory or beyond (got 2 bytes, expected an end before 35)");
  // Three bytes of the name turned into an extra field, which is too short to be one with a zip64 size in it.
  CHECK(error_at(20, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF") ==
        "zip_bad_directory: x.distcp @ 0x23: the archive's directory is invalid: a malformed extra field");
}

TEST_CASE("malformed zip64 extra fields") {
  const std::string name = "r/abcdefgh";
  const std::string bytes = PlainZip().add(name, "12").finish();
  const size_t entry = position(bytes, "PK\1\2");
  std::string shorter = bytes, longer = bytes;
  // The last 8 bytes of the name become an extra field of id 1.
  patch(shorter, entry + 28, std::string("\2\0\x8\0", 4));
  patch(shorter, entry + 24, "\xFF\xFF\xFF\xFF");
  patch(shorter, entry + 48, std::string("\1\0\4\0size", 8));
  CHECK(zip_error(shorter) == "zip_bad_directory: x.distcp @ 0x2a: the archive's directory is invalid: a malformed extra field");
  patch(longer, entry + 28, std::string("\2\0\x8\0", 4));
  CHECK(zip_error(longer).empty());  // it is not needed
  patch(longer, entry + 24, "\xFF\xFF\xFF\xFF");
  patch(longer, entry + 48, std::string("\1\0\5\0size", 8));
  CHECK(zip_error(longer) == "zip_bad_directory: x.distcp @ 0x2a: the archive's directory is invalid: a malformed extra field");
}

TEST_CASE("records in conflict") {
  CHECK(zip_error(PlainZip().add("r/a", "1").add("r/a", "2").finish()) ==
        "zip_duplicate: x.distcp: two records of the archive have the same name: a");
  CHECK(zip_error(PlainZip().add("r/a", "1").add("s/b", "2").finish()) ==
        "zip_no_root: x.distcp @ 0x75: a record of the archive is not in the archive's folder (got s/b, expected r/...)");
  std::string bytes = PlainZip().add("r/a", "1").add("r/b", "2").finish();
  const size_t second = position(bytes, "PK\1\2", 1);
  patch(bytes, second + 42, "\x10");
  CHECK(zip_error(bytes) ==
        "zip_overlap: x.distcp > a @ 0x0: a record of the archive overlaps the next one (got 1 bytes, expected an end before 16)");
}

TEST_CASE("local headers that contradict the directory") {
  const std::string bytes = PlainZip().add("r/a", "12").add("r/b", "").finish();
  const auto error_at = [&](size_t at, std::string_view what) {
    std::string copy = bytes;
    patch(copy, at, what);
    return local_error(copy);
  };
  CHECK(error_at(0, "x") ==
        "zip_bad_local: x.distcp > a @ 0x0: a record's own header contradicts the archive's directory: no local header");
  CHECK(error_at(6, "\1") == "zip_encrypted: x.distcp > a @ 0x0: a record of the archive is encrypted");
  CHECK(error_at(8, "\x8") == "zip_bad_local: x.distcp > a @ 0x0: a record's own header contradicts the archive's directory: method 8");
  CHECK(error_at(26, "\2").starts_with("zip_bad_local: x.distcp > a @ 0x0: "));
  CHECK(error_at(32, "c") ==
        "zip_bad_local: x.distcp > a @ 0x0: a record's own header contradicts the archive's directory (got the name r/c, expected r/a)");
  CHECK(error_at(28, "\1") ==
        "zip_overlap: x.distcp > a @ 0x0: a record of the archive overlaps the next one (got 2 bytes at 34, expected an end before 35)");
}

TEST_CASE("every truncation and every flipped byte of a real item gives an answer or an Error") {
  const std::string bytes = real_item("float32");
  for (size_t n = 0; n < bytes.size(); ++n) CHECK(local_error(bytes.substr(0, n)).starts_with("zip_"));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const char mask : {'\1', '\x80', '\xFF'}) {
      std::string copy = bytes;
      copy[i] = static_cast<char>(copy[i] ^ mask);
      local_error(copy);
    }
  }
}
