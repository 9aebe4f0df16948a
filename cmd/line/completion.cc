#include "line/completion.h"

#include <algorithm>
#include <unordered_set>

#include "app/resources.h"
#include "base/file_names.h"
#include "inputs/open.h"
#include "inputs/run.h"
#include "line/commands.h"
#include "line/option_values.h"
#include "line/sandbox.h"
#include "maps/builtin.h"

namespace dcp::cmd {
namespace {

class UnfinishedReader {
 public:
  explicit UnfinishedReader(Context& context) : context_(context) { line_.command = build_command("", context); }

  Unfinished read(const std::vector<std::string>& words) {
    for (size_t i = 0; i + 1 < words.size() && line_.command; ++i) pass(words[i]);
    if (line_.command) last(words.empty() ? "" : words.back());
    return std::move(line_);
  }

 private:
  bool names_option(const std::string& word) const { return !only_arguments_ && word.size() > 1 && word.front() == '-'; }

  void pass(const std::string& word) {
    if (const Option* o = std::exchange(line_.of, nullptr); o != nullptr && (o->alone.empty() || !names_option(word)))
      return value(*o, word);
    if (!only_arguments_ && word == "--") return void(only_arguments_ = true);
    if (names_option(word)) return option(word);
    if (commands_under(*line_.command).empty()) return line_.arguments.push_back(word);
    const CommandName* const named = command_named(*line_.command, word);
    line_.command = named == nullptr ? nullptr : build_command(named->path, context_);
  }

  // --threads=4, --threads 4, -j4, -j 4; of -qj 4 the last takes the value.
  void option(const std::string& word) {
    const bool is_long = word.starts_with("--");
    const size_t end = is_long ? std::min(word.find('='), word.size()) : 2;
    Option* o = line_.command->find(word.substr(0, end));
    if (!is_long && o != nullptr && o->value.empty() && end < word.size()) return option("-" + word.substr(end));
    if (o == nullptr) return;
    o->given.emplace_back();
    if (o->value.empty()) return;
    if (end < word.size()) value(*o, word.substr(end + (is_long ? 1 : 0)));
    else line_.of = o;
  }

  void value(const Option& o, const std::string& text) {
    if (o.name() == "--step") line_.step = text;
  }

  void last(const std::string& word) {
    line_.typed = word;
    if (line_.of != nullptr && (line_.of->alone.empty() || (!line_.arguments.empty() && !names_option(word)))) return;
    line_.of = nullptr;
    if (const size_t end = word.find('='); names_option(word) && word.starts_with("--") && end != word.npos) {
      line_.of = line_.command->find(word.substr(0, end));
      line_.before = word.substr(0, end + 1);
      line_.typed = word.substr(end + 1);
      return;
    }
    line_.is_option = !only_arguments_ && word.starts_with('-');
    const auto& declared = line_.command->arguments;
    if (line_.is_option || declared.empty()) return;
    const size_t at = std::min(line_.arguments.size(), declared.size() - 1);
    if (at == line_.arguments.size() || declared[at].repeatable) line_.of = &declared[at];
  }

  Context& context_;
  Unfinished line_;
  bool only_arguments_ = false;
};

using Words = std::vector<std::string>;

// As a command's names are offered, with what it does.
Words names_of_commands(const Command& parent) {
  Words all;
  for (const CommandName* c : commands_under(parent)) all.push_back(c->name() + "\t" + std::string(c->about));
  if (short_path(parent).empty())
    for (const CommandAlias& a : command_aliases())
      if (a.is_told) all.push_back(std::string(a.name) + "\t" + std::string(command_named(parent, a.name)->about));
  return all;
}

Words names_of_options(const Command& command) {
  Words all;
  for (const Option& o : command.options)
    for (const std::string& name : o.names)
      if (o.given.empty() || o.repeatable) all.push_back(name + "\t" + o.help);
  return all;
}

// Of `help bench` the commands under bench.
Words subcommands(Words path, Context& context) {
  path.emplace_back();
  const Unfinished inner = read_unfinished(path, context);
  return inner.command ? names_of_commands(*inner.command) : Words{};
}

Words dtypes(bool with_keep) {
  Words all = dtype_names();
  if (with_keep) all.emplace_back("keep");
  return all;
}

Words rules(const Unfinished& line, const SourceNames& names) {
  Words all;
  if (const size_t end = line.typed.rfind('='); end != line.typed.npos) {
    for (const std::string& dtype : dtypes(true)) all.push_back(line.typed.substr(0, end + 1) + dtype);
    return all;
  }
  for (const std::string& key : names.keys(line.typed)) all.push_back(key.ends_with('.') ? key : key + "=");
  return all;
}

// A path that is begun is completed as one.
Words names_of_maps(const Unfinished& line) {
  if (line.typed.find('/') != line.typed.npos) return {":files"};
  Words all;
  for (const maps::BuiltinMap& m : maps::builtin_maps()) all.emplace_back(m.name);
  if (line.of->name() == "--map") all.insert(all.end(), {"auto", "none"});
  return all;
}

Words values(const Unfinished& line, Context& context, const SourceNames& names) {
  if (!line.of->choices.empty()) return line.of->choices;
  switch (line.of->offer) {
    case Offer::kFiles: return {":files"};
    case Offer::kFolders: return {":folders"};
    case Offer::kCommands: return subcommands(line.arguments, context);
    case Offer::kKeys: return names.keys(line.typed);
    case Offer::kSteps: return names.steps();
    case Offer::kDtypes: return dtypes(false);
    case Offer::kDtypeRules: return rules(line, names);
    case Offer::kMaps: return names_of_maps(line);
    case Offer::kNothing: break;
  }
  return {};
}

constexpr const char* kText = R"(Prints a completion script, as it is installed under share.

  mkdir -p ~/.local/share/bash-completion/completions ~/.zsh/completions ~/.config/fish/completions
  dcpctl completions bash > ~/.local/share/bash-completion/completions/dcpctl
  dcpctl completions zsh > ~/.zsh/completions/_dcpctl      # a folder of $fpath
  dcpctl completions fish > ~/.config/fish/completions/dcpctl.fish

The scripts ask what may stand at the end of a command line. Keys of a checkpoint and steps of a run can be asked for alone. Names that a shell would
have to quote are left out.

  dcpctl completions words -- bench ''
  dcpctl completions keys step-1000 --prefix model.
  dcpctl completions steps run)";

constexpr const char* kBash = R"BASH(# bash completion for dcpctl, which is asked what may follow. Printed by 'dcpctl completions bash'.
_dcpctl() {
  local word cur glued='' IFS=$' \t\n'
  local -a words=()
  # Bash parts words at '=': here they are whole. A path is as it was typed: quotes and a tilde are what the shell would have taken out.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    word=${word//[\"\'\\]/}
    if [[ ($word == '=' || $glued) && ${#words[@]} -gt 0 ]]; then words[-1]+=$word; else words+=("${word/#\~\//$HOME/}"); fi
    [[ $word == '=' ]] && glued=1 || glued=''
  done
  cur=${words[-1]}
  mapfile -t COMPREPLY < <(dcpctl completions words -- "${words[@]}" 2>/dev/null)
  [[ $cur != *=* ]] || COMPREPLY=("${COMPREPLY[@]#"${cur%=*}="}") cur=${cur##*=}
  case ${COMPREPLY-} in
    :files) COMPREPLY=() && compopt -o default ;;
    :folders) COMPREPLY=() && compopt -o dirnames ;;
    *)
      mapfile -t COMPREPLY < <(compgen -W "${COMPREPLY[*]%%$'\t'*}" -- "$cur")
      [[ "${COMPREPLY[*]} " != *[.=]' '* ]] || compopt -o nospace ;; # more follows
  esac
}

complete -F _dcpctl dcpctl
)BASH";

constexpr const char* kZsh = R"ZSH(#compdef dcpctl
# zsh completion for dcpctl, which is asked what may follow. Printed by 'dcpctl completions zsh'.
_dcpctl() {
  local -a given all told whole parts
  given=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
  all=("${(@f)$(dcpctl completions words -- "${(@)given/#\~\//$HOME/}" 2>/dev/null)}")
  case $all[1] in
    '') return 1 ;;
    :*)
      compset -P '--*='
      if [[ $all[1] == :files ]]; then _files; else _files -/; fi
      return ;;
  esac
  told=("${(@M)all:#*$'\t'*}")  # with what they do
  told=("${(@)told/$'\t'/:}")
  all=("${(@)all:#*$'\t'*}")
  parts=("${(@M)all:#*[.=]}")  # more follows
  whole=("${(@)all:#*[.=]}")
  (( ! $#told )) || _describe -t words word told
  compadd -S '' -a parts
  compadd -a whole
}

# Read from $fpath this file is the body of _dcpctl; sourced it registers it.
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _dcpctl "$@"
else
  compdef _dcpctl dcpctl
fi
)ZSH";

constexpr const char* kFish = R"FISH(# fish completion for dcpctl, which is asked what may follow. Printed by 'dcpctl completions fish'.
function __dcpctl_complete
    set -l token (commandline -ct)
    set -l given (string replace -r '^~/' "$HOME/" -- (commandline -opc)[2..] "$token")
    set -l all (dcpctl completions words -- $given 2>/dev/null)
    set -l option (string match -r -- '^--[^=]*=' "$token")
    set -l value (string replace -r -- '^--[^=]*=' '' "$token")
    switch "$all[1]"
        case :files
            string replace -r -- '^' "$option" (__fish_complete_path "$value")
        case :folders
            string replace -r -- '^' "$option" (__fish_complete_directories "$value")
        case '*'
            printf '%s\n' $all
    end
end

complete -c dcpctl -f -a '(__dcpctl_complete)'
)FISH";

struct Options {
  std::string what, step, prefix;
  std::vector<std::string> words;  // the checkpoint, or a command line
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

struct Source {
  std::string path, step;
};

// With a prefix that no key has, all of them if `or_all`: some shells match in other ways, too.
std::vector<std::string> keys_of(const Source& source, const std::string& prefix, bool or_all, Context& context) {
  const uint64_t cap = take_memory_cap(default_reading_cap(), context);
  const OpenOptions options{.limits = {.memory_bytes = memory_left(cap)}};
  std::vector<Step> broken;
  const std::string found = source.step.empty() ? source.path : find_step(context.store, {source.path, source.step, ""}, options, broken);
  const std::string path = only_checkpoint_below(context.store, found).value_or(found);
  const std::vector<std::string> read = read_keys(context.store, path, options);
  std::vector<std::string_view> keys, all;
  for (const std::string& key : read)
    if (is_plain(key)) (key.starts_with(prefix) ? keys : all).push_back(key);
  return keys.empty() && or_all ? offered_keys(all, 0) : offered_keys(keys, prefix.size());
}

std::vector<std::string> steps_in(const std::string& run, Context& context) {
  std::vector<std::string> all{"latest"};
  for (const Step& s : find_run(context.store, run, "").steps)
    if (!s.unfinished) all.push_back(std::to_string(s.number));
  return all;
}

// The checkpoint that a line names; "": none, or one in a store. Who presses a key does not wait for a network.
std::string near_source(const Unfinished& line) { return scheme_of(line.source()).empty() ? line.source() : ""; }

int run_words(const Options& o, Context& context) {
  const Unfinished line = read_unfinished(o.words, context);
  const std::string path = near_source(line);
  const SourceNames names{.keys =
                              [&](const std::string& prefix) {
                                return path.empty() ? std::vector<std::string>{} : keys_of({path, line.step}, prefix, true, context);
                              },
                          .steps = [&] { return path.empty() ? std::vector<std::string>{} : steps_in(path, context); }};
  context.print(offered(line, context, names));
  return 0;
}

int run(const Options& o, Context& context) {
  const bool is_script = o.what == "bash" || o.what == "zsh" || o.what == "fish";
  if (o.what == "words") return run_words(o, context);
  if (o.words.size() > 1) fail(ProblemId::usage, {}, "'" + o.what + "' with several paths", "one");
  if (is_script != (o.words.empty() || o.words.front().empty()))
    fail(ProblemId::usage, {}, is_script ? "a path with '" + o.what + "'" : "'" + o.what + "' without a path", is_script ? "none" : "CKPT");
  if (is_script) return context.print(o.what == "bash" ? kBash : o.what == "zsh" ? kZsh : kFish), 0;
  const std::string& path = o.words.front();
  const std::vector<std::string> all = o.what == "steps" ? steps_in(path, context) : keys_of({path, o.step}, o.prefix, false, context);
  context.print(joined(all, "\n") + (all.empty() ? "" : "\n"));
  return 0;
}

}  // namespace

std::string Unfinished::source() const {
  const bool asked = of != nullptr && (of->offer == Offer::kKeys || of->offer == Offer::kSteps || of->offer == Offer::kDtypeRules);
  return asked && !arguments.empty() ? arguments.front() : "";
}

Unfinished read_unfinished(const std::vector<std::string>& words, Context& context) { return UnfinishedReader(context).read(words); }

std::string offered(const Unfinished& line, Context& context, const SourceNames& names) {
  Words all;
  if (line.command && line.is_option) all = names_of_options(*line.command);
  else if (line.command && line.of != nullptr) all = values(line, context, names);
  else if (line.command && line.before.empty()) all = names_of_commands(*line.command);
  std::string text;
  for (const std::string& word : all) text += (word.starts_with(':') ? "" : line.before) + word + "\n";
  return text;
}

// dcpctl completions: what a shell loads to complete commands, options, their values and paths, and what such a script asks for.

void add_completions(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  c.details = kText;
  c.argument("WHAT", options->what, "The script of bash, zsh or fish; keys of a checkpoint; steps of a run; words that may end a line")
      .one_of({"bash", "zsh", "fish", "keys", "steps", "words"})
      .is_required();
  Option& path =
      c.argument(
           "CKPT", options->words,
           "With keys: a checkpoint, or a run with --step; with steps: a run; with words: the words of a line, the last one unfinished")
          .is_source()
          .reads()
          .or_empty();
  c.option("--prefix", options->prefix, "TEXT", "With keys: those that begin with TEXT");
  Option& step = c.option("--step", options->step, "N|latest", "With keys: CKPT is a run folder, take this step")
                     .opens(Access::kSteps)
                     .offers(Offer::kSteps);
  add_sandbox(c, context);
  // Of a line only the checkpoint is read that it names.
  c.before_rights = [options, &path, &step, &context] {
    if (options->what != "words") return;
    const Unfinished line = read_unfinished(options->words, context);
    const std::string source = near_source(line);
    path.given = source.empty() ? std::vector<std::string>{} : std::vector{source};
    step.given = std::vector(path.given.size(), line.step);
  };
  c.run = [options, &context] { return run(*options, context); };
}

}  // namespace dcp::cmd
