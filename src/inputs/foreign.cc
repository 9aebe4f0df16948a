#include "inputs/foreign.h"

#include <algorithm>

#include "format/legacy_torch.h"

namespace dcp {
namespace {

using std::string_view_literals::operator""sv;

struct Magic {
  std::string_view bytes;
  Foreign is;
  size_t at = 0;
};
// torch before 0.2 wrote a tar of these files, which torch.load reads only if it may run code from it.
constexpr Foreign kTorchTar = {"a torch.save file in the tar form of torch 0.1",
                               "if you trust it, rewrite it with torch: torch.save(torch.load(FILE, weights_only=False), NEW)"};
constexpr Magic kMagics[] = {
    {"sys_info\0"sv, kTorchTar},
    {"pickle\0"sv, kTorchTar},
    {"tensors\0"sv, kTorchTar},
    {"storages\0"sv, kTorchTar},
    {"ustar"sv, {"a tar archive", "unpack it first"}, 257},
    {"GGUF"sv, {"a GGUF file", ""}},
    {"\x93NUMPY"sv, {"a numpy .npy file", ""}},
    {"\x89HDF\r\n\x1a\n"sv, {"an HDF5 file", ""}},
    {"\x1f\x8b"sv, {"a gzip file", "unpack it first"}},
    {"\x28\xb5\x2f\xfd"sv, {"a zstd file", "unpack it first"}},
    {"PK\x03\x04"sv, {"a zip archive that is not a torch.save file", ""}},
    {"\x80\x02"sv, {"a pickle, not a torch.save file", ""}},
    {"\x80\x03"sv, {"a pickle, not a torch.save file", ""}},
    {"\x80\x04"sv, {"a pickle, not a torch.save file", ""}},
    {"\x80\x05"sv, {"a pickle, not a torch.save file", ""}},
};

struct Marker {
  std::string_view file;  // its name, or how it begins
  Foreign is;
};
constexpr Foreign kDeepSpeed{"a DeepSpeed checkpoint", "zero_to_fp32.py of DeepSpeed writes the model as a file that dcpctl reads", true};
constexpr Marker kMarkers[] = {
    {".snapshot_metadata", {"a torchsnapshot snapshot", "read it with torchsnapshot and save it with torch.distributed.checkpoint"}},
    {"zero_to_fp32.py", {"a DeepSpeed checkpoint", "its zero_to_fp32.py writes the model as a file that dcpctl reads", true}},
    {"mp_rank_", kDeepSpeed},
    {"zero_pp_rank_", kDeepSpeed},
    {"bf16_zero_pp_rank_", kDeepSpeed},
    {"saved_model.pb", {"a TensorFlow SavedModel", ""}},
    {"_CHECKPOINT_METADATA", {"an Orbax checkpoint", ""}},
    {"manifest.ocdbt", {"an Orbax checkpoint", ""}},
};

}  // namespace

Foreign foreign_file(Bytes head) {
  for (const Magic& m : kMagics)
    if (head.size() >= m.at && as_text(head.subspan(m.at)).starts_with(m.bytes)) return m.is;
  return {};
}

bool is_torch_file(Bytes head) {
  if (begins_legacy_torch(head)) return true;
  constexpr uint64_t kLocalBytes = 30, kNameBytesAt = 26;  // of the first record's header, before its name
  const std::string_view text = as_text(head);
  if (!text.starts_with("PK\x03\x04") || text.size() < kLocalBytes) return false;
  const uint64_t name_bytes = load_le<uint16_t>(head.data() + kNameBytesAt);
  return name_bytes > text.size() - kLocalBytes || text.substr(kLocalBytes, name_bytes).find('/') != std::string_view::npos;
}

Foreign foreign_folder(const std::vector<std::string>& names) {
  for (const Marker& m : kMarkers)
    if (std::ranges::any_of(names, [&](const std::string& name) { return name.starts_with(m.file); })) return m.is;
  return {};
}

}  // namespace dcp
