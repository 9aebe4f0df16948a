#include "line/usage.h"

#include <catch2/catch_test_macros.hpp>

#include "base/fake_io.h"
#include "line/context.h"

namespace dcp::cmd {
namespace {

struct Line {
  test::FakeIo io;
  StopFlag stop{0};
  Context context{io, io, stop};

  CommandLine read(const std::vector<std::string>& words) { return read_command_line(words, context); }
  // What is wrong with the words, and the hint.
  std::string wrong(const std::vector<std::string>& words) {
    try {
      read(words);
    } catch (const Error& e) {
      CHECK(e.problem().id == ProblemId::usage);
      return to_line(e.problem()) + "; " + e.problem().hint;
    }
    return "";
  }
};

TEST_CASE("options are read wherever they stand, in the forms that there are") {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"consolidate", "a", "b.pt", "--dtype", "bf16", "-j", "4"},
                                             {"consolidate", "--dtype=bf16", "-j4", "a", "b.pt"},
                                             {"consolidate", "-j4", "--dtype", "bf16", "--", "a", "b.pt"}}) {
    Line line;
    CommandLine read = line.read(words);
    CHECK(read.requested == Action::kRun);
    CHECK(short_path(*read.command) == "consolidate");
    CHECK(read.command->find("--dtype")->given == std::vector<std::string>{"bf16"});
    CHECK(read.command->find("-j")->given == std::vector<std::string>{"4"});
    CHECK(read.command->arguments[0].given == std::vector<std::string>{"a"});
    CHECK(read.command->arguments[1].given == std::vector<std::string>{"b.pt"});
  }
}

TEST_CASE("other names are taken as ours") {
  Line line;
  CHECK(short_path(*line.read({"cat", "a", "k"}).command) == "extract");
  CHECK(short_path(*line.read({"show", "a"}).command) == "inspect");
  CHECK(short_path(*line.read({"show", "a", "--keys"}).command) == "inspect");
  CHECK(short_path(*line.read({"show", "a", "k", "--head", "2"}).command) == "extract");
  CommandLine read = line.read({"reshard", "a", "b", "--torch=2.1", "--overwrite", "--verbose"});
  CHECK(read.command->find("--for-torch")->given == std::vector<std::string>{"2.1"});
  CHECK(read.command->find("--force")->count() == 1);
  CHECK(read.command->find("-v")->count() == 1);
  CHECK(line.wrong({"diff", "a", "b", "--dtype", "bf16", "--raw", "--compare-as"}).starts_with("--compare-as needs a value"));
}

TEST_CASE("a hint has no option of another meaning") {
  Line line;
  CHECK(line.wrong({"inspect", "a", "--torch", "2.1"}) == "unknown option '--torch'; see 'dcpctl inspect --help'");
  CHECK(line.wrong({"inspect", "a", "--filter=b"}) == "unknown option '--filter'; did you mean --include?");
  CHECK(line.wrong({"inspect", "a", "--head", "8"}) == "unknown option '--head'; see 'dcpctl inspect --help'");
  CHECK(line.wrong({"convert", "a", "b", "--strip-prefix", "m.x"}).find("--rename '^m\\.x=>'") != std::string::npos);
}

TEST_CASE("behind -- a word is an argument, whatever it begins with") {
  Line line;
  CHECK(line.read({"inspect", "--", "--json"}).command->arguments[0].given == std::vector<std::string>{"--json"});
  CHECK(line.wrong({"consolidate", "a", "b", "--", "-c"}) == "unexpected argument '-c'; see 'dcpctl consolidate --help'");
}

TEST_CASE("help is given whatever else is wrong") {
  Line line;
  CHECK(line.read({"consolidate", "--frobnicate", "--help"}).requested == Action::kHelp);
  CHECK(line.read({"consolidate", "-j", "0", "-h"}).requested == Action::kShortHelp);
  CHECK(line.read({"--version"}).requested == Action::kVersion);
  CHECK(line.read({"bench"}).names_nothing);
  CHECK_FALSE(line.read({"bench", "-h"}).names_nothing);
}

TEST_CASE("a mistyped name is met with the one that was meant") {
  Line line;
  CHECK(line.wrong({"inspekt"}) == "'inspekt' is not a command of dcpctl; did you mean inspect?");
  CHECK(line.wrong({"cons"}) == "'cons' is not a command of dcpctl; did you mean consolidate?");
  CHECK(line.wrong({"merge"}).starts_with(
      "'merge' is not a command of dcpctl; did you mean 'dcpctl consolidate CKPT OUT',"));  // another tool's
  CHECK(line.wrong({"grep", "wq", "s3://b/x"}) == "'grep' is not a command of dcpctl; did you mean dcpctl inspect s3://b/x '*wq*'?");
  CHECK(line.wrong({"grep", "RUN", "s3://b/OUT"}) == "'grep' is not a command of dcpctl; did you mean dcpctl inspect s3://b/OUT '*RUN*'?");
  CHECK(line.wrong({"convert-to-hf.py", "s3://b/x", "out"}).find("'dcpctl consolidate s3://b/x out --assets BASE'") != std::string::npos);
  CHECK(line.wrong({"inspect", "s3://b/x", "--fail-on", "nan"}).find("'dcpctl verify s3://b/x --fail-on nan'") != std::string::npos);
  CHECK(line.wrong({"bench", "oi"}).starts_with("'oi' is not a command of dcpctl bench; "));
  CHECK(line.wrong({"bench", "merge"}) == "'merge' is not a command of dcpctl bench; see 'dcpctl bench --help'");  // no command there
  CHECK(line.wrong({"inspect", "a", "--kyes"}) == "unknown option '--kyes'; did you mean --keys?");
  CHECK(line.wrong({"inspect", "a", "--kyes=b"}) == "unknown option '--kyes'; did you mean --keys?");
  CHECK(line.wrong({"inspect", "a", "-z"}) == "unknown option '-z'; see 'dcpctl inspect --help'");
  CHECK(line.wrong({"inspect", "a", "--color", "alwys"}) == "--color 'alwys' is none of auto, always, never; did you mean always?");
  CHECK(line.wrong({"consolidate", "a", "-o", "b"}) == "unknown option '-o'; OUT is an argument: dcpctl consolidate [OPTION]... CKPT OUT");
}

TEST_CASE("of several mistakes the first is named") {
  Line line;
  CHECK(line.wrong({"inspect", "-j", "0", "--color", "blue"}).starts_with("-j '0' is not a number from 1 to 1024; "));
  CHECK(line.wrong({"inspect", "--color", "blue", "-j", "0"}).starts_with("--color 'blue' is none of "));
  CHECK(line.wrong({"inspect", "--threads=0"}).starts_with("--threads '0' is not "));  // as it was typed
}

TEST_CASE("values that lack, are empty or are too many") {
  Line line;
  CHECK(line.wrong({"inspect"}).starts_with("CKPT is missing; "));
  CHECK(line.wrong({"consolidate", "a"}).starts_with("OUT is missing; "));
  CHECK(line.wrong({"inspect", "a", "--include"}).starts_with("--include needs a value: --include GLOB; "));
  CHECK(line.wrong({"inspect", "a", "--json=yes"}).starts_with("--json takes no value; "));
  CHECK(line.wrong({"inspect", "a", "--color="}) == "got --color '', expected a value; leave --color out, or "
                                                    "give it a value; a variable in a script may be empty");
  CHECK(line.wrong({"inspect", ""}) == "got CKPT '', expected a value; a variable in a script may be empty");
  CHECK(line.wrong({"inspect", "a", "--key="}).empty());  // a key may be ''
}

TEST_CASE("options that exclude each other are named as they were typed") {
  Line line;
  CHECK(line.wrong({"inspect", "a", "--keys", "--chunks"}).starts_with("--keys and --chunks cannot be combined; "));
  CHECK(line.wrong({"inspect", "a", "--chunks", "--keys"}).starts_with("--chunks and --keys cannot be combined; "));
}

TEST_CASE("what stands before the command is the command's, if it has it") {
  Line line;
  CHECK(line.read({"-q", "inspect", "a"}).command->find("-q")->count() == 1);
  CHECK(line.wrong({"--json", "man"}).starts_with("'dcpctl man' has no option --json; "));
}

TEST_CASE("a command is found by its words") {
  Line line;
  CHECK(short_path(*command_of_words({"bench", "io"}, line.context)) == "bench io");
  CHECK(short_path(*command_of_words({}, line.context)).empty());
  CHECK_THROWS_AS(command_of_words({"bench", "nothing"}, line.context), Error);
}

}  // namespace
}  // namespace dcp::cmd
