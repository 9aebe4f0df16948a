#include "key_flags.h"

#include <CLI/CLI.hpp>

#include "sandbox.h"

namespace dcp::cmd {

SelectOptions KeyFlags::select_options(const Context& context) const {
  SelectOptions options = select;
  options.rules = selection.rules();
  for (const std::string& text : renames) options.renames.push_back(parse_rename(text));
  if (!rename_map.empty()) options.rename_map = read_rename_map(context.io, rename_map);
  return options;
}

void add_key_flags(CLI::App& c, KeyFlags& f) {
  const std::string which = "Which keys", names = "Names";
  add_selection(c, f.selection);
  c.add_flag("--model-only", f.select.model_only, "The model without optimizer and other training state, its root stripped")->group(which);
  c.add_flag("--keep-root", f.select.keep_root, "With --model-only: keep the root")->group(which)->needs("--model-only");
  c.add_option("--root", f.select.root, "Take the subtree under PATH (such as app.model) and strip it")->option_text("PATH")->group(which);
  c.add_option("--add-root", f.select.add_root, "Put PATH (such as app.model) above all keys")->option_text("PATH")->group(names);
  c.add_flag("--clean-fqns", f.select.clean_fqns,
             "Strip the wrapper prefixes _orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module and module")
      ->group(names);
  c.add_option("--rename", f.renames, "Rename what REGEX finds in a key to REPL (\\1 is its first group); repeatable, in order")
      ->option_text("REGEX=>REPL")
      ->group(names)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  reads(c.add_option("--rename-map", f.rename_map, "Rename whole keys as the JSON object in FILE says"))->option_text("FILE")->group(names);
  c.add_flag("--tensors-only", f.select.tensors_only, "Leave out Python objects")->group(which);
}

}  // namespace dcp::cmd
