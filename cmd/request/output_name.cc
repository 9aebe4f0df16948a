#include "request/output_name.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file_names.h"
#include "base/problem.h"
#include "inputs/open.h"

namespace dcp::cmd {

void check_folder_name(const std::string& out) {
  std::string ending = std::filesystem::path(without_trailing_slashes(out)).extension();
  for (char& c : ending) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  // What writes such a file; "": nothing.
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {{".npz", "consolidate and convert write it"},
                                                                       {".npy", "'dcpctl extract CKPT KEY OUT.npy' writes it"},
                                                                       {".json", "'dcpctl inspect CKPT --json' prints it"},
                                                                       {".txt", "'dcpctl extract CKPT KEY OUT.txt' writes it"},
                                                                       {".csv", "'dcpctl inspect CKPT --csv' prints it"},
                                                                       {".html", "'dcpctl inspect CKPT --html OUT.html' writes it"},
                                                                       {".tsv", ""},
                                                                       {".zip", ""},
                                                                       {".tar", ""},
                                                                       {".gz", ""},
                                                                       {".zst", ""},
                                                                       {".gguf", ""},
                                                                       {".h5", ""},
                                                                       {".hdf5", ""},
                                                                       {".onnx", ""},
                                                                       {".pkl", ""},
                                                                       {".msgpack", ""},
                                                                       {".parquet", ""}};
  const auto other = std::ranges::find(kOthers, ending, [](const auto& o) { return o.first; });
  const bool is_model = is_checkpoint_name("model" + ending);
  if (!is_model && other == std::end(kOthers)) return;
  Problem p = make_problem(ProblemId::usage, {.path = out}, "the name of a file", "a folder");
  p.hint = is_model ? "consolidate and convert write files" : other->second;
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
