#include "report/diff_report.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/json.h"
#include "base/text.h"
#include "kernels/kernels.h"
#include "line/exit_status.h"
#include "line/lines.h"
#include "line/problem_words.h"
#include "report/inspect_text.h"
#include "report/outline.h"
#include "report/page/page.h"
#include "report/selection_report.h"
#include "request/source.h"
#include "select/dtypes.h"
#include "select/rename.h"

namespace dcp::cmd {
namespace {

using Kind = KeyDifference::Kind;

std::string number(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

// Of a part of the whole. Rounded, but neither to nothing nor to all.
std::string percent(uint64_t part, uint64_t whole) {
  const std::string text = number(100 * static_cast<double>(part) / static_cast<double>(whole), 3);
  return (text == "100" && part < whole ? ">99.9" : text) + " %";
}

double share(uint64_t part, uint64_t whole) { return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole); }

std::vector<int64_t> index_of(uint64_t element, Dims shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; element /= static_cast<uint64_t>(shape[d]))
    index[d] = static_cast<int64_t>(element % static_cast<uint64_t>(shape[d]));
  return index;
}

double as_double(const std::byte* element, DType dtype) {
  double value = 0;
  convert(reinterpret_cast<std::byte*>(&value), DType::float64, element, dtype, 1);
  return value;
}

template <class Int>
std::string integer_text(const std::byte* element) {
  Int n;
  std::memcpy(&n, element, sizeof n);
  return std::to_string(n);
}

// As Python would print it, of floats the nine digits that tell two float32 apart.
std::string element_text(const std::array<std::byte, 16>& element, DType dtype) {
  const auto kind = facts_of(dtype).kind;
  if (dtype == DType::int64) return integer_text<int64_t>(element.data());
  if (dtype == DType::uint64) return integer_text<uint64_t>(element.data());
  if (kind == DTypeKind::kBool) return element[0] == std::byte{} ? "False" : "True";
  if (kind != DTypeKind::kComplex)
    return number(as_double(element.data(), dtype), kind == DTypeKind::kFloat && dtype != DType::float64 ? 9 : 17);
  std::array<std::byte, 16> both{};
  convert(both.data(), DType::complex128, element.data(), dtype, 1);
  const double real = as_double(both.data(), DType::float64), imaginary = as_double(both.data() + 8, DType::float64);
  return "(" + number(real, 9) + (std::signbit(imaginary) ? "" : "+") + number(imaginary, 9) + "j)";
}

std::string held_text(const HeldValue& v) { return v.is_tensor ? v.dtype + " " + shape_text(v.shape) : v.text; }

// The worst element of one key or of several.
struct Worst {
  WorstElement element;
  const KeyDifference* of = nullptr;
  void meet(const WorstElement& other, const KeyDifference& d) {
    if (other.index == WorstElement::kNowhere || (of != nullptr && other.error <= element.error)) return;
    element = other;
    of = &d;
  }
};

// How values differ, of one key or of several.
struct Values {
  uint64_t keys = 0, elements = 0, changed = 0, differing = 0, non_finite = 0;
  Worst absolute, relative;

  void add(const KeyDifference& d) {
    ++keys;
    elements += d.elements;
    changed += d.values.changed;
    differing += d.values.differing;
    non_finite += d.values.non_finite;
    if (!is_numeric(d.dtype)) return;
    absolute.meet(d.values.absolute, d);
    relative.meet(d.values.relative, d);
  }
};

std::string worst_text(std::string_view what, const Worst& worst, bool with_key, bool with_values) {
  if (worst.of == nullptr) return "";
  const KeyDifference& d = *worst.of;
  std::string text = ", " + std::string(what) + " " + number(worst.element.error, 6) + " at " + (with_key ? shortened(d.key) + " " : "") +
                     shape_text(index_of(worst.element.index, d.a->shape));
  if (with_values) text += ": " + element_text(worst.element.a, d.dtype) + " and " + element_text(worst.element.b, d.dtype);
  return text;
}

std::string values_text(const KeyDifference& d) {
  Values v;
  v.add(d);
  std::string text = grouped(v.differing) + " of " + counted(v.elements, "element") + (v.elements == 1 ? " differs (" : " differ (") +
                     percent(v.differing, v.elements) + ")";
  if (v.changed > v.differing) text += ", " + grouped(v.changed) + " have changed (" + percent(v.changed, v.elements) + ")";
  const bool same_place = v.absolute.element.index == v.relative.element.index;
  text += worst_text("largest difference", v.absolute, false, true) + worst_text("relative", v.relative, false, !same_place);
  if (v.non_finite > 0) text += ", " + grouped(v.non_finite) + " of them NaN or infinite";
  return text + (v.absolute.of == nullptr ? ", the first at " + shape_text(index_of(d.values.first, d.a->shape)) : "");
}

std::string line_of(const KeyDifference& d) {
  switch (d.kind) {
    case Kind::kOnlyA: return held_text(*d.a);
    case Kind::kOnlyB: return held_text(*d.b);
    case Kind::kKind:
      return (d.a->is_tensor ? "a tensor and an object: " : "an object and a tensor: ") + held_text(*d.a) + " and " + held_text(*d.b);
    case Kind::kDType: return d.a->dtype + " and " + d.b->dtype + ", " + shape_text(d.a->shape);
    case Kind::kShape: return held_text(*d.a) + " and " + held_text(*d.b);
    case Kind::kValues: return d.a->dtype + " " + shape_text(d.a->shape) + ": " + values_text(d);
    case Kind::kObject: {
      const bool look_alike = d.a->text == d.b->text;
      return look_alike ? d.a->text + ", and another that begins the same way" : d.a->text + " and " + d.b->text;
    }
  }
  return "";
}

char sign_of(Kind kind) { return kind == Kind::kOnlyA ? '-' : kind == Kind::kOnlyB ? '+' : '~'; }

// What its keys share: a key that is folded with another has the same.
std::string kind_text(const KeyDifference& d) {
  const std::string kind(1, static_cast<char>('a' + static_cast<char>(d.kind)));
  std::string held;
  for (const auto* side : {&d.a, &d.b}) held += *side && (*side)->is_tensor ? (*side)->dtype + shape_text((*side)->shape) + "\1" : "\1";
  return kind + held;
}

using Differences = std::vector<const KeyDifference*>;

// Of what several keys of a row do not share: "{0, exp_avg}", as the row's label has braces.
std::string variant_of(const KeyDifference& d, const Differences& all) {
  const auto components = [](const KeyDifference& of) {
    std::vector<std::string> words;
    add_components(of.key, words);
    return words;
  };
  const std::vector<std::string> mine = components(d);
  std::vector<bool> differs(mine.size(), false);
  for (const KeyDifference* other : all) {
    const std::vector<std::string> words = components(*other);
    for (size_t i = 0; i < mine.size(); ++i) differs[i] = differs[i] || words[i] != mine[i];
  }
  std::string text;
  for (size_t i = 0; i < mine.size(); ++i)
    if (differs[i]) text += (text.empty() ? "{" : ", ") + escaped(mine[i]);
  return text.empty() ? "" : text + "} ";
}

// What keys that may be unlike have but values: "2 dtypes, 3 objects".
std::string others_text(const Differences& all) {
  uint64_t dtypes = 0, shapes = 0, objects = 0, kinds = 0, held = 0, none = 0;
  for (const KeyDifference* d : all)
    ++(d->kind == Kind::kValues   ? none
       : d->kind == Kind::kDType  ? dtypes
       : d->kind == Kind::kShape  ? shapes
       : d->kind == Kind::kObject ? objects
       : d->kind == Kind::kKind   ? kinds
                                  : held);
  std::string text;
  const auto add = [&](uint64_t n, const std::string& what) {
    if (n > 0) text += (text.empty() ? "" : ", ") + what;
  };
  if (held < all.size()) add(held, counted(held, "key"));
  add(dtypes, counted(dtypes, "dtype"));
  add(shapes, counted(shapes, "shape"));
  add(objects, counted(objects, "object"));
  add(kinds, counted(kinds, "tensor") + " of one that are objects of the other");
  return text;
}

struct Row {
  std::string label, differing, largest, text;
  char sign = '~';
  size_t keys = 0;
};

// "100 %", "0.00625", "{1} [86, 43]".
void add_values(Row& row, const Differences& all, bool is_subtree) {
  Values v;
  for (const KeyDifference* d : all)
    if (d->kind == Kind::kValues) v.add(*d);
  if (v.keys == 0) return;
  row.differing = percent(v.differing, v.elements);
  std::string where;
  if (const KeyDifference* of = v.absolute.of) {
    row.largest = number(v.absolute.element.error, 4);
    const std::string keys = is_subtree ? shortened(of->key) + " " : variant_of(*of, all);
    where = keys + (of->a->shape.empty()
                        ? element_text(v.absolute.element.a, of->dtype) + " and " + element_text(v.absolute.element.b, of->dtype)
                        : shape_text(index_of(v.absolute.element.index, of->a->shape)));
  } else if (all.size() == 1) {
    where = "first at " + shape_text(index_of(all.front()->values.first, all.front()->a->shape));
  }
  if (v.non_finite > 0) where += (where.empty() ? "" : ", ") + grouped(v.non_finite) + " NaN or infinite";
  row.text += (row.text.empty() || where.empty() ? "" : "; ") + where;
}

// By layer, as inspect folds them: what is of one side only apart from what differs.
std::vector<Row> folded_rows(const DiffResult& r) {
  constexpr size_t kRows = 24;
  std::set<char> signs;
  for (const KeyDifference& d : r.differences) signs.insert(sign_of(d.kind));
  std::vector<Row> rows;
  for (const char sign : signs) {
    Fold fold({.rows = kRows / signs.size()});
    for (uint32_t i = 0; i < r.differences.size(); ++i) {
      const KeyDifference& d = r.differences[i];
      if (sign_of(d.kind) != sign) continue;
      Fold::Key key{.words = {}, .kind = kind_text(d), .is_state = d.is_state, .is_object = !(d.a ? *d.a : *d.b).is_tensor, .id = i};
      add_components(d.key, key.words);
      fold.add(key);
    }
    for (const FoldedRow& folded : fold.rows()) {
      Differences all;
      for (const uint32_t i : folded.ids) all.push_back(&r.differences[i]);
      Row row{.label = folded.label, .sign = sign, .keys = all.size()};
      const KeyDifference& first = *all.front();
      const bool is_object = first.kind == Kind::kObject || !(first.a ? *first.a : *first.b).is_tensor;
      if (folded.is_folded) row.text = others_text(all);
      else if (first.kind != Kind::kValues) row.text = is_object && all.size() > 1 ? counted(all.size(), "object") : line_of(first);
      add_values(row, all, folded.is_folded);
      rows.push_back(std::move(row));
    }
  }
  std::ranges::stable_sort(rows, NaturalLess(), &Row::label);
  return rows;
}

std::string signed_label(char sign, const std::string& label, const Context& context) {
  const Style style = sign == '-' ? Style::kRed : sign == '+' ? Style::kBold : Style::kYellow;
  return styled(std::string(1, sign) + " " + label, style, context.colored(STDOUT_FILENO));
}

// A sentence for each key.
void print_keys(const DiffResult& r, const Context& context) {
  std::string text;
  for (const KeyDifference& d : r.differences) {
    text += signed_label(sign_of(d.kind), shortened(d.key), context) + "  " + line_of(d) + "\n";
    if (text.size() < 64 * 1024) continue;
    context.print(fitted(context, text, STDOUT_FILENO));
    text.clear();
  }
  context.print(fitted(context, text, STDOUT_FILENO));
}

void print_rows(const std::vector<Row>& rows, const Context& context) {
  const size_t most = std::min<size_t>(48, std::max<size_t>(24, context.columns(STDOUT_FILENO) / 3));  // columns of a text at a terminal
  const bool at_terminal = context.at_terminal(STDOUT_FILENO),
             has_values = std::ranges::any_of(rows, [](const Row& row) { return !row.differing.empty(); });
  print_table(context, {false, true, true, true, false}, for_reader(context), [&](const auto& add) {
    if (at_terminal && has_values) add({"  key", "keys", "differ", "largest", "where"});
    for (const Row& row : rows)
      add({signed_label(row.sign, row.label, context), row.keys > 1 ? "x" + grouped(row.keys) : "", row.differing, row.largest,
           at_terminal ? cut(row.text, most) : row.text});
  });
}

std::string verdict(const DiffResult& r, const DiffPaths& paths) {
  std::string text = escaped(paths.a) + " and " + escaped(paths.b);
  if (r.equal()) {
    text += " are equal: " + counted(r.tensors, "tensor") + ", " + counted(r.objects, "object");
  } else if (r.model_equal()) {
    text += ": the model is equal: " + counted(r.tensors, "tensor") + "; " + counted(r.differences.size(), "key") + " of training state " +
            (r.differences.size() == 1 ? "is" : "are") + " only in the first";
  } else {
    std::string counts;
    const auto add = [&](uint64_t n, const std::string& what) {
      if (n > 0) counts += (counts.empty() ? ": " : ", ") + what;
    };
    const uint64_t objects = r.count(Kind::kObject);
    const uint64_t tensors = r.count(Kind::kKind) + r.count(Kind::kDType) + r.count(Kind::kShape) + r.count(Kind::kValues);
    add(tensors, grouped(tensors) + " of " + counted(r.tensors, "tensor"));
    add(objects, grouped(objects) + " of " + counted(r.objects, "object"));
    add(r.count(Kind::kOnlyA), counted(r.count(Kind::kOnlyA), "key") + " only in the first");
    add(r.count(Kind::kOnlyB), counted(r.count(Kind::kOnlyB), "key") + " only in the second");
    text += " differ" + counts;
  }
  if (r.values.changed > 0)
    text += "; " + grouped(r.values.changed) + " of " + counted(r.elements, "element") + " have changed (" +
            percent(r.values.changed, r.elements) + ")" + (r.equal() || r.model_equal() ? ", within the tolerance" : "");
  // Of the model, where that differs: a step's number says nothing.
  const bool has_weights =
      std::ranges::any_of(r.differences, [](const KeyDifference& d) { return d.kind == Kind::kValues && !d.is_state; });
  Values values;
  bool leaves_out = false;
  for (const KeyDifference& d : r.differences) {
    if (d.kind != Kind::kValues) continue;
    if (has_weights && d.is_state) leaves_out = true;
    else values.add(d);
  }
  return text + worst_text(leaves_out ? "largest difference of the model" : "largest difference", values.absolute, true, false);
}

// --- JSON

void held_json(JsonWriter& json, std::string_view side, const std::optional<HeldValue>& v) {
  if (!v) return;
  json.key(side).begin_object();
  if (v->is_tensor) json.member("dtype", v->dtype).member("shape", v->shape);
  else json.member("text", v->text);
  json.end_object();
}

void index_json(JsonWriter& json, std::string_view name, uint64_t element, Dims shape) { json.member(name, index_of(element, shape)); }

void worst_json(JsonWriter& json, std::string_view name, const WorstElement& worst, const KeyDifference& d) {
  if (worst.index == WorstElement::kNowhere) return;
  json.key(name).begin_object().member("error", worst.error);
  index_json(json, "index", worst.index, d.a->shape);
  json.member("a", element_text(worst.a, d.dtype)).member("b", element_text(worst.b, d.dtype)).end_object();
}

void counts_json(JsonWriter& json, const ElementDifferences& v, uint64_t elements) {
  json.member("elements", elements).member("changed", v.changed).member("differing", v.differing);
  json.member("changed_share", share(v.changed, elements)).member("differing_share", share(v.differing, elements));
  json.member("other_bytes_same_value", v.same_value).member("non_finite", v.non_finite);
}

std::string_view name_of(Kind kind) {
  constexpr std::string_view kNames[] = {"only_a", "only_b", "kind", "dtype", "shape", "values", "object"};
  return kNames[static_cast<size_t>(kind)];
}

void difference_json(JsonWriter& json, const KeyDifference& d) {
  json.begin_object().member("key", d.key).member("kind", name_of(d.kind));
  held_json(json, "a", d.a);
  held_json(json, "b", d.b);
  if (d.kind == Kind::kValues) {
    json.key("values").begin_object().member("compared_as", facts_of(d.dtype).name);
    counts_json(json, d.values, d.elements);
    index_json(json, "first", d.values.first, d.a->shape);
    if (is_numeric(d.dtype)) {
      worst_json(json, "max_abs", d.values.absolute, d);
      worst_json(json, "max_rel", d.values.relative, d);
    }
    json.end_object();
  }
  json.end_object();
}

void side_json(JsonWriter& json, std::string_view name, const std::string& path, const DiffResult::Side& side) {
  json.key(name).begin_object().member("path", path).member("checkpoint", side.checkpoint);
  if (side.kind) json.member("kind", traits_of(*side.kind).name);
  json.member("not_held_by_other", side.not_held);
  json.member("empty_and_gone", side.gone);
  json.end_object();
}

}  // namespace

void print_diff(const DiffResult& result, const DiffPaths& paths, DiffRows rows, const Context& context) {
  const std::string first = styled(verdict(result, paths), Style::kBold, context.colored(STDOUT_FILENO)) + "\n";
  context.print(fitted(context, first, STDOUT_FILENO));
  const bool is_one = result.differences.size() == 1;
  if (rows == DiffRows::kAll || (rows == DiffRows::kFolded && is_one)) print_keys(result, context);
  else if (rows == DiffRows::kFolded) print_rows(folded_rows(result), context);
  if (result.bytes_read == 0 || rows == DiffRows::kNone || context.common.quiet) return;
  const std::string closing = "  " + human_bytes(result.bytes_read) + " read in " + done_in(result.bytes_read, result.nanoseconds) +
                              ", peak memory " + human_bytes(peak_rss_bytes()) + "\n";
  context.print(fitted(context, closing, STDOUT_FILENO));
}

std::string diff_document(const DiffResult& r, const DiffPaths& paths) {
  std::string text;
  JsonWriter json([&](std::string_view s) { text += s; });
  json.begin_object().member("schema", "dcpctl.diff/1").member("exit", static_cast<int>(r.equal() ? Exit::kOk : Exit::kAnswerNo));
  side_json(json, "a", paths.a, r.a);
  side_json(json, "b", paths.b, r.b);
  json.member("equal", r.equal())
      .member("model_equal", r.model_equal())
      .key("summary")
      .begin_object()
      .member("tensors", r.tensors)
      .member("objects", r.objects);
  for (int k = 0; k <= static_cast<int>(Kind::kObject); ++k) json.member(name_of(static_cast<Kind>(k)), r.count(static_cast<Kind>(k)));
  counts_json(json, r.values, r.elements);
  json.end_object().key("differences").begin_array();
  for (const KeyDifference& d : r.differences) difference_json(json, d);
  json.end_array();
  json.member("bytes_read", r.bytes_read).member("seconds", static_cast<double>(r.nanoseconds) / 1e9);
  json.member("peak_memory_bytes", peak_rss_bytes()).end_object();
  json.finish();
  return text;
}

void diff_rows(const DiffResult& result, const FieldFlags& fields, const Context& context) {
  const FieldRows rows(fields, kDiffFields, context);
  for (const KeyDifference& d : result.differences)
    rows.add([&](std::string_view field) -> FieldValue {
      if (field == "key") return d.key;
      if (field == "kind") return std::string(name_of(d.kind));
      if (field == "text") return line_of(d);
      const auto held = field.ends_with("_a") ? d.a : d.b;
      const bool is_tensor = held && held->is_tensor, has_values = d.kind == Kind::kValues;
      if (field.starts_with("dtype")) return is_tensor ? FieldValue(held->dtype) : FieldValue();
      if (field.starts_with("shape")) return is_tensor ? FieldValue(held->shape) : FieldValue();
      if (!has_values) return {};
      if (field == "elements") return d.elements;
      if (field == "differing") return d.values.differing;
      const WorstElement& worst = field == "max_abs" ? d.values.absolute : d.values.relative;
      return worst.index == WorstElement::kNowhere || !is_numeric(d.dtype) ? FieldValue() : FieldValue(worst.error);
    });
}

std::string diff_html(const DiffResult& r, const DiffPaths& paths) {
  PageHead head{.command = "dcpctl diff",
                .title = escaped(paths.a) + " and " + escaped(paths.b),
                .verdict = verdict(r, paths),
                .tone = r.equal()         ? "good"
                        : r.model_equal() ? "warn"
                                          : "bad"};
  if (head.verdict.starts_with(head.title))
    head.verdict = head.verdict.substr(head.title.size() + (head.verdict[head.title.size()] == ':' ? 2 : 1));
  for (const DiffResult::Side* side : {&r.a, &r.b})
    head.cards.push_back({.label = side == &r.a ? "the first" : "the second",
                          .value = escaped(side->checkpoint),
                          .note = side->kind ? std::string(traits_of(*side->kind).words) : ""});
  head.cards.push_back({.label = "on both sides", .value = counted(r.tensors, "tensor"), .note = counted(r.objects, "object")});
  const auto add = [&](const char* label, uint64_t n, const char* one, std::string_view tone) {
    if (n > 0) head.cards.push_back({.label = label, .value = counted(n, one), .tone = tone});
  };
  add("other values", r.count(Kind::kValues), "tensor", "bad");
  add("other dtypes, shapes, kinds", r.count(Kind::kDType) + r.count(Kind::kShape) + r.count(Kind::kKind), "tensor", "bad");
  add("other values", r.count(Kind::kObject), "object", "bad");
  add("only in the first", r.count(Kind::kOnlyA), "key", "g1");
  add("only in the second", r.count(Kind::kOnlyB), "key", "g0");
  if (r.values.changed > 0)
    head.cards.push_back(
        {.label = "elements that changed", .value = grouped(r.values.changed), .note = percent(r.values.changed, r.elements)});
  return page_html(head, [&](JsonWriter& json) {
    json.begin_object().member("type", "diff").key("keys").begin_array();
    std::vector<std::string_view> differing;
    std::vector<const KeyDifference*> sorted;
    for (const KeyDifference& d : r.differences) sorted.push_back(&d);
    std::ranges::stable_sort(sorted, natural_less, &KeyDifference::key);
    for (const KeyDifference* at : sorted) {
      const KeyDifference& d = *at;
      differing.push_back(d.key);
      json.begin_array()
          .value(escaped(d.key))
          .value(d.kind == Kind::kValues  ? 0
                 : d.kind == Kind::kOnlyA ? 1
                 : d.kind == Kind::kOnlyB ? 2
                                          : 3);
      const auto error = [&](const WorstElement& worst) {
        if (d.kind != Kind::kValues || worst.index == WorstElement::kNowhere || !is_numeric(d.dtype)) json.null();
        else json.value(page_number(worst.error));
      };
      error(d.values.relative);
      json.value(line_of(d));
      if (d.kind == Kind::kValues) json.value(page_number(share(d.values.differing, d.elements)));
      else json.null();
      error(d.values.absolute);
      if (d.values.non_finite > 0) json.value(d.values.non_finite);
      json.end_array();
    }
    std::ranges::sort(differing);
    json.end_array().key("equal").begin_array();
    for (const std::string& key : r.common)
      if (!std::ranges::binary_search(differing, key)) json.value(escaped(key));
    json.end_array().end_object();
  });
}

// Of tensors that differ in their dtype the narrowest one: that both were rounded to it is what a conversion does.
static std::optional<DType> narrower_dtype(const DiffResult& result) {
  std::optional<DType> narrowest;
  for (const KeyDifference& d : result.differences) {
    if (d.kind != Kind::kDType) continue;
    for (const HeldValue* side : {&*d.a, &*d.b}) {
      const std::optional<DType> dtype = dtype_named(side->dtype);
      if (!dtype || !is_cast_target(*dtype)) return DType::float32;
      if (!narrowest || bytes_of(*dtype) < bytes_of(*narrowest)) narrowest = dtype;
    }
  }
  return narrowest;
}

// Keys of one side that are the other's but for the prefixes of wrappers.
uint64_t alike_but_for_wrappers(const DiffResult& result) {
  std::map<Kind, std::set<std::string>> only;
  for (const KeyDifference& d : result.differences)
    if (d.kind == Kind::kOnlyA || d.kind == Kind::kOnlyB) only[d.kind].insert(without_wrappers(d.key));
  return static_cast<uint64_t>(
      std::ranges::count_if(only[Kind::kOnlyA], [&](const std::string& key) { return only[Kind::kOnlyB].contains(key); }));
}

void note_left_out(const DiffResult& result, Context& context) {
  const auto note = [&](const DiffResult::Side& side, const char* which, const char* other) {
    if (!side.not_held.empty())
      context.info("not compared: " + counted(side.not_held.size(), "object") + " of the " + which + ", because the " + other +
                   " cannot hold objects: " + folded_names(side.not_held));
    if (!side.gone.empty())
      context.info("not compared: empty containers of the " + std::string(which) +
                   ", which a DCP folder does not keep: " + folded_names(side.gone));
  };
  note(result.a, "first", "second");
  note(result.b, "second", "first");
  if (const auto narrower = narrower_dtype(result))
    context.info("some dtypes differ: --compare-as " + std::string(facts_of(*narrower).name) + " compares the values, rounded to it");
  if (const uint64_t alike = alike_but_for_wrappers(result); alike > 0)
    context.info("--clean-fqns compares " + counted(alike, "key") + " more: they differ in the prefix of a wrapper alone");
  else if (result.tensors + result.objects == 0 && result.count(Kind::kOnlyA) > 0 && result.count(Kind::kOnlyB) > 0)
    context.info("no key is on both sides: --map auto compares the models by the map that fits, --rename takes prefixes off");
  const auto is_state = [](const KeyDifference& d) { return d.is_state && d.kind == Kind::kOnlyA; };
  if (std::ranges::any_of(result.differences, is_state)) context.info("--model-only compares the models alone");
}

Problem with_option_of_b(const Problem& problem) {
  constexpr std::string_view kStep = "--step ";
  Problem p = worded(problem);
  if (const size_t at = p.hint.find(kStep); at != p.hint.npos) p.hint.replace(at, kStep.size(), "--step-b ");
  return p;
}

}  // namespace dcp::cmd
