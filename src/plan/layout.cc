#include "plan/layout.h"

#include "base/checked.h"

namespace dcp {

void add_check(Plan& plan, const CopyCheck& check) {
  CopyRange& range = plan.copies.back();
  if (range.check_count++ == 0) range.first_check = narrow<uint32_t>(plan.copy_checks.size());
  plan.copy_checks.push_back(check);
}

uint64_t add_whole_box(Plan& plan, Dims dims) {
  const uint64_t at = plan.numbers.size();
  plan.numbers.insert(plan.numbers.end(), dims.size(), 0);
  plan.numbers.insert(plan.numbers.end(), dims.begin(), dims.end());
  return at;
}

bool is_opaque(const SourceFacts& source, TensorId id) {
  const Tensor& t = source.catalog.tensors[id];
  for (uint32_t c = 0; c < t.chunk_count; ++c)
    if (source.resolved.items[source.catalog.item_of(t, c)].opaque) return true;
  return false;
}

void refuse_opaque(const SourceFacts& source, TensorId id) {
  if (!is_opaque(source, id)) return;
  const Catalog& catalog = source.catalog;
  Problem p = make_problem(ProblemId::cast_opaque, {.path = catalog.path, .tensor = std::string(catalog.key(catalog.tensors[id]))},
                           "one that is quantized or a subclass");
  p.what = "only plain tensors have elements that stand for themselves";
  const bool is_in_pieces = catalog.tensors[id].chunk_count > 1;
  p.hint = is_in_pieces ? "only a distributed checkpoint holds it, in the chunks that it has here" : "a .pt file holds it whole";
  throw Error(std::move(p));
}

void refuse_opaque_casts(const SourceFacts& source, const Selection& selection) {
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) continue;
    const Tensor& t = source.catalog.tensors[e.tensor()];
    if (e.dtype == t.dtype || !is_opaque(source, e.tensor())) continue;
    fail(ProblemId::cast_opaque, {.path = source.catalog.path, .tensor = std::string(source.catalog.key(t))},
         std::string(facts_of(t.dtype).name) + " that is quantized or a subclass");
  }
}

}  // namespace dcp
