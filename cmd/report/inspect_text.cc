#include "report/inspect_text.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/problem.h"
#include "base/text.h"
#include "catalog/cover.h"
#include "catalog/mcore.h"
#include "catalog/placements.h"
#include "catalog/torch_files.h"
#include "line/lines.h"
#include "line/option_values.h"
#include "line/problem_words.h"
#include "report/fields.h"
#include "report/outline.h"
#include "report/selection_report.h"
#include "request/dtype_flags.h"

namespace dcp::cmd {
namespace {

std::vector<std::string> cells(const Catalog& c, const Entry& e, std::string name) {
  if (e.is_blob()) {
    const Item& item = c.items[c.item_of(e.blob())];
    // In a torch.save file all objects are in one pickle.
    return {std::move(name), "object", "", item.file == kNone || c.torch ? "" : human_bytes(item.length), ""};
  }
  const Tensor& t = c.tensors[e.tensor()];
  std::string sharding = sharding_words(c, t);
  if (const auto shape = mcore_shape(c, e.tensor())) sharding += ", Megatron's shape " + shape_text(*shape);
  std::string dtype(c.strings[t.dtype_name]);
  if (t.dtype_known && e.dtype != t.dtype) dtype += " -> " + std::string(facts_of(e.dtype).name);
  return {std::move(name), std::move(dtype), shape_text(c.dims(t)), human_bytes(c.tensor_bytes(t)), std::move(sharding)};
}

// Rows deeper than this are not moved further to the right: a path of 10^5 steps would print 10^10 blanks.
constexpr size_t kDeepest = 40;

// " = 1000" of a small object or scalar.
std::string value_text(const InspectResult& found, const Entry& e) {
  const std::string* value = found.value_of(e.ref);
  return value == nullptr ? "" : " = " + escaped(*value);
}

// "key = value" with as much of the value as fits on a line of the terminal.
std::string with_less_value(std::string text, const Context& context) {
  constexpr size_t kLeast = 12;  // columns of the value
  const size_t columns = context.columns(STDOUT_FILENO);
  const bool fits = !context.at_terminal(STDOUT_FILENO) || display_width(text) <= columns;
  if (fits || display_width(text.substr(0, text.find(" = "))) + kLeast > columns) return text;
  return cut(std::move(text), columns);
}

// Columns have names where a person reads them.
void add_head(const Context& context, const std::function<void(Cells)>& add, Cells names) {
  if (context.at_terminal(STDOUT_FILENO)) add(std::move(names));
}

void print_tree(const InspectResult& found, const Context& context) {
  const std::vector<TreeRow> tree = tree_of(found.selection);
  print_table(context, {false, false, false, true, false}, LongNames::kOwnLine, [&](const auto& add) {
    add_head(context, add, {"key", "dtype", "shape", "bytes", "sharding"});
    for (const TreeRow& row : tree) {
      std::string name = std::string(2 * std::min(row.level, kDeepest), ' ') + row.label;
      if (row.entry) add(cells(found.catalog(), *row.entry, with_less_value(name + value_text(found, *row.entry), context)));
      else add({std::move(name)});
    }
  });
}

std::vector<Entry> ordered_entries(const InspectResult& found, SortBy sort) {
  std::vector<Entry> entries = sorted_entries(found.selection);
  if (sort == SortBy::kSize)
    std::ranges::stable_sort(entries, std::greater<>(), [&](const Entry& e) { return entry_bytes(found.catalog(), e); });
  return entries;
}

void print_keys(const InspectResult& found, SortBy sort, const Context& context) {
  print_table(context, {false, false, false, true, false}, for_reader(context), [&](const auto& add) {
    add_head(context, add, {"key", "dtype", "shape", "bytes", "sharding"});
    for (const Entry& e : ordered_entries(found, sort)) {
      Cells of = cells(found.catalog(), e, part_text({.name = e.key}));
      if (const std::string value = value_text(found, e); e.is_blob() && !value.empty()) of.back() = value.substr(1);
      add(std::move(of));
    }
  });
}

void print_largest(const InspectResult& found, size_t count, const Context& context) {
  print_table(context, {false, false, false, true, false}, for_reader(context), [&](const auto& add) {
    add_head(context, add, {"key", "dtype", "shape", "bytes", "sharding"});
    for (const Entry& e : largest_tensors(found, count)) add(cells(found.catalog(), e, part_text({.name = e.key})));
  });
}

void print_chunks(const Catalog& catalog, const Selection& selection, const Context& context) {
  print_table(context, {false, false, false, true, true}, for_reader(context), [&](const auto& add) {
    add_head(context, add, {"key", "box", "file", "offset", "bytes"});
    for (const Entry& e : sorted_entries(selection)) {
      const std::string key = shortened(e.key);
      const auto add_item = [&](ItemId id, std::string box) {
        const Item& item = catalog.items[id];
        if (item.file == kNone) add({key, std::move(box), "(no item)"});
        else add({key, std::move(box), escaped(catalog.file_name(item.file)), std::to_string(item.offset), std::to_string(item.length)});
      };
      if (e.is_blob()) {
        add_item(catalog.item_of(e.blob()), "object");
        continue;
      }
      const Tensor& t = catalog.tensors[e.tensor()];
      for (uint32_t c = 0; c < t.chunk_count; ++c)
        add_item(catalog.item_of(t, c), slice_text(catalog.box(t, c).offsets, catalog.box(t, c).sizes));
    }
  });
}

void add_outline(const Catalog& catalog, const std::vector<OutlineRow>& rows, SortBy sort, const std::function<void(Cells)>& add) {
  bool is_state = rows.empty() || rows.front().is_state || sort == SortBy::kSize;
  for (const OutlineRow& row : rows) {
    if (row.is_state && !std::exchange(is_state, true)) add({});  // what a trainer keeps beside the model stands apart
    if (row.has_value) {
      add({row.label});
      continue;
    }
    if (!row.example) {
      std::string what = row.tensors > 0 ? counted(row.tensors, "tensor") : "";
      if (row.objects > 0) what += (what.empty() ? "" : ", ") + counted(row.objects, "object");
      add({row.label, std::move(what), "", "", row.bytes > 0 ? human_bytes(row.bytes) : "", ""});
      continue;
    }
    Cells of = cells(catalog, *row.example, row.label);
    of.insert(of.begin() + 3, row.keys() > 1 ? "x" + grouped(row.keys()) : "");
    if (!of[4].empty()) of[4] = human_bytes(row.bytes);
    add(std::move(of));
  }
}

// On `lines`, as far as it goes.
void print_outline(const InspectResult& found, const InspectStyle& style, size_t lines, const Context& context) {
  constexpr size_t kMaxRows = 40, kMinRows = 12;
  const std::vector<bool> right{false, false, false, true, true, false};
  OutlineOptions options{.rows = kMaxRows, .depth = style.depth, .by_size = style.sort == SortBy::kSize, .values = &found.values};
  std::vector<OutlineRow> rows;
  const RowSource source = [&](const std::function<void(Cells)>& add) {
    const auto any = [&](const auto& is) { return std::ranges::any_of(rows, is); };
    const bool is_folded = any([](const OutlineRow& row) { return row.example && row.keys() > 1; });
    const bool has_tensors = any([](const OutlineRow& row) { return row.example && row.tensors > 0; });
    add_head(context, add,
             {"key", has_tensors ? "dtype" : "holds", has_tensors ? "shape" : "", is_folded ? "keys" : "", is_folded ? "in all" : "bytes",
              has_tensors ? "sharding" : ""});
    add_outline(found.catalog(), rows, style.sort, add);
  };
  for (;; options.rows -= 4) {  // at a narrow terminal rows take two lines
    rows = outline_of(found.catalog(), found.selection, options);
    if (style.depth || options.rows <= kMinRows) break;
    const size_t width = widths_of(context, right, source).front();
    const auto twice =
        std::ranges::count_if(rows, [&](const OutlineRow& row) { return display_width(row.label) > width && !row.has_value; });
    if (rows.size() + static_cast<size_t>(twice) <= lines) break;
  }
  for (OutlineRow& row : rows)
    if (row.has_value) row.label = with_less_value(std::move(row.label), context);
  print_table(context, right, LongNames::kOwnLine, source);
}

// Of each file the items that are selected, and their bytes.
std::vector<std::pair<uint64_t, uint64_t>> selected_in_files(const InspectResult& found) {
  const Catalog& c = found.catalog();
  std::vector<std::pair<uint64_t, uint64_t>> in(c.files.size());
  for (const Entry& e : found.selection.entries) {
    const ItemId first = e.is_blob() ? c.item_of(e.blob()) : c.tensors[e.tensor()].first_chunk;
    const uint32_t count = e.is_blob() ? 1 : c.tensors[e.tensor()].chunk_count;
    for (const Item& item : std::span(c.items).subspan(first, count))
      if (item.file != kNone) ++in[item.file].first, in[item.file].second += item.length;
  }
  return in;
}

void print_files(const InspectResult& found, SortBy sort, const Context& context) {
  const Catalog& catalog = found.catalog();
  const std::vector<FileUse> uses = file_uses(catalog);
  const bool is_part = found.selection.entries.size() < catalog.order.size();
  const auto selected = selected_in_files(found);
  print_table(context, {false, true, true, true}, LongNames::kOnTheLine, [&](const auto& add) {
    add({"file", "bytes", "items", is_part ? "their bytes" : "unreferenced"});
    std::vector<uint32_t> order(catalog.files.size());
    std::iota(order.begin(), order.end(), 0u);
    if (is_part) std::erase_if(order, [&](uint32_t f) { return selected[f].first == 0; });
    std::ranges::stable_sort(order, NaturalLess(), [&](uint32_t f) { return catalog.file_name(f); });
    if (sort == SortBy::kSize)
      std::ranges::stable_sort(order, std::greater<>(), [&](uint32_t f) { return catalog.files[f].bytes.value_or(0); });
    for (const uint32_t f : order) {
      const auto& bytes = catalog.files[f].bytes;
      add({escaped(catalog.file_name(f)),
           bytes                    ? grouped(*bytes)
           : catalog.files[f].fault ? "unreadable"
                                    : "missing",
           grouped(is_part ? selected[f].first : uses[f].items),
           is_part ? grouped(selected[f].second)
           : bytes ? grouped(uses[f].unreferenced)
                   : ""});
    }
  });
}

}  // namespace

void inspect_csv(const InspectResult& found, const InspectStyle& style, const Context& context) {
  const Catalog& catalog = found.catalog();
  Cells head{"key", "kind", "dtype", "shape", "elements", "bytes", "sharding"};
  if (context.several) head.emplace_back("path");
  print_csv_head(head, context);
  const auto print = [&](Cells row) {
    if (context.several) row.push_back(catalog.path);
    context.print(csv_row(row));
  };
  for (const Entry& e : style.top > 0 ? largest_tensors(found, style.top) : ordered_entries(found, style.sort)) {
    const std::string key(e.key), bytes = std::to_string(entry_bytes(catalog, e));
    if (e.is_blob()) {
      print({key, "object", "", "", "", bytes, ""});
      continue;
    }
    const Tensor& t = catalog.tensors[e.tensor()];
    print({key, "tensor", std::string(catalog.strings[t.dtype_name]), shape_text(catalog.dims(t)), std::to_string(catalog.elements(t)),
           bytes, sharding_words(catalog, t)});
  }
}

namespace {

FieldValue field_of(const InspectResult& found, const Entry& e, std::string_view field) {
  const Catalog& c = found.catalog();
  const TrainingState& state = found.selection.state;
  if (field == "key") return std::string(e.key);
  if (field == "path") return c.path;
  if (field == "kind") return e.is_blob() ? "object" : "tensor";
  if (field == "bytes") return entry_bytes(c, e);
  if (field == "part_of") return state.is_model(e.ref) ? "model" : state.is_optimizers(e.ref) ? "optimizer" : "other";
  if (field == "value") {
    const std::string* value = found.value_of(e.ref);
    return value == nullptr ? FieldValue() : *value;
  }
  const ItemId first = e.is_blob() ? c.item_of(e.blob()) : c.tensors[e.tensor()].first_chunk;
  const uint32_t chunks = e.is_blob() ? 1 : c.tensors[e.tensor()].chunk_count;
  if (field == "chunks") return uint64_t{chunks};
  if (field == "files") {
    std::set<std::string, NaturalLess> files;
    for (ItemId item = first; item < first + chunks; ++item)
      if (c.items[item].file != kNone) files.emplace(c.file_name(c.items[item].file));
    return std::vector<std::string>(files.begin(), files.end());
  }
  if (e.is_blob()) return {};
  const Tensor& t = c.tensors[e.tensor()];
  if (field == "dtype") return std::string(c.strings[t.dtype_name]);
  if (field == "shape") return c.shape(t);
  if (field == "elements") return c.elements(t);
  return sharding_words(c, t);
}

}  // namespace

void inspect_rows(const InspectResult& found, const InspectStyle& style, const FieldFlags& fields, const Context& context) {
  const FieldRows rows(fields, kInspectFields, context);
  for (const Entry& e : style.top > 0 ? largest_tensors(found, style.top) : ordered_entries(found, style.sort))
    rows.add([&](std::string_view field) { return field_of(found, e, field); });
}

std::vector<Entry> largest_tensors(const InspectResult& found, size_t count) {
  std::vector<Entry> entries = ordered_entries(found, SortBy::kSize);
  std::erase_if(entries, [](const Entry& e) { return e.is_blob(); });
  entries.erase(entries.begin() + static_cast<ptrdiff_t>(std::min(count, entries.size())), entries.end());
  return entries;
}

std::string part_text(const PathPart& p) {
  if (p.position >= 0) return "[" + std::to_string(p.position) + "]";
  constexpr size_t kWhole = 1000;  // bytes
  return p.name.empty() ? "''" : p.name.size() <= kWhole ? escaped(p.name) : shortened(p.name);
}

// Of the whole checkpoint, whatever is shown of it: one line, and what was taken for what in a second.
std::string state_text(const Catalog& catalog, const TrainingState& state) {
  std::string text = "  ";
  if (state.keys == 0) text += "model only: no optimizer or other training state\n";
  else if (state.keys == catalog.order.size()) text += "no model: " + counted(state.keys, "key") + " of training state\n";
  else if (!state.has_state()) text += "model only, plus " + counted(state.keys, "key") + " that training does not resume from\n";
  else if (std::ranges::none_of(state.groups, [](const KeyGroup& g) { return is_optimizers(g); }))
    text += "no optimizer: " + counted(state.keys, "key") + " of other training state beside the model\n";
  else text += "full: " + counted(state.keys, "key") + " of training state beside the model\n";
  std::vector<std::string> parts;
  if (state.models.size() > 1) parts.push_back("several models");
  for (const auto& [title, sign] :
       {std::pair("model by name: ", Sign::kName), std::pair("model by its tensors' names: ", Sign::kTensorNames),
        std::pair("model by parameters beside another: ", Sign::kSecond), std::pair("model by what is left: ", Sign::kRest)}) {
    std::vector<std::string> roots;
    for (const KeyGroup& m : state.models)
      if (m.sign == sign && (!m.path.empty() || state.models.size() > 1 || state.keys > 0)) roots.push_back(root_text(m.path));
    if (!roots.empty()) parts.push_back(title + list_of(roots));
  }
  for (const auto& [title, signs] : {std::pair("optimizer by structure: ", std::pair(Sign::kParamGroups, Sign::kSlots)),
                                     std::pair("state by name: ", std::pair(Sign::kName, Sign::kName)),
                                     std::pair("beside the model: ", std::pair(Sign::kBeside, Sign::kBeside))}) {
    std::vector<std::string> groups;
    for (const KeyGroup& g : state.groups)
      if (g.sign == signs.first || g.sign == signs.second) groups.push_back(g.path);
    if (!groups.empty()) parts.push_back(title + list_of(groups));
  }
  return parts.empty() ? text : text + "    " + joined(parts, "; ") + "\n";
}

namespace {

using KeysAndBytes = std::pair<uint64_t, uint64_t>;

// The largest of what lies at the top, in the order of their names, and the others in one line.
std::string tops_text(const std::map<std::string, KeysAndBytes>& tops) {
  constexpr size_t kShown = 8;
  std::vector<std::pair<uint64_t, std::string>> order;
  for (const auto& [name, of] : tops) order.emplace_back(of.second, name);
  std::ranges::stable_sort(order, std::greater<>(), [](const auto& o) { return o.first; });
  std::set<std::string> shown;
  for (size_t i = 0; i < order.size() && (i + 1 < kShown || order.size() == kShown); ++i) shown.insert(order[i].second);
  std::string text;
  KeysAndBytes others;
  const auto line = [](const std::string& name, const KeysAndBytes& of) {
    return "  " + name + ": " + counted(of.first, "key") + ", " + human_bytes(of.second) + "\n";
  };
  for (const auto& [name, of] : tops) {
    if (shown.contains(name)) text += line(name, of);
    else others.first += of.first, others.second += of.second;
  }
  return others.first == 0 ? text : text + line("and " + grouped(tops.size() - shown.size()) + " more like these", others);
}

}  // namespace

std::string details_text(const InspectResult& found) {
  const Catalog& catalog = found.catalog();
  const Selection& selection = found.selection;
  const Provenance& p = catalog.provenance;
  const InspectSummary s = summary_of(catalog, selection);
  std::string text;
  if (!p.written_by.empty() && catalog.traits().has_metadata) text += "  written by torch " + p.written_by + "\n";
  if (p.by_dcpctl) text += "  written by dcpctl\n";
  for (const std::string& w : p.why) text += "  " + escaped(w) + "\n";
  if (!p.why.empty() && p.loads_in.starts_with(">="))
    text += "  for torch 2.0: 'dcpctl reshard " + shell_word(catalog.path) + " OUT --for-torch 2.0'\n";
  text += "  " + counted(s.tensors, "tensor") + ", " + counted(s.elements, "element") + ", " + human_bytes(s.tensor_bytes);
  text += "; " + counted(s.blobs, "object") + ", " + human_bytes(s.blob_bytes) + "\n";
  text += "  " + counted(s.chunks, "chunk") + " in " + counted(catalog.files.size(), "file");
  if (const uint32_t world = world_size_shown(catalog))
    text += ", " + counted(world, "rank") + (p.ranks > 0 ? "" : ", judging by the chunks");
  text += "\n";
  std::map<std::string, KeysAndBytes> dtypes, tops;
  for (const Entry& e : selection.entries) {
    const std::span<const PathPart> path = selection.path(e);
    auto& top = tops[path.size() > 1 ? part_text(path[0]) : "(top level)"];
    ++top.first;
    if (e.is_blob()) {
      const Item& item = catalog.items[catalog.item_of(e.blob())];
      if (item.file != kNone && !catalog.traits().in_torch_files) top.second += item.length;
      continue;
    }
    const Tensor& t = catalog.tensors[e.tensor()];
    const std::string* cls = found.subclass_of(e.tensor());
    auto& dtype = dtypes[std::string(catalog.strings[t.dtype_name]) + (cls == nullptr ? "" : " of " + escaped(*cls))];
    ++dtype.first;
    dtype.second += catalog.tensor_bytes(t);
    top.second += catalog.tensor_bytes(t);
  }
  for (const auto& [name, of] : dtypes) text += "  " + name + ": " + counted(of.first, "tensor") + ", " + human_bytes(of.second) + "\n";
  text += tops_text(tops);
  text += state_text(catalog, selection.state);
  for (const std::string& a : p.extra_attributes) text += "  extra attribute of the metadata: " + escaped(a) + "\n";
  return text;
}

namespace {

// Of one kind the first, and how many more there are.
std::string findings_text(const InspectResult& found, const Context& context) {
  constexpr uint64_t kShown = 3;
  std::map<std::pair<Severity, ProblemId>, uint64_t> counts, shown;
  for (const Problem& p : found.findings) ++counts[{p.severity, p.id}];
  const bool color = context.colored(STDOUT_FILENO);
  std::vector<const Problem*> order;
  for (const Problem& p : found.findings) order.push_back(&p);
  std::ranges::stable_sort(order, std::greater<>(), [](const Problem* p) { return p->severity; });
  std::string text;
  for (const Problem* p : order) {
    const std::pair kind(p->severity, p->id);
    const uint64_t n = ++shown[kind], all = counts[kind];
    if (n > kShown && all > kShown + 1) {
      if (n == all) text += "  and " + grouped(all - kShown) + " more like these" + "\n";
      continue;
    }
    const Problem told = worded(*p);
    text += styled(severity_word(p->severity), style_of(p->severity), color) + " " + to_line(told) + "\n";
    if (n == 1 && p->severity >= Severity::kDamage && !told.hint.empty()) text += "  " + told.hint + "\n";
  }
  // What a command that writes would stumble over.
  const Selection& s = found.selection;
  const std::string mark = styled(severity_word(Severity::kWarning), style_of(Severity::kWarning), color) + " ";
  if (s.wrapped > 0) text += mark + wrapped_text(s) + "\n";
  if (s.flat_parameters > 0) text += mark + flat_text(s) + "\n";
  if (!s.state.doubtful_globs.empty())
    text += mark +
            "in doubt whether these are of the model, as they are named and shaped like other tensors: " + list_of(s.state.doubtful_globs) +
            "\n";
  return text;
}

}  // namespace

void inspect_text(const InspectResult& found, const InspectStyle& style, const Context& context) {
  const Catalog& catalog = found.catalog();
  const InspectView view = style.view;
  if (style.top > 0) return print_largest(found, style.top, context);
  if (view == InspectView::kKeys) return print_keys(found, style.sort, context);  // for programs: nothing else
  if (view == InspectView::kChunks) return print_chunks(catalog, found.selection, context);
  const std::string findings = fitted(context, findings_text(found, context), STDOUT_FILENO);
  if (view == InspectView::kFiles || view == InspectView::kRanks) {
    context.print(findings);
    return view == InspectView::kFiles ? print_files(found, style.sort, context) : print_holdings(holdings_of(found), style.sort, context);
  }
  const std::vector<std::string> lines = header_lines(found);
  const std::string& first = lines.front();
  std::string rest;
  const bool is_of_rows = style.sort == SortBy::kSize && view == InspectView::kOutline;  // what is large comes first
  for (size_t i = 1; i < lines.size() && !is_of_rows; ++i) rest += lines[i];
  if (context.common.verbose > 0) rest += details_text(found);
  const std::string head =
      fitted(context, styled(first.substr(0, first.size() - 1), Style::kBold, context.colored(STDOUT_FILENO)) + "\n", STDOUT_FILENO) +
      findings + fitted(context, rest, STDOUT_FILENO);
  context.print(head);
  if (view == InspectView::kSummary) return;
  context.print("\n");
  if (view == InspectView::kTree) return print_tree(found, context);
  constexpr size_t kLines = 58, kMin = 24;  // with the prompt no more than 60, however much there is to say before
  const auto used = static_cast<size_t>(std::ranges::count(head, '\n')) + (context.at_terminal(STDOUT_FILENO) ? 3 : 2);
  print_outline(found, style, std::max(kLines - std::min(kLines, used), kMin), context);
}

// The keys of a checkpoint as a tree of their paths' components.

std::vector<Entry> sorted_entries(const Selection& selection) {
  std::vector<Entry> sorted = selection.entries;
  std::ranges::stable_sort(sorted, [](const Entry& a, const Entry& b) { return natural_less(a.key, b.key); });
  return sorted;
}

std::vector<TreeRow> tree_of(const Selection& selection) {
  std::unordered_map<PathStep, uint32_t, PathStepHash> numbers;  // by first appearance; 0 is the root
  std::vector<std::pair<std::vector<uint32_t>, Entry>> sorted;
  for (const Entry& e : sorted_entries(selection)) {
    std::vector<uint32_t> trail{0};
    for (const PathPart& p : selection.path(e)) {
      const auto next = narrow<uint32_t>(numbers.size() + 1);
      trail.push_back(numbers.try_emplace({trail.back(), p}, next).first->second);
    }
    sorted.emplace_back(std::move(trail), e);
  }
  std::ranges::stable_sort(sorted, {}, &decltype(sorted)::value_type::first);
  std::vector<TreeRow> rows;
  std::vector<uint32_t> open;
  for (const auto& [trail, e] : sorted) {
    const std::span<const PathPart> path = selection.path(e);
    size_t level = 0;
    while (level < open.size() && level + 1 < path.size() && open[level] == trail[level + 1]) ++level;
    open.resize(level);
    for (; level + 1 < path.size(); ++level) {
      rows.push_back({level, part_text(path[level]), std::nullopt});
      open.push_back(trail[level + 1]);
    }
    rows.push_back({level, part_text(path.back()), e});
  }
  return rows;
}

}  // namespace dcp::cmd
