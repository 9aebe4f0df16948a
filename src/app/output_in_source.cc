#include "app/output_in_source.h"

#include <algorithm>
#include <filesystem>

#include "base/file_names.h"

namespace dcp {

void refuse_source(const std::string& output, const Catalog& catalog) {
  using std::filesystem::path, std::filesystem::weakly_canonical;
  std::error_code ignored;
  const auto is_within = [](const path& inner, const path& outer) {
    return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
  };
  // A link is replaced where it lies, and what it points to stays.
  const auto place_of = [&](const std::string& name) {
    const path given = std::filesystem::absolute(without_trailing_slashes(name));
    return std::filesystem::is_symlink(given, ignored) ? weakly_canonical(given.parent_path(), ignored) / given.filename()
                                                       : weakly_canonical(given, ignored);
  };
  const path out = place_of(output), source = weakly_canonical(catalog.folder, ignored);
  const auto holds = [&](const std::string& file) {
    return is_within(weakly_canonical(file, ignored), out) || is_within(place_of(file), out);
  };
  bool replaces = !catalog.single_file && (is_within(source, out) || is_within(place_of(catalog.folder), out));
  for (uint32_t f = 0; f < catalog.files.size() && !replaces; ++f) replaces = catalog.files[f].raw && holds(catalog.file_path(f));
  const bool is_inside = !catalog.single_file && is_within(out, source);
  if (!replaces && !is_inside) return;
  Problem p = make_problem(ProblemId::output_in_source, {.path = output});
  if (!replaces) p.what = "the output would lie inside the source checkpoint";
  throw Error(std::move(p));
}

}  // namespace dcp
