// dcpctl completions: what a shell loads to complete commands, options, their values and paths; and the names that such a script asks for.
#include "completions.h"

#include <algorithm>
#include <unordered_set>

#include "app/memory.h"
#include "app/source.h"
#include "commands.h"
#include "dtype_flags.h"
#include "inputs/run.h"
#include "sandbox.h"
#include "source.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText = R"(Prints a completion script, as it is installed under share.

  mkdir -p ~/.local/share/bash-completion/completions ~/.zsh/completions ~/.config/fish/completions
  dcpctl completions bash > ~/.local/share/bash-completion/completions/dcpctl
  dcpctl completions zsh > ~/.zsh/completions/_dcpctl      # a folder of $fpath
  dcpctl completions fish > ~/.config/fish/completions/dcpctl.fish

The scripts query names: keys of a checkpoint, steps of a run, one per line. Names that a shell would have to quote are left out.

  dcpctl completions keys step-1000 --prefix model.
  dcpctl completions steps run)";

struct Options {
  std::string what, path, step, prefix;
};

// A key may hold anything, and what is printed here becomes a part of somebody's command line.
bool is_plain(std::string_view name) {
  return std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_.-/+").find(c) != std::string_view::npos;
  });
}

// Of more keys than anybody reads, and than a shell lists in time, the next component of each: shells complete what they all begin with.
std::vector<std::string> offered_keys(const std::vector<std::string_view>& keys, size_t prefix) {
  constexpr size_t kMax = 1000;
  std::vector<std::string> offered;
  std::unordered_set<std::string_view> seen;
  for (const std::string_view key : keys) {
    const size_t dot = keys.size() > kMax ? key.find('.', prefix) : key.npos;
    const std::string_view part = key.substr(0, dot == key.npos ? dot : dot + 1);
    if (seen.insert(part).second) offered.emplace_back(part);
  }
  return offered;
}

int print_keys(const Options& o, Context& context) {
  context.common.quiet = true;
  const uint64_t cap = take_memory_cap(default_reading_cap(), context);
  const FrozenCatalog opened = open_source({.path = o.path, .step = o.step}, context, memory_left(cap));
  const Catalog& catalog = opened->catalog;
  std::vector<std::string_view> keys;
  for (const KeyRef ref : catalog.order)
    if (const std::string_view key = catalog.key(ref); key.starts_with(o.prefix) && is_plain(key)) keys.push_back(key);
  std::string text;
  for (const std::string& offered : offered_keys(keys, o.prefix.size())) text.append(offered).append("\n");
  context.print(text);
  return 0;
}

int print_steps(const Options& o, Context& context) {
  std::string text = "latest\n";
  for (const Step& s : find_run(context.store, o.path, "").steps)
    if (!s.unfinished) text += std::to_string(s.number) + "\n";
  context.print(text);
  return 0;
}

int run(const Options& o, Context& context) {
  const bool is_script = o.what != "keys" && o.what != "steps";
  if (is_script != o.path.empty())
    fail(ProblemId::usage, {}, is_script ? "a path with '" + o.what + "'" : "'" + o.what + "' without a path", is_script ? "none" : "CKPT");
  if (o.what == "keys") return print_keys(o, context);
  if (o.what == "steps") return print_steps(o, context);
  const Commands all = build_all(context);
  context.print(o.what == "bash" ? bash_completion(all) : o.what == "zsh" ? zsh_completion(all) : fish_completion(all));
  return 0;
}

}  // namespace

std::string offered_dtypes() { return joined(dtype_names(), " "); }

void add_completions(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  c.details = kText;
  c.argument("WHAT", options->what, "The script of bash, zsh or fish; keys of a checkpoint; steps of a run")
      .one_of({"bash", "zsh", "fish", "keys", "steps"})
      .is_required();
  c.argument("CKPT", options->path, "With keys: a checkpoint, or a run with --step; with steps: a run").is_source().reads();
  c.option("--prefix", options->prefix, "TEXT", "With keys: those that begin with TEXT");
  c.option("--step", options->step, "N|latest", "With keys: CKPT is a run folder, take this step")
      .opens(Access::kSteps)
      .offers(Offer::kSteps);
  add_sandbox(c, context);
  c.run = [options, &context] { return run(*options, context); };
}

}  // namespace dcp::cmd
