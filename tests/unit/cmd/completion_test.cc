#include "line/completion.h"

#include <catch2/catch_test_macros.hpp>

#include "base/fake_io.h"
#include "line/context.h"

namespace dcp::cmd {
namespace {

struct Shell {
  test::FakeIo io;
  StopFlag stop{0};
  Context context{io, io, stop};

  // The words that are offered, without what they do.
  std::string ask(const std::vector<std::string>& words) {
    const Unfinished line = read_unfinished(words, context);
    const SourceNames names{
        .keys = [&](const std::string& prefix) { return std::vector{line.source() + "@" + line.step + ":" + prefix, std::string("a.")}; },
        .steps = [&] { return std::vector{line.source()}; }};
    std::string all;
    const std::string lines = offered(line, context, names);
    for (size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1)
      all += lines.substr(at, lines.find_first_of("\t\n", at) - at) + " ";
    return all;
  }
};

TEST_CASE("a command line is completed by what it declares") {
  Shell shell;
  CHECK(shell.ask({""}).starts_with("list inspect "));
  CHECK(shell.ask({"bench", ""}) == "io staging ");
  CHECK(shell.ask({"help", "bench", ""}) == "io staging ");
  CHECK(shell.ask({"help", "nothing", ""}).empty());
  CHECK(shell.ask({"nothing", "-"}).empty());
  CHECK(shell.ask({"inspect", "-"}).find("--include") != std::string::npos);
  CHECK(shell.ask({"inspect", ""}) == ":files ");
  CHECK(shell.ask({"inspect", "--", "-x"}) == ":files ");
  CHECK(shell.ask({"consolidate", "--color=al"}) == "--color=auto --color=always --color=never ");
  CHECK(shell.ask({"consolidate", "--color", ""}) == "auto always never ");
  CHECK(shell.ask({"consolidate", "--report=x"}) == ":files ");
  CHECK(shell.ask({"consolidate", "--max-memory", ""}).empty());
  CHECK(shell.ask({"consolidate", "--map", ""}).find("llama.torchtitan ") != std::string::npos);
  CHECK(shell.ask({"consolidate", "--map", ""}).ends_with("auto none "));
  CHECK(shell.ask({"consolidate", "--map", "./own"}) == ":files ");
  CHECK(shell.ask({"maps", ""}).ends_with(".transformers "));
  CHECK(shell.ask({"consolidate", "a", "b", "c"}).empty());
  CHECK(shell.ask({"export", "a", "--color=al"}) == "--color=auto --color=always --color=never ");
}

TEST_CASE("an option that may stand alone takes what can be its value") {
  Shell shell;
  CHECK(shell.ask({"inspect", "--stats", ""}) == ":files ");
  CHECK(shell.ask({"inspect", "ckpt", "--stats", "x"}) == "ckpt@:x a. ");
  CHECK(shell.ask({"inspect", "ckpt", "--stats", "--js"}).find("--json ") != std::string::npos);
  CHECK(shell.ask({"inspect", "ckpt", "--stats", "--step", ""}) == "ckpt ");
}

TEST_CASE("an option that was given is not offered again unless it is repeatable") {
  Shell shell;
  CHECK(shell.ask({"inspect", "--json", "--"}).find("--json ") == std::string::npos);
  CHECK(shell.ask({"inspect", "--include", "a", "--"}).find("--include ") != std::string::npos);
}

TEST_CASE("names are those of the checkpoint on the line") {
  Shell shell;
  CHECK(shell.ask({"extract", "ckpt", "mo"}) == "ckpt@:mo a. ");
  CHECK(shell.ask({"extract", "-qj", "4", "ckpt", "mo"}) == "ckpt@:mo a. ");
  CHECK(shell.ask({"inspect", "run", "--step", "5", "--key", "x"}) == "run@5:x a. ");
  CHECK(shell.ask({"inspect", "run", "--step=5", "--key=x"}) == "--key=run@5:x --key=a. ");
  CHECK(shell.ask({"inspect", "run", "--step", ""}) == "run ");
  CHECK(shell.ask({"cast", "ckpt", "out", "--dtype-rule", "w"}) == "ckpt@:w= a. ");
  CHECK(shell.ask({"cast", "ckpt", "out", "--dtype-rule", "w=k"}).ends_with("w=keep "));
}

}  // namespace
}  // namespace dcp::cmd
