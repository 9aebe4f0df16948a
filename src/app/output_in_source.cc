#include "app/output_in_source.h"

#include <algorithm>
#include <filesystem>

#include "base/working_names.h"

namespace dcp {

void refuse_source(const std::string& path, const Catalog& catalog) {
  using std::filesystem::weakly_canonical;
  std::error_code ignored;
  const auto is_within = [](const std::filesystem::path& inner, const std::filesystem::path& outer) {
    return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
  };
  const auto given = std::filesystem::absolute(without_trailing_slashes(path));
  const auto out = weakly_canonical(given, ignored), source = weakly_canonical(catalog.folder, ignored);
  const auto holds = [&](const std::string& name) { return is_within(weakly_canonical(name, ignored), out); };
  bool replaces = !catalog.single_file && is_within(source, out);
  for (uint32_t f = 0; f < catalog.files.size() && !replaces; ++f) replaces = catalog.files[f].raw && holds(catalog.file_path(f));
  // A link is replaced where it lies.
  const bool is_link = std::filesystem::is_symlink(given, ignored);
  const auto place = is_link ? weakly_canonical(given.parent_path(), ignored) / given.filename() : out;
  const bool is_inside = !catalog.single_file && (is_within(out, source) || is_within(place, source));
  if (!replaces && !is_inside) return;
  Problem p = make_problem(ProblemId::output_in_source, {.path = path});
  if (!replaces) p.what = "the output would lie inside the source checkpoint";
  throw Error(std::move(p));
}

}  // namespace dcp
