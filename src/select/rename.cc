#include "select/rename.h"

#include <algorithm>
#include <regex>
#include <set>

namespace dcp {
namespace {

constexpr std::string_view kWrappers[] = {"_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."};
constexpr std::string_view kDdp = "module.";
constexpr std::string_view kFlatParameter = "_flat_param";

// The standard library's matcher recurses once a character.
constexpr size_t kLongestForRegex = 4096;

struct CompiledRule {
  std::regex regex;
  std::string format;  // in ECMAScript's form
  bool used = false;   // it was found in a name
};

// "\1" is what users of sed write; std::regex wants "$1", and "$$" for a dollar.
std::string format_of(const std::string& replacement) {
  std::string format;
  for (size_t i = 0; i < replacement.size(); ++i) {
    const char c = replacement[i];
    const char next = i + 1 < replacement.size() ? replacement[i + 1] : '\0';
    if (c == '\\' && next >= '1' && next <= '9') format.append("$0").push_back(next), ++i;  // two digits: "$12" would be group 12
    else if (c == '\\' && next == '\\') format.push_back('\\'), ++i;
    else format.append(c == '$' ? "$$" : std::string(1, c));
  }
  return format;
}

void check_groups(const RenameRule& rule, size_t groups) {
  for (size_t i = 0; i + 1 < rule.replacement.size(); ++i) {
    if (rule.replacement[i] != '\\') continue;
    const char next = rule.replacement[++i];
    if (next >= '1' && next <= '9' && static_cast<size_t>(next - '0') > groups)
      fail(ProblemId::usage, {.setting = "rename"}, "'" + rule.regex + "=>" + rule.replacement + "'",
           "a replacement that names groups 1 to " + std::to_string(groups));
  }
}

std::vector<CompiledRule> compiled(const std::vector<RenameRule>& rules) {
  std::vector<CompiledRule> out;
  for (const RenameRule& r : rules) {
    try {
      out.push_back({.regex = std::regex(r.regex), .format = format_of(r.replacement)});
      check_groups(r, out.back().regex.mark_count());
    } catch (const std::regex_error&) {
      fail(ProblemId::usage, {.setting = "rename"}, "'" + r.regex + "'", "a regular expression");
    }
  }
  return out;
}

std::string renamed(std::string name, std::vector<CompiledRule>& rules) {
  if (!rules.empty() && name.size() > kLongestForRegex) {
    throw Error(with_remedy(make_problem(ProblemId::over_limit, {.tensor = name}, "a name of " + std::to_string(name.size()) + " bytes",
                                         "at most " + std::to_string(kLongestForRegex)),
                            Remedy::kForRename));
  }
  for (CompiledRule& r : rules) {
    std::string next = std::regex_replace(name, r.regex, r.format);
    r.used = r.used || next != name || std::regex_search(name, r.regex);
    name = std::move(next);
  }
  return name;
}

// Gives `e` the name: leading components that it keeps, then the rest as one.
void set_name(Selection& s, Entry& e, std::string name) {
  const std::string_view text = s.texts.emplace_back(std::move(name));
  size_t kept = 0, kept_bytes = 0;
  for (; kept + 1 < e.count; ++kept) {
    const std::string step = joined(s.path(e).subspan(kept, 1)) + ".";
    if (!text.substr(kept_bytes).starts_with(step) || text.size() == kept_bytes + step.size()) break;
    kept_bytes += step.size();
  }
  const auto first = static_cast<uint32_t>(s.parts.size());
  for (size_t i = 0; i < kept; ++i) s.parts.push_back(PathPart(s.parts[e.first + i]));
  s.parts.push_back({text.substr(kept_bytes)});
  e.first = first;
  e.count = static_cast<uint32_t>(kept + 1);
  e.key = text;
}

void clean(Selection& s, Entry& e) {
  bool changed = false;
  const auto first = static_cast<uint32_t>(s.parts.size());
  for (uint32_t i = 0; i < e.count; ++i) {
    PathPart part = s.parts[e.first + i];
    if (part.position < 0) {
      std::string cleaned = without_wrappers(part.name);
      if (cleaned != part.name) part.name = s.texts.emplace_back(std::move(cleaned)), changed = true;
    }
    s.parts.push_back(part);
  }
  if (!changed) return s.parts.resize(first);
  e.first = first;
  e.key = s.texts.emplace_back(joined(s.path(e)));
}

bool holds_wrapper(std::span<const PathPart> path) {
  for (const PathPart& p : path)
    if (p.position < 0 && without_wrappers(p.name) != p.name) return true;
  return false;
}

}  // namespace

std::string without_wrappers(std::string_view component) {
  std::string text;
  for (bool at_component = true; !component.empty();) {
    const auto* const wrapper =
        std::ranges::find_if(kWrappers, [&](std::string_view w) { return at_component && component.starts_with(w); });
    if (wrapper != std::end(kWrappers)) {
      component.remove_prefix(wrapper->size());
      continue;
    }
    at_component = component[0] == '.';
    text += component[0];
    component.remove_prefix(1);
  }
  size_t ddp = 0;
  while (text.compare(ddp, kDdp.size(), kDdp) == 0 && text.size() - ddp > kDdp.size()) ddp += kDdp.size();
  return text.substr(ddp);
}

void rename_keys(const Catalog& catalog, const SelectOptions& options, Selection& s) {
  const std::string example(s.entries.empty() ? "" : s.entries.front().key);
  std::vector<CompiledRule> rules = compiled(options.renames);
  std::set<std::string_view> mapped;
  for (Entry& e : s.entries) {
    const std::string_view before = e.key;
    if (options.clean_fqns) clean(s, e);
    std::string name = renamed(std::string(e.key), rules);
    if (const auto it = options.rename_map.find(name); it != options.rename_map.end()) {
      name = it->second;
      mapped.insert(it->first);
    }
    if (name != e.key) set_name(s, e, std::move(name));
    s.renamed += e.key != before;
    if (e.key.find(kFlatParameter) != std::string_view::npos && s.flat_parameters++ == 0) s.flat_example = e.key;
    if (!holds_wrapper(s.path(e))) continue;
    if (s.wrapped++ == 0) s.wrapped_example = e.key;
  }
  for (size_t r = 0; r < rules.size(); ++r) {
    if (rules[r].used) continue;
    const RenameRule& rule = options.renames[r];
    s.unmatched.push_back({"rename", rule.regex + "=>" + rule.replacement});
    if (options.unmatched == Unmatched::kRefuse)
      refuse_unmatched(catalog, s.unmatched.back(), example.empty() ? "" : "names to be renamed are such as '" + example + "'");
  }
  for (const auto& [name, to] : options.rename_map)
    if (!mapped.contains(name)) s.unmapped.push_back(name);
}

}  // namespace dcp
