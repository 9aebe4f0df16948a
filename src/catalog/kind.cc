#include "catalog/kind.h"

#include <array>

namespace dcp {
namespace {

constexpr std::array<KindTraits, static_cast<size_t>(kLastKind) + 1> kTraits = {{
    {.name = "dcp", .words = "DCP checkpoint", .has_metadata = true},
    {.name = "dcp-rank-local", .words = "rank-local DCP checkpoint", .has_metadata = true, .of_ranks = true},
    {.name = "torch", .words = "torch.save file", .written_as = WrittenAs::kTorchFile, .in_torch_files = true},
    {.name = "safetensors", .words = "safetensors file", .written_as = WrittenAs::kSafetensorsFile, .tensors_only = true},
    {.name = "hf", .words = "folder of safetensors files", .written_as = WrittenAs::kHfFolder, .tensors_only = true},
    {.name = "torch-ranks", .words = "folder of torch.save files of ranks", .of_ranks = true, .in_torch_files = true},
    {.name = "torch-checkpointing", .words = "checkpoint of torch_checkpointing", .of_ranks = true, .in_torch_files = true},
}};

}  // namespace

const KindTraits& traits_of(CheckpointKind kind) { return kTraits[static_cast<size_t>(kind)]; }

}  // namespace dcp
