// Items in memory for the tests of this room: real ones from data/, hand-made zips, and the error that reading one gives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/problem.h"
#include "format/torch_item.h"

namespace dcp::test {

// The bytes are in a buffer of exactly the length asked for, and only until the next call: a sanitizer sees any use beyond.
class MemoryItem : public ItemSource {
 public:
  explicit MemoryItem(std::string_view bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  Bytes at(uint64_t offset, uint64_t length) override {
    if (offset > bytes_.size() || length > bytes_.size() - offset) throw std::logic_error("asked outside the item");
    window_ = std::vector<std::byte>(length);
    std::copy_n(as_bytes(bytes_).begin() + static_cast<std::ptrdiff_t>(offset), length, window_.begin());
    return window_;
  }

 private:
  std::string_view bytes_;
  std::vector<std::byte> window_;
};

inline std::string real_file(const std::string& name) {
  std::ifstream in(std::string(DCPCTL_ITEMS) + "/" + name, std::ios::binary);
  if (!in) throw std::runtime_error("no test file " + name);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline std::string real_item(const std::string& name) { return real_file(name + ".item"); }

inline Place item_place() { return Place{.path = "x.distcp"}; }

// "id: line" of the Error that fn throws; "" if it returns.
template <class Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return std::string(id_name(e.problem().id)) + ": " + e.what();
  }
  return "";
}

inline void put_le(std::string& out, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}
inline void patch(std::string& text, size_t at, std::string_view bytes) {
  if (at > text.size() || bytes.size() > text.size() - at) throw std::logic_error("nothing to patch");
  std::ranges::copy(bytes, text.begin() + static_cast<std::ptrdiff_t>(at));
}
// Where the n-th copy of `what` begins.
inline size_t position(const std::string& text, std::string_view what, int n = 0) {
  size_t at = text.find(what);
  while (n-- > 0) at = text.find(what, at + 1);
  if (at == std::string::npos) throw std::logic_error("nothing to patch");
  return at;
}

// A zip as other writers make it: sizes in the local header, no descriptor, no padding, a plain end record.
class PlainZip {
 public:
  PlainZip& add(const std::string& name, const std::string& payload, uint32_t crc = 0, uint16_t method = 0) {
    const uint64_t header = out_.size();
    put_le(out_, 0x04034b50, 4);
    fields(crc, payload.size(), method, name.size());
    out_ += name + payload;
    put_le(directory_, 0x02014b50, 4);
    put_le(directory_, 20, 2);
    fields_into(directory_, crc, payload.size(), method, name.size());
    put_le(directory_, 0, 8);  // comment, disk, attributes
    put_le(directory_, 0, 2);
    put_le(directory_, header, 4);
    directory_ += name;
    ++count_;
    return *this;
  }
  std::string finish() const {
    std::string all = out_ + directory_;
    put_le(all, 0x06054b50, 4);
    put_le(all, 0, 4);
    put_le(all, count_, 2);
    put_le(all, count_, 2);
    put_le(all, directory_.size(), 4);
    put_le(all, out_.size(), 4);
    put_le(all, 0, 2);
    return all;
  }

 private:
  // From `version needed` to `extra length`: the part that local header and entry share.
  void fields(uint32_t crc, uint64_t bytes, uint16_t method, uint64_t name) { fields_into(out_, crc, bytes, method, name); }
  static void fields_into(std::string& out, uint32_t crc, uint64_t bytes, uint16_t method, uint64_t name) {
    put_le(out, 20, 2);
    put_le(out, 0x0800, 2);
    put_le(out, method, 2);
    put_le(out, 0, 4);
    put_le(out, crc, 4);
    put_le(out, bytes, 4);
    put_le(out, bytes, 4);
    put_le(out, name, 2);
    put_le(out, 0, 2);
  }
  std::string out_, directory_;
  uint64_t count_ = 0;
};

}  // namespace dcp::test
