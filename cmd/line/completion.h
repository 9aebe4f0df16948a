// What may follow the words of an unfinished command line: the answer to a shell's question.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "line/command.h"

namespace dcp::cmd {

// An unfinished command line, as far as its declaration explains it.
struct Unfinished {
  std::unique_ptr<Command> command;    // the last one that is named; nullptr: a word is none
  const Option* of = nullptr;          // the option or argument whose value is being typed
  bool is_option = false;              // the name of an option is being typed
  std::string before, typed;           // of the last word: "--color=" and "al"
  std::vector<std::string> arguments;  // before it
  std::string step;                    // of --step

  // The checkpoint or run whose keys or steps are asked for; empty: none.
  std::string source() const;
};
Unfinished read_unfinished(const std::vector<std::string>& words, Context& context);

// Names in source().
struct SourceNames {
  std::function<std::vector<std::string>(const std::string& prefix)> keys;
  std::function<std::vector<std::string>()> steps;
};

// A line for each word that may stand there, with what it does behind a tab; or ":files" or ":folders" alone. More may follow a word that ends in
// '.' or '='. Shells choose those that begin as the last word does.
std::string offered(const Unfinished& line, Context& context, const SourceNames& names);

}  // namespace dcp::cmd
