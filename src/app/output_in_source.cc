#include "app/output_in_source.h"

#include <algorithm>
#include <filesystem>

#include "base/working_names.h"

namespace dcp {

void refuse_source(const std::string& path, const Catalog& catalog) {
  std::error_code ignored;
  const auto out = std::filesystem::weakly_canonical(std::filesystem::absolute(without_trailing_slashes(path)), ignored);
  const auto holds = [&](const std::string& name) {
    const auto source = std::filesystem::weakly_canonical(name, ignored);
    return std::mismatch(out.begin(), out.end(), source.begin(), source.end()).first == out.end();
  };
  bool replaces = !catalog.single_file && holds(catalog.folder);
  for (uint32_t f = 0; f < catalog.files.size() && !replaces; ++f) replaces = catalog.files[f].raw && holds(catalog.file_path(f));
  const auto source = std::filesystem::weakly_canonical(catalog.folder, ignored);
  const bool is_inside = !catalog.single_file && std::mismatch(source.begin(), source.end(), out.begin(), out.end()).first == source.end();
  if (!replaces && !is_inside) return;
  Problem p = make_problem(ProblemId::output_in_source, {.path = path});
  if (!replaces) p.what = "the output would lie inside the source checkpoint";
  throw Error(std::move(p));
}

}  // namespace dcp
