#include "plan/expect.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/text.h"
#include "format/dtype.h"

namespace dcp {
namespace {

constexpr std::string_view kBlanks = " \t\r";

// "2, 3": the inside of a shape's brackets.
std::optional<std::vector<int64_t>> parse_shape(std::string_view text) {
  std::vector<int64_t> shape;
  std::vector<std::string_view> sizes = split(text, ',', kBlanks);
  if (sizes.back().empty()) sizes.pop_back();  // "2,", and of no dims ""
  for (const std::string_view each : sizes) {
    const auto size = decimal<int64_t>(each);
    if (!size || *size < 0) return std::nullopt;
    shape.push_back(*size);
  }
  return shape;
}

// `key dtype [2, 3]`, where the brackets are at `open`.
std::optional<Signature> parse_at(std::string_view line, size_t open) {
  const size_t close = line.find(']', open);
  if (close == std::string_view::npos) return std::nullopt;
  std::optional<std::vector<int64_t>> shape = parse_shape(line.substr(open + 1, close - open - 1));
  const std::string_view before = trimmed(line.substr(0, open), kBlanks);
  const size_t blank = before.find_last_of(kBlanks);
  if (!shape || blank == std::string_view::npos) return std::nullopt;
  return Signature{.key = std::string(trimmed(before.substr(0, blank), kBlanks)),
                   .dtype = std::string(before.substr(blank + 1)),
                   .shape = std::move(*shape)};
}

// Keys may hold blanks and brackets, so the line is read from its end: the last brackets with a dtype before them, or else the last ones.
std::optional<Signature> parse_line(std::string_view line) {
  std::optional<Signature> last;
  for (size_t open = line.rfind('['); open != std::string_view::npos && open > 0; open = line.rfind('[', open - 1)) {
    std::optional<Signature> s = parse_at(line, open);
    if (s && dtype_named(s->dtype)) return s;
    if (!last) last = std::move(s);
  }
  return last;
}

// `key object  1.2 KiB`
bool is_object(std::string_view line) {
  for (size_t at = line.rfind("object"); at != std::string_view::npos && at > 0;
       at = at == 0 ? std::string_view::npos : line.rfind("object", at - 1)) {
    const size_t end = at + 6;
    if (kBlanks.find(line[at - 1]) != std::string_view::npos && (end == line.size() || kBlanks.find(line[end]) != std::string_view::npos))
      return true;
  }
  return false;
}

}  // namespace

std::vector<Signature> signatures_of(const Catalog& catalog, const Selection& selection, const Plan& plan) {
  std::unordered_map<TensorId, DType> written;
  for (const PlanTensor& p : plan.tensors) written.emplace(p.id, plan.regions[p.first_region].dtype);
  std::set<std::string_view> left_out;
  for (const KeyNote& n : plan.left_out) left_out.insert(n.key);
  std::vector<Signature> all;
  for (const Entry& e : selection.entries) {
    if (e.is_blob() || left_out.contains(catalog.key(e.ref))) continue;
    const Dims shape = output_shape(plan, catalog, e.tensor());
    const auto it = written.find(e.tensor());  // an opaque tensor is copied unchanged
    const std::string_view dtype =
        it != written.end() ? facts_of(it->second).name : catalog.strings[catalog.tensors[e.tensor()].dtype_name];
    all.push_back({.key = escaped(e.key), .dtype = std::string(dtype), .shape = {shape.begin(), shape.end()}});
  }
  return all;
}

std::vector<Signature> signatures_of(const Catalog& catalog) {
  std::vector<Signature> all;
  for (const Tensor& t : catalog.tensors) {
    const Dims shape = catalog.dims(t);
    all.push_back(
        {.key = escaped(catalog.key(t)), .dtype = std::string(catalog.strings[t.dtype_name]), .shape = {shape.begin(), shape.end()}});
  }
  return all;
}

std::vector<Signature> parse_signatures(std::string_view text, const std::string& path) {
  std::vector<Signature> all;
  uint64_t number = 0;
  for (const std::string_view line : split(text, '\n', kBlanks)) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    std::optional<Signature> s = parse_line(line);
    if (s && !dtype_named(s->dtype) && is_object(line)) continue;  // its value has brackets, too
    if (s) all.push_back(std::move(*s));
    else if (!is_object(line))
      fail(ProblemId::expect_line, {.path = path}, "line " + std::to_string(number) + ": " + std::string(line.substr(0, 100)),
           "key dtype [2, 3]");
  }
  return all;
}

std::vector<Difference> differences(std::vector<Signature> got, std::vector<Signature> expected, CompareDtypes dtypes) {
  std::ranges::sort(got, {}, &Signature::key);
  std::ranges::sort(expected, {}, &Signature::key);
  std::vector<Difference> all;
  using Kind = Difference::Kind;
  auto g = got.begin();
  for (const Signature& e : expected) {
    for (; g != got.end() && g->key < e.key; ++g) all.push_back({Kind::kUnexpected, g->key, shape_text(g->shape), ""});
    if (g == got.end() || g->key != e.key) {
      all.push_back({Kind::kMissing, e.key, "", shape_text(e.shape)});
      continue;
    }
    if (g->shape != e.shape) all.push_back({Kind::kShape, e.key, shape_text(g->shape), shape_text(e.shape)});
    if (dtypes == CompareDtypes::kYes && g->dtype != e.dtype) all.push_back({Kind::kDtype, e.key, g->dtype, e.dtype});
    ++g;
  }
  for (; g != got.end(); ++g) all.push_back({Kind::kUnexpected, g->key, shape_text(g->shape), ""});
  std::ranges::stable_sort(all, {}, &Difference::kind);
  return all;
}

}  // namespace dcp
