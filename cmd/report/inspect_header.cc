// What a person wants to know of a checkpoint first, in at most six lines.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/file_names.h"
#include "base/text.h"
#include "catalog/placements.h"
#include "line/option_values.h"
#include "report/inspect_text.h"
#include "request/dtype_flags.h"

namespace dcp::cmd {
namespace {

// What a key holds, where it is a number, or a list of them.
struct Number {
  std::string text;
  bool is_optimizers = false, is_object = false;
};

// Of keys whose last component is one of `names`.
std::vector<Number> numbers_named(const InspectResult& found, const std::vector<std::string_view>& names) {
  std::vector<Number> numbers;
  for (const Entry& e : found.selection.entries) {
    const std::string* value = found.value_of(e.ref);
    if (value == nullptr || found.selection.state.is_model(e.ref)) continue;
    if (std::ranges::find(names, e.key.substr(e.key.rfind('.') + 1)) == names.end()) continue;
    const bool is_list = value->starts_with('[') && value->ends_with(']');
    for (const std::string_view text : split(is_list ? std::string_view(*value).substr(1, value->size() - 2) : *value, ',', " "))
      if (decimal<double>(text)) numbers.push_back({std::string(text), found.selection.state.is_optimizers(e.ref), e.is_blob()});
  }
  return numbers;
}

// As the trainer counts, else as the folder is named. "": nobody says.
std::string step_of(const InspectResult& found) {
  std::vector<Number> steps = numbers_named(found, {"step", "global_step", "iteration", "train_step"});
  std::erase_if(steps, [](const Number& n) { return n.is_optimizers; });  // Adam's may be another
  if (!steps.empty()) return steps.front().text;
  const std::string name = split_path(found.catalog().folder).name;
  const size_t last = name.find_last_of("0123456789");
  if (last == name.npos || found.catalog().single_file) return "";
  const size_t begin = name.find_last_not_of("0123456789", last);
  return begin == name.npos || name.find("step") == name.npos ? "" : name.substr(begin + 1, last - begin);
}

// Of all groups of parameters. "": it is not kept.
std::string learning_rate_of(const InspectResult& found) {
  std::vector<Number> rates = numbers_named(found, {"lr", "learning_rate"});
  if (std::ranges::any_of(rates, &Number::is_optimizers)) std::erase_if(rates, [](const Number& n) { return !n.is_optimizers; });
  if (rates.empty()) rates = numbers_named(found, {"_last_lr"});  // of a scheduler
  if (rates.empty()) return "";
  const auto value = [](const Number& n) { return std::strtod(n.text.c_str(), nullptr); };
  const auto [least, most] = std::ranges::minmax_element(rates, {}, value);
  return ", lr " + least->text + (value(*least) < value(*most) ? " to " + most->text : "");
}

std::string state_of(const InspectResult& found) {
  uint64_t missing = 0, unreadable = 0, damage = 0;
  for (const Problem& f : found.findings) {
    if (f.severity < Severity::kDamage) continue;
    ++(f.id == ProblemId::file_missing ? missing : f.severity == Severity::kError ? unreadable : damage);
  }
  const bool is_metadata = found.catalog().is_metadata_given();
  std::string text;
  const auto add = [&](const std::string& what) { text += ", " + what; };
  if (damage > 0 || (missing > 0 && !is_metadata)) add("damaged");
  if (missing > 0) add(counted(missing, "file") + (is_metadata ? " not here" : " missing"));
  if (unreadable > 0) add("not fully readable");
  if (text.empty() && found.left_out_findings > 0) return ", nothing missing of these keys";
  return text.empty() && !found.catalog().single_file ? ", nothing missing" : text;
}

// "2.15" as 215.
unsigned release_number(const std::string& text) {
  const size_t dot = text.find('.');
  return static_cast<unsigned>(std::strtoul(text.c_str(), nullptr, 10) * 100 +
                               (dot == text.npos ? 0 : std::strtoul(text.c_str() + dot + 1, nullptr, 10)));
}

// Which torch loads it, and what makes it loadable by an older one: metadata that says the same in an older form.
std::string loads_text(const InspectResult& found) {
  const Catalog& catalog = found.catalog();
  const Provenance& p = catalog.provenance;
  if (p.loads_in.empty()) return "";
  const bool is_damaged =
      std::ranges::any_of(found.findings, [](const Problem& f) { return f.severity >= Severity::kDamage; });  // parts do not load
  std::string text = is_damaged ? "  its metadata loads in " : "  loads in ";
  if (p.loads_in == "none") return text + "no torch: " + (p.why.empty() ? "" : escaped(p.why.front())) + "\n";
  const bool is_of_one = !p.loads_in.starts_with(">=");  // 1.13, before all that count
  text += "torch " + (is_of_one ? p.loads_in : p.loads_in.substr(2) + " or later");
  std::vector<std::string> packages = p.packages;
  for (const auto& [tensor, cls] : found.subclasses) {  // new metadata does not help: the items themselves hold these classes
    const std::string package = cls.substr(0, cls.find('.'));
    if (package != "torch" && std::ranges::find(packages, package) == packages.end()) packages.push_back(package);
  }
  for (const std::string& package : packages) text += (&package == &packages.front() ? " with " : ", ") + escaped(package);
  constexpr unsigned kOldest = 204;  // what is written where no release is named
  const bool is_dtype_newer =
      std::ranges::any_of(catalog.tensors, [](const Tensor& t) { return !t.dtype_known || facts_of(t.dtype).since_torch > kOldest; });
  const bool is_transformed = std::ranges::any_of(catalog.items, [](const Item& i) { return i.transforms != 0; });
  const bool new_metadata_helps = !is_damaged && !is_dtype_newer && !is_transformed && found.subclasses.empty();
  if (new_metadata_helps && (is_of_one || release_number(p.loads_in.substr(2)) > kOldest)) {
    text += "; 'dcpctl edit " + shell_word(catalog.path) + " OUT' makes it load in 2.4 or later";
  }
  return text + "\n";
}

struct Sum {
  uint64_t keys = 0, tensors = 0, elements = 0, bytes = 0;
  std::map<std::string, uint64_t> dtypes;   // bytes of each
  std::map<std::string, uint64_t> classes;  // of tensors that are a subclass, how many

  void add(const InspectResult& found, const Entry& e) {
    const Catalog& catalog = found.catalog();
    ++keys;
    if (e.is_blob()) return;
    const Tensor& t = catalog.tensors[e.tensor()];
    ++tensors;
    elements += catalog.elements(t);
    bytes += catalog.tensor_bytes(t);
    dtypes[std::string(catalog.strings[t.dtype_name])] += catalog.tensor_bytes(t);
    if (const std::string* cls = found.subclass_of(e.tensor())) ++classes[*cls];
  }
};

// "16.1 GiB bfloat16", "2.1 KiB: float32 1.3 KiB, float64 480 B and 3 more".
std::string bytes_text(const Sum& sum) {
  if (sum.dtypes.size() == 1) return human_bytes(sum.bytes) + " " + sum.dtypes.begin()->first;
  std::vector<std::pair<std::string, uint64_t>> order(sum.dtypes.begin(), sum.dtypes.end());
  std::ranges::stable_sort(order, std::greater<>(), [](const auto& of) { return of.second; });
  std::vector<std::string> parts;
  for (const auto& [dtype, bytes] : order) parts.push_back(dtype + " " + human_bytes(bytes));
  return human_bytes(sum.bytes) + (parts.empty() ? "" : ": " + list_of(parts, 3));
}

// " (2 of torchao.float8.fsdp_utils.WeightWithDynamicFloat8CastTensor)".
std::string classes_text(const Sum& sum) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : sum.classes) parts.push_back(grouped(count) + " of " + name);
  return parts.empty() ? "" : " (" + list_of(parts, 3) + ")";
}

std::vector<std::string> words_of(const std::map<std::string, uint64_t>& dtypes) {
  std::vector<std::string> names;
  for (const auto& [dtype, bytes] : dtypes) names.push_back(dtype);
  return names;
}

struct Sums {
  Sum model, optimizer, rest;
  std::set<std::string> others;  // what else a trainer keeps
};

Sums sums_of(const InspectResult& found) {
  const TrainingState& state = found.selection.state;
  Sums s;
  for (const Entry& e : found.selection.entries) {
    const bool is_rest = !state.is_model(e.ref) && !state.is_optimizers(e.ref);
    (state.is_model(e.ref) ? s.model : is_rest ? s.rest : s.optimizer).add(found, e);
    if (is_rest) s.others.insert(state.group_of(e.ref).path);
  }
  return s;
}

std::string models_text(const InspectResult& found, const Sum& model) {
  const TrainingState& state = found.selection.state;
  if (model.keys == 0) return "  no model\n";
  std::vector<std::string> roots;
  for (const KeyGroup& m : state.models) roots.push_back(m.path.empty() ? "(top level)" : m.path);
  const std::string name = roots.size() > 1 ? counted(roots.size(), "model") + " (" + list_of(roots, 4) + ")" : "model";
  return "  " + name + ": " + counted(model.tensors, "tensor") + ", " + counted(model.elements, "parameter") + ", " + bytes_text(model) +
         classes_text(model) + (found.names_of.empty() ? "" : "; names of " + found.names_of) + "\n";
}

}  // namespace

std::vector<std::string> header_lines(const InspectResult& found) {
  const Catalog& catalog = found.catalog();
  const TrainingState& state = found.selection.state;
  const auto [model, optimizer, rest, others] = sums_of(found);
  const std::string step = step_of(found);
  std::string first = escaped(catalog.path) + ": " + std::string(catalog.traits().words);
  if (!step.empty()) first += " of step " + step;
  if (const uint32_t ranks = world_size_shown(catalog)) first += " by " + counted(ranks, "rank");
  std::vector<std::string> lines{first + state_of(found) + "\n"};
  const auto add = [&](std::string line) {
    if (!line.empty()) lines.push_back(std::move(line));
  };
  const bool is_part = found.selection.entries.size() < catalog.order.size();  // what else there is was not asked for
  if (model.keys > 0 || !is_part) add(models_text(found, model));
  const std::string rate = learning_rate_of(found);
  if (optimizer.tensors > 0)
    add("  optimizer: " + counted(optimizer.tensors, "tensor") + ", " + human_bytes(optimizer.bytes) + classes_text(optimizer) + rate +
        "\n");
  else if (optimizer.keys > 0) add("  optimizer: " + counted(optimizer.keys, "object") + rate + "\n");
  else if (std::ranges::none_of(catalog.order, [&](KeyRef key) { return state.is_optimizers(key); })) add("  no optimizer" + rate + "\n");
  if (!others.empty() && !is_part) add("  also " + list_of({others.begin(), others.end()}) + "\n");
  if (!catalog.traits().has_metadata && !catalog.provenance.written_by.empty()) add("  " + escaped(catalog.provenance.written_by) + "\n");
  else add(loads_text(found));
  if (found.selection.casts.requested) add("  with these dtypes: " + cast_text(found.selection.casts) + "\n");
  return lines;
}

std::vector<Card> inspect_cards(const InspectResult& found) {
  const Catalog& catalog = found.catalog();
  const auto [model, optimizer, rest, others] = sums_of(found);
  const Provenance& p = catalog.provenance;
  std::vector<Card> cards{{.label = "kind", .value = std::string(catalog.traits().words)}};
  const auto add = [&](Card card) {
    if (!card.value.empty()) cards.push_back(std::move(card));
  };
  add({.label = "step", .value = step_of(found)});
  const auto keys = [&](const char* label, const Sum& sum, const std::string& note, std::string_view tone) {
    if (sum.keys > 0)
      add({.label = label, .value = sum.tensors > 0 ? human_bytes(sum.bytes) : counted(sum.keys, "object"), .note = note, .tone = tone});
  };
  const auto of = [](const Sum& sum) { return sum.tensors > 0 ? counted(sum.tensors, "tensor") : counted(sum.keys, "object"); };
  keys("model", model,
       of(model) + ", " + counted(model.elements, "parameter") + (model.dtypes.empty() ? "" : ", " + list_of(words_of(model.dtypes), 3)) +
           (found.names_of.empty() ? "" : "; names of " + found.names_of),
       "g0");
  keys("optimizer", optimizer, of(optimizer) + learning_rate_of(found), "g1");
  keys("other training state", rest, (rest.tensors > 0 ? of(rest) + ": " : "") + list_of({others.begin(), others.end()}, 3), "g2");
  if (const uint32_t ranks = world_size_shown(catalog); ranks > 0)
    add({.label = "ranks", .value = grouped(ranks), .note = catalog.provenance.ranks > 0 ? "" : "judging by the chunks"});
  uint64_t bytes = 0;
  for (const DataFile& f : catalog.files) bytes += f.bytes.value_or(0);
  add({.label = "files", .value = grouped(catalog.files.size()), .note = human_bytes(bytes)});
  if (!p.loads_in.empty())
    add({.label = "loads in",
         .value = p.loads_in == "none" ? "no torch" : "torch " + p.loads_in,
         .note = p.by_dcpctl            ? "written by dcpctl"
                 : p.written_by.empty() ? ""
                                        : "written by torch " + p.written_by,
         .tone = p.loads_in == "none" ? "bad" : ""});
  const auto faults = [&](Severity least) {
    return static_cast<uint64_t>(std::ranges::count_if(found.findings, [&](const Problem& f) { return f.severity >= least; }));
  };
  const uint64_t damage = faults(Severity::kDamage), warnings = faults(Severity::kWarning);
  if (warnings == 0) add({.label = "findings", .value = "none", .tone = "good"});
  else
    add({.label = "findings",
         .value = damage > 0 ? counted(damage, "fault") : counted(warnings, "warning"),
         .note = "listed below",
         .tone = damage > 0 ? "bad" : "warn"});
  return cards;
}

}  // namespace dcp::cmd
