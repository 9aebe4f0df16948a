// dcpctl completions: what a shell loads to complete commands, options, their values and paths.
#include "completions.h"

#include <CLI/CLI.hpp>

#include "commands.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText = R"(Prints a completion script, as it is installed under share.

  dcpctl completions bash > ~/.local/share/bash-completion/completions/dcpctl
  dcpctl completions zsh > ~/.zsh/completions/_dcpctl      # a folder of $fpath
  dcpctl completions fish > ~/.config/fish/completions/dcpctl.fish)";

}  // namespace

std::string short_path(const CommandText& command) { return joined({command.path.begin() + 1, command.path.end()}, " "); }

std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

void add_completions(CLI::App& app, Context& context) {
  struct Options {
    std::string shell;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("completions", "The completion script of a shell");
  command->footer(kText);
  command->add_option("SHELL", options->shell, "One of bash, zsh and fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([options, &app, &context] {
    context.command = "completions";
    context.run = [options, &app, &context] {
      const CommandText root = command_tree(app);
      context.out(options->shell == "bash"  ? bash_completion(root)
                  : options->shell == "zsh" ? zsh_completion(root)
                                            : fish_completion(root));
      return 0;
    };
  });
}

}  // namespace dcp::cmd
