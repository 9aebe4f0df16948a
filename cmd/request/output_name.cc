#include "request/output_name.h"

#include <filesystem>
#include <optional>

#include "base/file_names.h"
#include "base/problem.h"
#include "inputs/open.h"

namespace dcp::cmd {

void check_folder_name(const std::string& out) {
  std::string ending = std::filesystem::path(without_trailing_slashes(out)).extension();
  for (char& c : ending) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (!is_checkpoint_name("model" + ending)) return;
  Problem p = make_problem(ProblemId::usage, {.path = out}, "the name of a file", "a folder");
  p.hint = "consolidate and convert write files";
  throw Error(std::move(p));
}

void check_writable(Io& io, const std::string& out_as_given, bool is_folder) {
  const std::string out = without_trailing_slashes(out_as_given);
  const std::optional<FileFacts> facts = is_folder ? io.facts(out) : std::nullopt;
  const bool in_place = facts && facts->kind == FileKind::kDirectory && io.list(out).empty();
  try {
    io.check_writable(in_place ? out : folder_around(out));
  } catch (const Error& e) {
    fail(e.problem().id, {.path = out}, e.problem().got);
  }
}

}  // namespace dcp::cmd
