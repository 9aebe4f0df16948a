// dcpctl completions: what a shell loads to complete commands, options, their values and paths.
#include "completions.h"

#include "commands.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText = R"(Prints a completion script, as it is installed under share.

  dcpctl completions bash > ~/.local/share/bash-completion/completions/dcpctl
  dcpctl completions zsh > ~/.zsh/completions/_dcpctl      # a folder of $fpath
  dcpctl completions fish > ~/.config/fish/completions/dcpctl.fish)";

}  // namespace

std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

void add_completions(Command& c, Context& context) {
  auto shell = std::make_shared<std::string>();
  c.details = kText;
  c.argument("SHELL", *shell, "One of bash, zsh and fish").one_of({"bash", "zsh", "fish"}).is_required();
  c.run = [shell, &context] {
    const Commands all = build_all(context);
    context.out(*shell == "bash" ? bash_completion(all) : *shell == "zsh" ? zsh_completion(all) : fish_completion(all));
    return 0;
  };
}

}  // namespace dcp::cmd
