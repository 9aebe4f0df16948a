#include "request/key_flags.h"

#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "line/command.h"

namespace dcp::cmd {

// The rule that a glob with '=' was to be: 'model.*=net.*' is '^model\\.(.*)$=>net.\\1'.
static std::string rename_meant(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return "^model\\.=>net.";
  std::string regex = "^", replacement;
  size_t stars = 0, groups = 0;
  for (const char c : text.substr(0, equals)) {
    const bool is_special = std::string_view(R"(.\+?[](){}^$|)").find(c) != std::string_view::npos;
    regex += c == '*' ? "(.*)" : is_special ? "\\" + std::string(1, c) : std::string(1, c);
    stars += c == '*';
  }
  for (const char c : text.substr(equals + 1))
    replacement += c == '*' && groups < stars ? "\\" + std::to_string(++groups) : std::string(1, c);
  return regex + (regex.ends_with("(.*)") ? "$" : "") + "=>" + replacement;
}

// 'REGEX=>REPL'
static RenameRule parse_rename(const std::string& text) {
  const size_t arrow = text.find("=>");
  if (arrow == std::string::npos || arrow == 0) {
    Problem p = make_problem(ProblemId::usage, {}, "--rename '" + text + "'", "REGEX=>REPL");
    p.hint = "such as --rename '" + rename_meant(text) + "'";
    throw Error(std::move(p));
  }
  return {text.substr(0, arrow), text.substr(arrow + 2)};
}

std::map<std::string, std::string> read_rename_map(Store& store, const std::string& path) {
  const std::vector<std::byte> bytes = read_file(store, path, Limits{}.json_bytes);
  try {
    return nlohmann::json::parse(as_text(bytes)).get<std::map<std::string, std::string>>();
  } catch (const nlohmann::json::exception&) {
    fail(ProblemId::usage, {.path = path}, "a file that is not a JSON object of strings");
  }
}

SelectOptions KeyFlags::select_options(const Context& context) const {
  SelectOptions options = select;
  options.rules = rules;
  for (const std::string& text : renames) options.renames.push_back(parse_rename(text));
  if (!rename_map.empty()) options.rename_map = read_rename_map(context.store, rename_map);
  return options;
}

SelectOptions KeyFlags::select_to_write(const Context& context) const {
  SelectOptions options = select_options(context);
  options.unmatched = allow_unmatched ? Unmatched::kTell : Unmatched::kRefuse;
  return options;
}

static void add_rules(Command& c, std::vector<KeyRule>& rules) {
  const auto add = [&](const char* name, KeyRule::Kind kind, const char* value, const char* help) {
    Option& o = c.option(name, [&rules, kind](const std::string& text) { return rules.push_back({kind, text}), true; }, value, help);
    o.repeatable = true;
    o.offers(Offer::kKeys).or_empty().in("Which keys");
  };
  add("--include", KeyRule::Kind::kInclude, "GLOB",
      "Keep keys that match GLOB (* crosses dots), or all below a dict of that name; repeatable, last match wins");
  add("--exclude", KeyRule::Kind::kExclude, "GLOB",
      "Leave out keys that match GLOB, or all below a dict of that name; repeatable, last match wins");
  add("--key", KeyRule::Kind::kKey, "KEY", "Keep this exact key; repeatable");
}

void add_key_flags(Command& c, KeyFlags& f) {
  const std::string which = "Which keys", names = "Names";
  add_rules(c, f.rules);
  c.flag("--model-only", f.select.model_only, "The model without optimizer and other training state, its root stripped").in(which);
  c.flag("--keep-root", f.select.keep_root, "With --model-only: keep the root").needs("--model-only").in(which);
  c.option("--root", f.select.root, "PATH", "Take the subtree under PATH (such as app.model) and strip it").in(which);
  c.option("--add-root", f.select.add_root, "PATH", "Put PATH (such as app.model) above all keys").in(names);
  c.flag("--clean-fqns", f.select.clean_fqns,
         "Strip the wrapper prefixes _orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module and module")
      .in(names);
  c.option("--rename", f.renames, "REGEX=>REPL", "Rename what REGEX finds in a key to REPL (\\1 is its first group); repeatable, in order")
      .in(names);
  c.option("--rename-map", f.rename_map, "FILE", "Rename whole keys as the JSON object in FILE says").reads().in(names);
  c.flag("--tensors-only", f.select.tensors_only, "Leave out Python objects").in(which);
}

void add_allow_unmatched(Command& c, KeyFlags& f) {
  c.flag("--allow-unmatched", f.allow_unmatched, "An --include, --exclude, --key or --rename that matches nothing is a warning, no error")
      .in("Which keys");
}

void add_strict(Command& c, KeyFlags& f) { c.flag("--strict", f.strict, "Accepted for older scripts; does nothing").in("Which keys"); }

}  // namespace dcp::cmd
