#include "app/parts.h"

#include <set>
#include <string_view>

#include "base/utf8.h"
#include "catalog/structure.h"

namespace dcp {
namespace {

// Python cannot read a name that is not text.
void check_text(const Catalog& catalog, const Selection& selection, const Entry& e) {
  bool text = is_pickled_text(e.key);
  for (const PathPart& p : selection.path(e)) text = text && is_pickled_text(p.name);
  if (text) return;
  Problem p = make_problem(ProblemId::pickle_unloadable, {.path = catalog.path, .tensor = std::string(e.key), .object = e.is_blob()},
                           "a key that is not UTF-8");
  p.remedy = Remedy::kOtherName;
  throw Error(std::move(p));
}

}  // namespace

void check_kept(const OpenedCatalog& opened, const Selection& selection) {
  const Catalog& catalog = opened.catalog;
  std::set<std::string_view> kept;
  for (const Entry& e : selection.entries) kept.insert(catalog.key(e.ref));
  check_opened(opened, [&](std::string_view key) { return catalog.strings.find(key) && !kept.contains(key); });
}

void check_whole(const Catalog& catalog, const Selection& selection) {
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) check_item(catalog, catalog.item_of(e.blob()), catalog.key(e.ref), "");
    else check_whole(catalog, catalog.tensors[e.tensor()]);
  }
}

Parts check_selected(const OpenedCatalog& opened, const Selection& selection, const OutputForm& form) {
  const Catalog& catalog = opened.catalog;
  Parts parts;
  check_kept(opened, selection);
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) {
      if (!form.blobs) continue;
      check_item(catalog, catalog.item_of(e.blob()), catalog.key(e.ref), "");
      check_text(catalog, selection, e);
      parts.blobs.push_back(e.blob());
      continue;
    }
    const Tensor& t = catalog.tensors[e.tensor()];
    if (!form.any_tensor || !catalog.traits().in_torch_files || t.strided) check_whole(catalog, t);
    if (form.blobs) check_text(catalog, selection, e);
    parts.tensors.push_back(e.tensor());
  }
  return parts;
}

}  // namespace dcp
