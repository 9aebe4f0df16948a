// Folders of torch_checkpointing: which part of a tensor lies where in which file.
#include "plan/item_folder.h"

#include <catch2/catch_test_macros.hpp>

#include "catalog/made_blobs.h"
#include "plan/opened.h"

using namespace dcp;
using namespace dcp::test;

namespace {

MadeTensor item_tensor(const std::string& key, const Ints& dims) {
  return {.key = key, .dtype = DType::float32, .dims = dims, .chunks = {{.offsets = Ints(dims.size(), 0), .sizes = dims}}};
}

struct LaidItems {
  LaidItems(std::vector<MadeTensor> tensors, const DcpLayoutOptions& where) {
    MadeCheckpoint made;
    made.tensors = std::move(tensors);
    made.put(io, "ckpt");
    opened.emplace(io, "ckpt");
    plan = plan_item_folder({opened->catalog, opened->resolved}, opened->selection, {.where = where, .device_type = ""});
  }
  // "FILE@AT: offsets+sizes | ..." of a tensor's regions; AT from the beginning of its first region in the file, in elements.
  std::string regions(uint32_t tensor) const {
    const PlanTensor& p = plan.tensors.at(tensor);
    std::map<uint32_t, uint64_t> first;
    for (uint32_t r = p.first_region; r < p.first_region + p.region_count; ++r) {
      const auto [it, fresh] = first.try_emplace(plan.regions[r].file, plan.regions[r].file_offset);
      it->second = std::min(it->second, plan.regions[r].file_offset);
    }
    std::string text;
    const auto list = [&](Dims numbers) {
      for (size_t d = 0; d < numbers.size(); ++d) text += (d > 0 ? "," : "") + std::to_string(numbers[d]);
    };
    for (uint32_t r = p.first_region; r < p.first_region + p.region_count; ++r) {
      const Region& region = plan.regions[r];
      text += (text.empty() ? "" : " | ") + plan.files[region.file].name + "@" +
              std::to_string((region.file_offset - first[region.file]) / 4) + ": ";
      list(plan.box(region).offsets);
      text += "+";
      list(plan.box(region).sizes);
    }
    return text;
  }
  FakeIo io;
  std::optional<Opened> opened;
  Plan plan;
};

DcpLayoutOptions items_on(uint32_t world) { return {.limits = {}, .units = {}, .world_size = world, .mesh = {}, .rules = {}}; }
DcpLayoutOptions items_placed(const std::string& sizes, const std::string& placements) {
  Mesh mesh = parse_mesh(sizes, "");
  const auto world = static_cast<uint32_t>(mesh.ranks());
  std::vector<PlacementRule> rules{{"*", parse_placements(placements, mesh)}};
  return {.limits = {}, .units = {}, .world_size = world, .mesh = std::move(mesh), .rules = std::move(rules)};
}

}  // namespace

TEST_CASE("every rank has its part of each tensor, an empty one too, and all of what is not split") {
  const LaidItems laid({item_tensor("model.w", {4, 2}), item_tensor("model.step", {})}, items_on(3));
  CHECK(laid.regions(0) == "model_0.pt@0: 0,0+2,2 | model_1.pt@0: 2,0+2,2 | model_2.pt@0: 4,0+0,2");
  CHECK(laid.regions(1) == "model_0.pt@0: + | model_1.pt@0: + | model_2.pt@0: +");
  std::string names;
  for (const OutputFile& f : laid.plan.files) names += f.name + " ";
  CHECK(names == "model_0.pt model_1.pt model_2.pt metadata.pkl ");
}

TEST_CASE("parts of a tensor that are not adjacent lie one after the other, by rows where they are columns") {
  CHECK(LaidItems({item_tensor("model.w", {9})}, items_placed("2x2x2", "strided(0),shard(0),shard(0)")).regions(0) ==
        "model_0.pt@0: 0+2 | model_4.pt@0: 2+1 | model_1.pt@0: 3+1 | model_2.pt@0: 4+1 | model_5.pt@0: 5+1 | model_2.pt@1: 6+1 | "
        "model_3.pt@0: 7+1 | model_6.pt@0: 8+1 | model_7.pt@0: 9+0");
  const std::string columns = LaidItems({item_tensor("model.w", {2, 9})}, items_placed("2x2x2", "strided(1),shard(1),shard(1)")).regions(0);
  for (const char* part : {"model_2.pt@0: 0,4+1,1", "model_2.pt@1: 0,6+1,1", "model_2.pt@2: 1,4+1,1", "model_2.pt@3: 1,6+1,1"})
    CHECK(columns.find(part) != std::string::npos);
}
