// What the reader of archives makes of each file named on standard input, for archives.py. One line a fact:
//   archive | refused ID MESSAGE | record NAME BYTES | unreadable NAME ID MESSAGE      NAME and BYTES in hexadecimal, "-" where there are none
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "format/item_archive.h"
#include "pickle/tokens.h"

namespace {

using namespace dcp;

// A buffer of exactly the length asked for, and only until the next call.
class FileItem : public ItemSource {
 public:
  explicit FileItem(const std::string& bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  Bytes at(uint64_t offset, uint64_t length) override {
    if (offset > bytes_.size() || length > bytes_.size() - offset) throw std::logic_error("asked outside the file");
    const Bytes part = as_bytes(bytes_).subspan(offset, length);
    window_ = std::vector<std::byte>(part.begin(), part.end());
    return window_;
  }

 private:
  const std::string& bytes_;
  std::vector<std::byte> window_;
};

std::string hex(std::string_view bytes) {
  if (bytes.empty()) return "-";
  std::string text;
  for (const char c : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

std::string told(const Error& e) { return std::string(id_name(e.problem().id)) + " " + e.what(); }

void tell(const std::string& bytes) {
  std::cout << "archive\n";
  FileItem item(bytes);
  const Place place{.path = "file"};
  ItemArchive archive;
  try {
    archive = open_item_archive(item, place, {});
  } catch (const Error& e) {
    std::cout << "refused " << told(e) << "\n";
    return;
  }
  for (const ZipRecord& record : archive.directory.records) {
    try {
      std::string content;
      read_record(item, record, payload_of(item, archive.directory, record, place), place, [&](Bytes b) { content += as_text(b); });
      std::cout << "record " << hex(record.name) << " " << hex(content) << "\n";
    } catch (const Error& e) {
      std::cout << "unreadable " << hex(record.name) << " " << told(e) << "\n";
    }
  }
}

}  // namespace

int main() {
  for (std::string path; std::getline(std::cin, path);) {
    std::ifstream in(path, std::ios::binary);
    tell({std::istreambuf_iterator<char>(in), {}});
  }
}
