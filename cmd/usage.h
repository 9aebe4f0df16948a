// What is said about a wrong command line.
#pragma once

#include <string>
#include <vector>

#include "base/problem.h"
#include "command_tree.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace dcp::cmd {

// `words`: the command line without the program's name, for the word that was meant otherwise.
Problem usage_problem(const CLI::App& app, const std::vector<std::string>& words, const CLI::ParseError& error);
Problem unknown_command(const CommandText& parent, const std::string& word);

}  // namespace dcp::cmd
