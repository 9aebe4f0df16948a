// Pickles written out by hand, protocol 2, and plain archives around them.
#pragma once

#include <string>
#include <string_view>

#include "format/items.h"

namespace dcp::test {

inline std::string py_global(const std::string& module, const std::string& name) { return "c" + module + "\n" + name + "\n"; }
inline std::string py_text(std::string_view text) {
  std::string out = "X";
  put_le(out, text.size(), 4);
  return out.append(text);
}
inline std::string py_int(int64_t n) {
  std::string out = std::string("\x8a\x08", 2);  // LONG1 of 8 bytes
  put_le(out, static_cast<uint64_t>(n), 8);
  return out;
}
inline std::string py_tuple(const std::string& elements) { return "(" + elements + "t"; }
inline std::string py_call(const std::string& function, const std::string& arguments) { return function + py_tuple(arguments) + "R"; }

struct TensorText {
  std::string function = py_global("torch._utils", "_rebuild_tensor_v2");
  std::string type = py_global("torch", "FloatStorage");
  std::string key = py_text("0");
  std::string count = py_int(6);
  std::string offset = py_int(0);
  std::string sizes = py_tuple(py_int(2) + py_int(3));
  std::string strides = py_tuple(py_int(3) + py_int(1));
  std::string rest = {};  // dtype and flags

  std::string storage() const { return py_tuple(py_text("storage") + type + key + py_text("cpu") + count) + "Q"; }
  std::string call() const { return py_call(function, storage() + offset + sizes + strides + "\x89" + hooks() + rest); }
  std::string pickle() const { return "\x80\x02" + call() + "."; }
  static std::string hooks() { return py_global("collections", "OrderedDict") + ")R"; }
};

struct ItemText {
  std::string pickle = TensorText{}.pickle();
  std::string payload = std::string(24, 'p');
  std::string version = "3\n";
  std::string byteorder = "little";
  std::string root = "archive";
  std::string key = "0";
  std::string zip() const {
    PlainZip zip;
    zip.add(root + "/data.pkl", pickle).add(root + "/data/" + key, payload);
    if (!byteorder.empty()) zip.add(root + "/byteorder", byteorder);
    if (!version.empty()) zip.add(root + "/version", version);
    return zip.finish();
  }
};

}  // namespace dcp::test
