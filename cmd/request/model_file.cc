#include "request/model_file.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file_names.h"
#include "base/problem.h"
#include "base/text.h"
#include "inputs/open.h"
#include "line/command.h"
#include "line/option_values.h"

namespace dcp::cmd {

static std::string ending_of(const std::string& out) {
  return lowered(std::filesystem::path(without_trailing_slashes(out)).extension().native());
}

void check_format_written(const std::string& out) {
  // What to do instead.
  constexpr std::pair<std::string_view, std::string_view> kNever[] = {
      {".gguf", "'dcpctl consolidate CKPT hf --assets BASE' writes a folder of which llama.cpp's convert_hf_to_gguf.py makes one"},
      {".h5", "write .npz, which numpy reads, or .safetensors"},
      {".hdf5", "write .npz, which numpy reads, or .safetensors"},
      {".onnx", "write .pt, load it into the model, and torch.onnx.export that: ONNX holds the program, too"},
      {".msgpack", "write .safetensors, which JAX's libraries read, too"},
      {".pkl", "write .pt, which torch.load reads"},
      {".ckpt", "write .pt, which is read in the same way"}};
  const std::string ending = ending_of(out);
  const auto never = std::ranges::find(kNever, ending, [](const auto& o) { return o.first; });
  if (never == std::end(kNever)) return;
  throw Error(
      with_hint(with_what(make_problem(ProblemId::usage, {.path = out}), "no command writes a " + ending + " file"), never->second));
}

void check_folder_name(const std::string& out) {
  check_format_written(out);
  const std::string ending = ending_of(out);
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
                                                                       {".parquet", ""}};
  const auto other = std::ranges::find(kOthers, ending, [](const auto& o) { return o.first; });
  const bool is_model = is_checkpoint_name("model" + ending);
  if (!is_model && other == std::end(kOthers)) return;
  throw Error(with_hint(make_problem(ProblemId::usage, {.path = out}, "the name of a file", "a folder"),
                        is_model ? "consolidate and convert write files" : other->second));
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

void add_model_file(Command& c, ModelFileFlags& f) {
  c.flag("--weights-only-safe", f.weights_only_safe, "Leave out objects that torch.load(weights_only=True) refuses").in("Which keys");
  c.option("--max-shard-size", f.max_shard_size, "SIZE", "Write a folder of safetensors shards of at most SIZE").in("Writing");
  c.option("--like-index", f.like_index, "REF",
           "Write a folder of safetensors files, each tensor in the same file as in the index of the model REF")
      .reads(Offer::kFolders)
      .excludes("--max-shard-size")
      .in("Writing");
  c.option(
       "--assets", f.assets, "DIR",
       "A model for transformers and vLLM: copy configuration, tokenizer and generation files from the folder DIR; implies --map auto and "
       "--max-shard-size 5GB")
      .reads(Offer::kFolders)
      .in("Writing");
  c.flag("--mcore-shapes", f.mcore_shapes, "Give tensors the shapes of Megatron's mcore_data, not those that torch sees").in("Writing");
  if (Option* set = c.find("--set")) set->needed.clear();  // --assets implies a map
}

static bool is_npz(const std::string& out) { return out.ends_with(".npz") || out.ends_with(".NPZ"); }

std::optional<OutputRequest> model_file(const std::string& out, const ModelFileFlags& flags) {
  using Kind = OutputRequest::Kind;
  OutputRequest request{
      .path = out, .weights_only_safe = flags.weights_only_safe, .mcore_shapes = flags.mcore_shapes, .assets = flags.assets};
  const std::optional<Kind> file = is_npz(out) ? Kind::kNpz : model_file_kind(out);
  const bool is_sized = !flags.max_shard_size.empty() || !flags.like_index.empty();
  if (!flags.assets.empty() && file && !is_sized) fail(ProblemId::usage, {.path = out}, "--assets with one file", "a folder name");
  if (is_sized || !flags.assets.empty()) {
    if (file && !out.ends_with(".bin"))
      fail(ProblemId::usage, {.path = out},
           std::string("a file name together with ") + (flags.like_index.empty() ? "--max-shard-size" : "--like-index"), "a folder name");
    request.kind = Kind::kShards;
    request.like_index = flags.like_index;
    if (!flags.like_index.empty()) return request;
    request.max_shard_bytes = parse_size(flags.max_shard_size.empty() ? "5GB" : flags.max_shard_size);
    if (request.max_shard_bytes == 0) fail(ProblemId::usage, {}, "--max-shard-size " + flags.max_shard_size, "a size greater than zero");
    return request;
  }
  if (!file) return std::nullopt;
  request.kind = *file;
  return request;
}

}  // namespace dcp::cmd
