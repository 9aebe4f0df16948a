#include "line/usage.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <functional>
#include <utility>

#include "base/file_names.h"
#include "base/text.h"
#include "line/context.h"
#include "line/help_text.h"
#include "line/option_values.h"

namespace dcp::cmd {
namespace {

// What other tools, and people, call these; what is no name of ours is a hint as it stands. In a hint CKPT and RUN are the path that was typed,
// OUT and WORD what was typed beside it.
struct OtherName {
  std::string_view other, ours, hint = "";
};

constexpr std::string_view kToHub = "'dcpctl consolidate CKPT OUT --assets BASE', where BASE has the model's config.json and tokenizer";
constexpr std::string_view kFromHub = "'dcpctl convert CKPT OUT', with --map for a trainer's names (see 'dcpctl maps')";
constexpr std::string_view kGrep = "dcpctl inspect CKPT '*WORD*'";
constexpr std::string_view kUpload =
    "no command uploads: 'hf upload ORG/NAME FOLDER' does, of the FOLDER that 'dcpctl consolidate CKPT FOLDER --assets BASE' writes";
constexpr OtherName kOtherNames[] = {
    {"merge", "consolidate", "'dcpctl consolidate CKPT OUT', which joins the shards of a checkpoint (it merges no models)"},
    {"convert_to_hf", "consolidate", kToHub},
    {"export_to_hf", "consolidate", kToHub},
    {"export_hf", "consolidate", kToHub},
    {"to_hf", "consolidate", kToHub},
    {"zero_to_fp32", "consolidate", "'dcpctl consolidate CKPT OUT' for DCP; what DeepSpeed writes is joined by its own zero_to_fp32.py"},
    {"upload", "consolidate", kUpload},
    {"push", "consolidate", kUpload},
    {"download", "convert", "no command only downloads, all take hf://ORG/NAME and s3://BUCKET/KEY: 'dcpctl convert hf://ORG/NAME OUT'"},
    {"stats", "inspect", "dcpctl inspect CKPT --stats"},
    {"import", "convert", kFromHub},
    {"convert_from_hf", "convert", kFromHub},
    {"convert_hf_to_dcp", "convert", kFromHub},
    {"hf_to_dcp", "convert", kFromHub},
    {"average", "consolidate", "consolidate of each (no command averages models)"},
    {"tree", "inspect --tree"},
    {"du", "list", "'dcpctl list RUN' for the bytes of steps, or 'dcpctl inspect STEP --depth 2' for those of its parts"},
    {"copy", "verify", "'cp -r', and 'dcpctl verify' of the copy"},
    {"recover", "verify", "verify, which says what of a damaged checkpoint is whole"},
    {"rescue", "verify", "verify, which says what of a damaged checkpoint is whole"},
    {"repair", "verify", "verify, which says what of a damaged checkpoint is whole"},
    {"fix", "verify", "verify, which says what of a damaged checkpoint is whole"},
    {"cp", "verify", "'cp -r', and 'dcpctl verify' of the copy"},
    {"search", "inspect", kGrep},
    {"find", "inspect", "dcpctl inspect CKPT '*WORD*' for keys, 'dcpctl list FOLDER' for runs and steps"},
    {"grep", "inspect", kGrep},
    {"head", "inspect", "inspect CKPT --summary"},
    {"keys", "inspect", "inspect CKPT --keys"},
    {"report", "inspect", "inspect CKPT --html FILE"},
    {"size", "inspect", "inspect CKPT for the bytes of model and optimizer, --depth 2 for those of its parts"},
    {"watch", "list", "'dcpctl list RUN --latest --after latest --wait 3600', which waits for the next step"},
    {"hash", "verify", "verify --manifest FILE"},
    {"checksum", "verify", "verify --manifest FILE"},
    {"fsck", "verify"},
    {"shard", "reshard"},
    {"split", "reshard"},
    {"quantize", "cast"},
    {"benchmark", "bench"},
    {"cmp", "diff"},
    {"steps", "list"},
    {"snapshots", "list"},
    {"rm", "prune"},
    {"delete", "prune"},
    {"forget", "prune"},
    {"clean", "prune"},
    {"rename", "edit"}};

// In a hint {} is the value that was given, as a regular expression.
constexpr std::string_view kKeepDtype = "--dtype-rule 'GLOB=keep' leaves the tensors that match GLOB as they are";
constexpr std::string_view kStripPrefix =
    "--clean-fqns takes off the prefixes of wrappers, such as _orig_mod; --rename '^{}=>' another, where keys begin with it";
constexpr std::string_view kValues = "'dcpctl extract CKPT KEY' prints values";
constexpr std::string_view kWithoutOptimizer = "--model-only leaves out all training state, --exclude 'optimizer*' the optimizer alone";
constexpr std::string_view kWhichRank = "--chunks shows in which rank's file each part lies, --ranks what each rank holds";
constexpr std::string_view kCompat = "'dcpctl inspect CKPT' says which torch versions load it";
constexpr std::string_view kAnswersByExit = "the exit code is 1 where they differ; --silent prints nothing else";
constexpr std::string_view kPastDamage = "'dcpctl verify CKPT' says what of it is whole, and what writes that";
constexpr std::string_view kOfAllSteps = "'dcpctl verify RUN --fail-on nan' reads the data of all steps of a run";
constexpr std::string_view kNan = "'dcpctl verify CKPT --fail-on nan' reads the values, names the tensors with NaN or inf, and exits 1";
constexpr std::string_view kForm =
    "the ending of the output says its form: .safetensors, .pt, .npz; 'dcpctl consolidate CKPT OUT --assets BASE' writes a folder for "
    "transformers and vLLM, with BASE's config.json and tokenizer";
constexpr std::string_view kMeshes =
    "--mesh 8x2 --mesh-dims dp,tp --placements 'GLOB=shard(0),shard(1)' lays out for 8 x 2 ranks, tp splitting what GLOB matches on dim 1";
constexpr std::string_view kRates = "dcpctl inspect RUN/* '*lr' --format csv --fields path,key,value";
constexpr std::string_view kWatch = "--wait SECONDS waits for the next step; 'watch dcpctl list RUN' shows the list anew";
constexpr std::string_view kAddPrefix = "--rename '^=>PREFIX' puts PREFIX before every key";
constexpr std::string_view kNoValues =
    "no command changes values: load the checkpoint in the trainer, change it there, and save it; --exclude leaves keys out";
constexpr std::string_view kOneStep = "'rm -r' of its folder deletes one step; prune keeps by rules";
constexpr std::string_view kKeepsStep =
    "a link in RUN that leads to a step, or a file whose only line is its name, keeps it: 'echo step-10 >RUN/best'";
constexpr std::string_view kTimes = "--long shows when each step was written; --format csv --fields modified,path is for scripts";
constexpr std::string_view kZeros = "--stats counts zeros, NaN and inf, and shows the least and the largest value";
constexpr std::string_view kWriter = "--verbose says by which torch it was written, and for which it can be rewritten";
constexpr std::string_view kNoRepair = "nothing repairs bytes; verify says what of a checkpoint is whole";
constexpr std::string_view kRows = "'dcpctl list RUN --format jsonl --fields step,path,state,content' has a row for each step";
constexpr std::string_view kManifest = "--manifest FILE writes digests, --against FILE compares with them";
constexpr std::string_view kStructure = "--keys-only compares keys, dtypes, shapes and objects, and reads no tensor";
constexpr std::string_view kBySize = "--format csv --fields max_abs,key | sort -gr shows the largest first";
constexpr std::string_view kCast = "'dcpctl cast CKPT OUT --dtype bf16' changes the dtype";
constexpr std::string_view kLoads = "'dcpctl inspect CKPT' says what loading it calls; verify --fail-on unsafe makes that the exit code";
constexpr std::string_view kReadsData = "list reads no data: 'dcpctl verify RUN --all-data' does";
constexpr OtherName kOtherOptions[] = {{"--keep", "--keep-latest"},
                                       {"--keep-last", "--keep-latest"},
                                       {"--keep-newest", "--keep-latest"},
                                       {"--keep-step", "--keep-latest", kKeepsStep},
                                       {"--keep-steps", "--keep-latest", kKeepsStep},
                                       {"--protect", "--keep-latest", kKeepsStep},
                                       {"--since", "--long", kTimes},
                                       {"--newer-than", "--long", kTimes},
                                       {"--zeros", "--stats", kZeros},
                                       {"--delete", "--keep-latest", kOneStep},
                                       {"--remove", "--keep-latest", kOneStep},
                                       {"--drop", "--exclude"},
                                       {"--remove", "--exclude"},
                                       {"--delete", "--exclude"},
                                       {"--values", "--key", kValues},
                                       {"--print", "--key", kValues},
                                       {"--sha256", "--manifest", kManifest},
                                       {"--hash", "--manifest", kManifest},
                                       {"--checksum", "--manifest", kManifest},
                                       {"--checksums", "--manifest", kManifest},
                                       {"--norm", "--stats"},
                                       {"--ranks", "--world-size"},
                                       {"--nproc", "--world-size"},
                                       {"--num-ranks", "--world-size"},
                                       {"--gpus", "--world-size"},
                                       {"--newest", "--latest"},
                                       {"--grep", "--include"},
                                       {"--filter", "--include"},
                                       {"--match", "--include"},
                                       {"--only", "--include"},
                                       {"--skip", "--exclude"},
                                       {"--ignore", "--exclude"},
                                       {"--layout", "--chunks"},
                                       {"--placement", "--chunks"},
                                       {"--memory", "--max-memory"},
                                       {"--mem", "--max-memory"},
                                       {"--jobs", "--threads"},
                                       {"--workers", "--threads"},
                                       {"--tolerance", "--atol"},
                                       {"--torch-version", "-v", kWriter},
                                       {"--torch-version", "--for-torch"},
                                       {"--target-torch", "--for-torch"},
                                       {"--split-size", "--max-shard-size"},
                                       {"--shard-size", "--max-shard-size"},
                                       {"--params", "--model-only"},
                                       {"--weights-only", "--model-only"},
                                       {"--keep-fp32", "--dtype-rule", kKeepDtype},
                                       {"--skip-cast", "--dtype-rule", kKeepDtype},
                                       {"--keep-dtype", "--dtype-rule", kKeepDtype},
                                       {"--strip-prefix", "--rename", kStripPrefix},
                                       {"--remove-prefix", "--rename", kStripPrefix},
                                       {"--add-prefix", "--rename", kAddPrefix},
                                       {"--prefix", "--rename", kAddPrefix},
                                       {"--set", "--exclude", kNoValues},
                                       {"--step", "--keep-latest", kOneStep},
                                       {"--fix", "--all-data", kNoRepair},
                                       {"--repair", "--all-data", kNoRepair},
                                       {"--list", "--keys"},
                                       {"--all", "--keys"},
                                       {"--format", "--assets", kForm},
                                       {"--to", "--assets", kForm},
                                       {"--to hf", "--to", kForm},
                                       {"--hf", "--assets", kForm},
                                       {"--vllm", "--assets", kForm},
                                       {"--safetensors", "--assets", kForm},
                                       {"--tp", "--mesh", kMeshes},
                                       {"--dp", "--mesh", kMeshes},
                                       {"--fail-on nan", "--fail-on", kNan},
                                       {"--drop-optimizer", "--model-only", kWithoutOptimizer},
                                       {"--no-optimizer", "--model-only", kWithoutOptimizer},
                                       {"--without-optimizer", "--model-only", kWithoutOptimizer},
                                       {"--broken", "--partial"},
                                       {"--damaged", "--partial"},
                                       {"--incomplete", "--partial"},
                                       {"--names", "--keys"},
                                       {"--shapes", "--keys"},
                                       {"--names-only", "--keys-only"},
                                       {"--by-layer", "--depth", "--depth 3 shows what is three names deep, such as layers"},
                                       {"--rank", "--chunks", kWhichRank},
                                       {"--lr", "--long", kRates},
                                       {"--lr", "--key", "'dcpctl inspect CKPT' shows the learning rate and the step"},
                                       {"--lora", "--include", "--model-only --include '*lora*'"},
                                       {"--expect", "--against", "'dcpctl diff CKPT REF' compares with another checkpoint"},
                                       {"--compat", "--fail-on", kCompat},
                                       {"--nan", "--fail-on", kNan},
                                       {"--check-nan", "--fail-on", kNan},
                                       {"--exit-code", "--silent", kAnswersByExit},
                                       {"--ignore-errors", "--exclude", kPastDamage},
                                       {"--skip-damaged", "--exclude", kPastDamage},
                                       {"--skip-errors", "--exclude", kPastDamage},
                                       {"--allow-damaged", "--exclude", kPastDamage},
                                       {"--max-depth", "--depth"},
                                       {"--classes", "--fail-on", kLoads},
                                       {"--count", "--latest", kRows},
                                       {"--max-step", "--latest", kRows},
                                       {"--before", "--latest", kRows},
                                       {"--with-optimizer", "--latest-full"},
                                       {"--structure", "--keys-only", kStructure},
                                       {"--structure-only", "--keys-only", kStructure},
                                       {"--objects-only", "--keys-only", kStructure},
                                       {"--quick", "--keys-only", kStructure},
                                       {"--top", "--summary", kBySize},
                                       {"--sort", "--summary", kBySize},
                                       {"--dtype", "--in-place", kCast},
                                       {"--unfinished", "--partial"},
                                       {"--stat", "--summary"},
                                       {"-n", "--dry-run"},
                                       {"-f", "--force"},
                                       {"-w", "--wait", kWatch},
                                       {"--watch", "--wait", kWatch},
                                       {"--check", "--latest-full", kReadsData},
                                       {"--verify", "--latest-full", kReadsData},
                                       {"--all-steps", "--step", kOfAllSteps}};

constexpr int kManyArguments = 1 << 28;

bool exists(Store& store, const std::string& path) try {
  return store.facts(path).has_value();
} catch (const Error&) {  // in a store that cannot be reached from here
  return false;
}

// With what was typed in the place of the words in capitals.
std::string with_words(std::string hint, const std::vector<std::string>& words, Store& store) {
  std::string path, other;
  for (const std::string& w : words) {
    std::string& of = !scheme_of(w).empty() || exists(store, w) ? path : other;
    if (of.empty() && !w.starts_with('-')) of = shell_word(w);
  }
  const std::pair<std::string_view, std::string> places[] = {
      {"CKPT", path}, {"RUN", path}, {"OUT", path.empty() ? "" : other}, {"WORD", other}};
  for (size_t at = 0; at < hint.size();) {  // once: a path may have such a word in it
    const auto is_here = [&](const auto& place) {
      return !place.second.empty() && std::string_view(hint).substr(at).starts_with(place.first);
    };
    const auto place = std::ranges::find_if(places, is_here);
    if (place != std::end(places)) hint.replace(at, place->first.size(), place->second);
    at += place == std::end(places) ? 1 : place->second.size();
  }
  return hint;
}

// With `value` in the place of {}, as a regular expression.
std::string filled(std::string_view hint, const std::string& value) {
  std::string regex;
  for (const char c : value)
    regex += (std::string_view(R"(.\+*?[](){}^$|)").find(c) == std::string_view::npos ? "" : "\\") + std::string(1, c);
  const size_t at = hint.find("{}");
  return at == hint.npos ? std::string(hint) : std::string(hint.substr(0, at)) + regex + std::string(hint.substr(at + 2));
}

bool is_group(const Command& command) { return !commands_under(command).empty(); }

// At most two edits, and less than one in three letters: --force is no typo of --torch.
bool is_typo_of(std::string_view word, std::string_view name) {
  const size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  const size_t edits = edit_distance(word, name);
  return edits <= 2 && 3 * edits < std::max(word.size(), name.size()) - dashes;
}

// The name that `word` is a typo or the beginning of; empty if none is near.
std::string closest(const std::string& word, const std::vector<std::string>& names) {
  Closest near(word);
  for (const std::string& n : names) near.offer(n);
  std::string best = near.found();
  if (!best.empty() && !is_typo_of(word, best)) best.clear();
  if (best.empty() && word.size() > 1 && word != "--")
    for (const std::string& n : names)
      if (n.starts_with(word) && (best.empty() || n.size() < best.size())) best = n;
  return best;
}

Problem wrong(const Command& command, std::string what, const std::string& meant = "") {
  Problem p = make_problem(ProblemId::usage, {});
  p.what = std::move(what);
  p.hint = meant.empty() ? "see '" + joined(command.path, " ") + " --help'" : "did you mean " + meant + "?";
  return p;
}

Problem unknown_command(const Command& parent, const std::string& typed, const std::vector<std::string>& behind, Store& store) {
  std::vector<std::string> names;
  for (const CommandName* c : commands_under(parent)) names.push_back(c->name());
  if (names.empty()) return wrong(parent, "'" + joined(parent.path, " ") + "' has no subcommands, such as '" + typed + "'");
  std::string word = typed.substr(0, typed.rfind(".py")), meant = closest(word, names);
  std::ranges::replace(word, '-', '_');
  for (const auto& [other, ours, hint] : kOtherNames)
    if (other == word && std::ranges::find(names, ours.substr(0, ours.find(' '))) != names.end())
      meant = hint.empty() ? ours : with_words(std::string(hint), behind, store);
  Problem p = wrong(parent, "'" + typed + "' is not a command of " + joined(parent.path, " "), meant);
  if (meant.starts_with("no command ")) p.hint = meant;
  return p;
}

// The words behind a command's name, as CLI11 reads them with what the command declares. `take` gets each option as it comes, then each
// argument. Returns what is neither; for a group of commands that ends with the next one and all its words. Throws CLI::ArgumentMismatch
// where the last word is an option that lacks its value.
std::vector<std::string> read_words(Command& command, std::vector<std::string> words,
                                    const std::function<void(Option& option, const std::string& text)>& take) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.prefix_command(is_group(command));
  const auto taking = [&](Option& o) {
    return [&](const CLI::results_t& texts) {
      for (const std::string& text : texts) take(o, text);
      return true;
    };
  };
  for (Option& o : command.options) {
    CLI::Option* known = app.add_option(joined(o.all_names(), ","), taking(o))->trigger_on_parse();
    if (o.value.empty()) known->type_size(0)->expected(0);
  }
  for (Option& a : command.arguments)
    app.add_option(a.value, taking(a))->expected(1, a.repeatable ? kManyArguments : 1)->allow_extra_args(a.repeatable);
  std::ranges::reverse(words);
  app.parse(std::move(words));
  return app.remaining();
}

// What is typed of other programs: the h of -lh prints sizes for people, as is done anyway; the newest step is one of --step.
std::string as_meant(Command& command, const std::string& word) {
  if (word == "--latest" && command.find(word) == nullptr && command.find("--step") != nullptr) return "--step=latest";
  const auto is_flag = [&](char c) {
    const Option* const o = command.find(std::string{'-', c});
    return o != nullptr && o->value.empty();
  };
  if (word.size() < 3 || !std::ranges::all_of(word.substr(1), is_flag)) return word;
  std::string rest = word;
  std::erase(rest, 'h');
  return rest;
}

// An option whose value may be left out gets the one that it stands for, where another option follows, nothing, or the checkpoint.
std::vector<std::string> with_values_left_out(Command& command, const std::vector<std::string>& words, Store& store) {
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word.front() == '-'; };
  std::vector<std::string> all;
  bool has_argument = false;
  for (auto w = words.begin(); w != words.end(); ++w) {
    if (*w == "--") return all.insert(all.end(), w, words.end()), all;
    has_argument |= !is_option(*w);
    all.push_back(is_option(*w) ? as_meant(command, *w) : *w);
    const Option* const o = is_option(*w) ? command.find(*w) : nullptr;
    if (o == nullptr || o->value.empty()) continue;
    const auto next = w + 1;
    const bool is_last = next == words.end();
    const bool is_word = !is_last && std::ranges::find(o->choices, *next) != o->choices.end();
    if (!o->alone.empty() && (is_last || is_option(*next) || (!is_word && !has_argument && exists(store, *next))))
      all.back() += "=" + o->alone;
    else if (!is_last) all.push_back(*++w);
  }
  return all;
}

// "--out=" is an option with an empty value; to CLI11 its value would be the next word.
std::vector<std::string> with_empty_values(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (auto w = words.begin(); w != words.end(); ++w) {
    if (*w == "--") return all.insert(all.end(), w, words.end()), all;
    const bool is_empty = w->starts_with("--") && w->find('=') == w->size() - 1;
    all.push_back(w->substr(0, w->size() - (is_empty ? 1 : 0)));
    if (is_empty) all.emplace_back();
  }
  return all;
}

class Reader {
 public:
  explicit Reader(Context& context) : context_(context) { line_.command = build_command("", context); }

  CommandLine read(const std::vector<std::string>& all) {
    typed_ = all;
    std::vector<std::string> words = read_command(with_empty_values(all));
    while (line_.requested == Action::kRun && is_group(command())) {
      auto next = words.begin();
      for (; next != words.end() && next->size() > 1 && next->front() == '-'; ++next) blame_unknown(*next);
      if (next == words.end() || !enter(*next, {next + 1, words.end()})) break;
      words = read_command({next + 1, words.end()});
    }
    if (!is_group(command())) blame_rest(words);
    else if (line_.requested == Action::kRun && !problem_ && before_.empty())
      line_.names_nothing = true, line_.requested = Action::kShortHelp;
    if (line_.requested == Action::kRun && !problem_) check_whole();
    if (line_.requested == Action::kRun && problem_) throw Error(std::move(*problem_));
    return std::move(line_);
  }

 private:
  Command& command() { return *line_.command; }

  // The name that was typed: of -j 0 messages say -j.
  std::string name_of(const Option& o) const {
    const auto is_typed = [&](const std::string& name) {
      return std::ranges::any_of(typed_, [&](const std::string& word) {
        if (name.starts_with("--")) return word == name || word.starts_with(name + "=");
        return word.size() > 1 && word[0] == '-' && word[1] != '-' && word.find(name[1]) != std::string::npos;
      });
    };
    const std::vector<std::string> names = o.all_names();
    const auto last = std::find_if(names.rbegin(), names.rend(), is_typed);
    return last == names.rend() ? o.name() : *last;
  }

  // The first one counts; what comes after it is read only because it may ask for help.
  void blame(std::string what, const std::string& meant = "") {
    if (!problem_) problem_ = wrong(command(), std::move(what), meant);
  }

  void blame_both(const Option* a, const Option* b) {
    const auto& given = command().given;
    if (std::ranges::find(given, b) < std::ranges::find(given, a)) std::swap(a, b);
    blame(name_of(*a) + " and " + name_of(*b) + " cannot be combined");
  }

  // What was given to an option that there is not.
  std::string value_after(const std::string& word) const {
    if (const size_t end = word.find('='); end != word.npos) return word.substr(end + 1);
    const auto next = std::ranges::find(typed_, word) + 1;
    return next >= typed_.end() || next->starts_with('-') ? "PREFIX" : *next;
  }

  void blame_unknown(const std::string& word) {
    if (problem_) return;
    const std::string name = word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);
    std::vector<std::string> names;
    for (const Option& known : command().options) names.insert(names.end(), known.names.begin(), known.names.end());
    std::string meant = name.starts_with("--") ? closest(name, names) : "", hint;
    for (const OtherName& o : kOtherOptions)
      if (o.other == name && std::ranges::find(names, o.ours) != names.end()) meant = o.ours, hint = filled(o.hint, value_after(word));
    blame("unknown option '" + name + "'", meant);
    if (!hint.empty()) problem_->hint = with_words(hint, behind_, context_.store);
    if (name == "-o" && std::ranges::find(names, "--json") != names.end() && value_after(word) == "json")
      problem_->hint = "did you mean --json?";
    const bool is_output = name == "-o" || name == "--output" || name == "--out";
    const auto output = std::ranges::find(command().arguments, Access::kWrite, &Option::access);
    if (is_output && output != command().arguments.end()) problem_->hint = output->value + " is an argument: " + usage_line(command());
    else if (is_group(command()) && meant.empty())
      problem_->hint = "a command's options follow it; see '" + joined(command().path, " ") + " --help'";
  }

  void blame_choice(const Option& o, const std::string& part) {
    blame(name_of(o) + " '" + part + "' is none of " + joined(o.choices, ", "), closest(part, o.choices));
    const auto other = std::ranges::find(kOtherOptions, o.name() + " " + part, &OtherName::other);
    if (other != std::end(kOtherOptions)) problem_->hint = with_words(std::string(other->hint), behind_, context_.store);
  }

  // What no option and no argument took.
  void blame_rest(const std::vector<std::string>& words) {
    bool only_arguments = false;
    for (const std::string& w : words) {
      if (!only_arguments && w.size() > 1 && w.front() == '-' && w != "--") blame_unknown(w);
      else if (w != "--") blame("unexpected argument '" + w + "'");
      only_arguments = only_arguments || w == "--";
    }
  }

  // Returns what the command does not take itself.
  std::vector<std::string> read_command(const std::vector<std::string>& words) {
    try {
      return read_words(command(), with_values_left_out(command(), words, context_.store),
                        [&](Option& o, const std::string& text) { give(o, text); });
    } catch (const CLI::ArgumentMismatch&) {
      const std::string name = words.back().starts_with("--") ? words.back() : std::string{'-', words.back().back()};
      blame(name + " needs a value: " + name + " " + command().find(name)->value);
      return {};
    }
  }

  // False: there is no such command. With a key behind the checkpoint `show` is of its value.
  bool enter(const std::string& word, const std::vector<std::string>& behind) {
    const auto is_word = [&](size_t at) { return at < behind.size() && !behind[at].starts_with('-'); };
    const bool shows_value = word == "show" && is_word(0) && is_word(1);
    const CommandName* next = command_named(command(), shows_value ? "extract" : word);
    if (next == nullptr) {
      if (!problem_) problem_ = unknown_command(command(), word, behind, context_.store);
      return false;
    }
    line_.command = build_command(next->path, context_);
    behind_ = behind;
    if (is_group(command())) return true;
    // What an option says of looks holds for a command without it, too; a document is another answer, and what opens files must not seem confined.
    const auto opens = [](const Option& o) { return o.access.has_value(); };
    const bool opens_files = std::ranges::any_of(command().options, opens) || std::ranges::any_of(command().arguments, opens);
    for (const auto& [name, text] : std::exchange(before_, {})) {
      if (Option* o = command().find(name)) give(*o, text);
      else if (name == "--json" || name == "--report" || (name == "--sandbox" && text == "on" && opens_files))
        blame("'" + joined(command().path, " ") + "' has no option " + name);
    }
    return true;
  }

  Problem lacks_value(const Option& o) const {
    const std::string name = name_of(o);
    Problem p = make_problem(ProblemId::usage, {}, name + " ''", "a value");
    p.hint = name.starts_with('-') ? "leave " + name + " out, or give it a value; a variable in a script may be empty"
                                   : "a variable in a script may be empty";
    return p;
  }

  void give(Option& o, const std::string& text) {
    if (o.action != Action::kRun) return line_.requested = o.action, void();
    if (o.value.empty() && text != "true") return blame(name_of(o) + " takes no value");
    if (is_group(command())) return before_.emplace_back(o.name(), text), void();
    if (text.empty() && !o.value.empty() && !o.may_be_empty && !problem_) problem_ = lacks_value(o);
    if (problem_) return;
    for (const std::string& part : o.list ? split_list(text) : std::vector<std::string>{text}) {
      if (!o.choices.empty() && std::ranges::find(o.choices, part) == o.choices.end()) return blame_choice(o, part);
      if (!o.take(part)) return blame(name_of(o) + " '" + part + "' is not " + o.expected);
    }
    if (!o.names.empty()) command().given.push_back(&o);
    o.given.push_back(text);
  }

  void check_whole() {
    if (is_group(command())) return blame("a command is missing");
    for (const Option& a : command().arguments)
      if (a.required && a.given.empty()) return blame(a.value + " is missing");
    for (const Option* o : command().given) {
      for (const std::string& other : o->needed)
        if (command().find(other)->given.empty()) return blame(name_of(*o) + " needs " + other);
      for (const std::string& other : o->excluded)
        if (!command().find(other)->given.empty()) return blame_both(o, command().find(other));
    }
  }

  Context& context_;
  CommandLine line_;
  std::vector<std::string> typed_, behind_;                  // all words, and those behind the command
  std::vector<std::pair<std::string, std::string>> before_;  // options before the command, which takes them
  std::optional<Problem> problem_;
};

}  // namespace

CommandLine read_command_line(const std::vector<std::string>& words, Context& context) { return Reader(context).read(words); }

std::unique_ptr<Command> command_of_words(const std::vector<std::string>& words, Context& context) {
  std::unique_ptr<Command> command = build_command("", context);
  for (const std::string& w : words) {
    const CommandName* next = command_named(*command, w);
    if (next == nullptr) throw Error(unknown_command(*command, w, {}, context.store));
    command = build_command(next->path, context);
  }
  return command;
}

}  // namespace dcp::cmd
