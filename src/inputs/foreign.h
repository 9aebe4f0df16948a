// Recognizes what a path holds instead of a checkpoint, such as another program's file; by content where that is cheap.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/store.h"

namespace dcp {

struct Foreign {
  std::string_view what;  // "a GGUF file"; empty: unknown
  std::string_view hint;  // "": no next step
  bool is_deepspeed = false;
};

// First bytes of a file that are enough for foreign_file.
inline constexpr uint64_t kForeignBytes = 512;
Foreign foreign_file(Bytes head);
// Whether it is a zip archive with everything in a folder, as torch writes it, or the form that it wrote before 1.6.
bool is_torch_file(Bytes head);
// Recognizes a folder by the names of its entries.
Foreign foreign_folder(const std::vector<std::string>& names);

}  // namespace dcp
