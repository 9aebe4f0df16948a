// A torch.save file: its state dict, flattened (catalog/state_dict.h), each tensor one chunk.
#include "catalog/build.h"
#include "catalog/torch_files.h"
#include "inputs/foreign.h"
#include "inputs/input.h"
#include "inputs/torch_ranks.h"
#include "inputs/torch_reader.h"

namespace dcp {
namespace {

// A tensor's item is the record of its storage, which tensors may share; a byte item's is data.pkl. Throws what src/format and src/pickle
// throw, torch_no_state_dict, state_dict_*; not_checkpoint for archives of other kinds (TorchScript, torch.export).
OpenedCatalog open_torch_file(Found& found) {
  Store& store = found.store();
  const std::string& path = found.path();
  const OpenOptions& options = found.options();
  std::unique_ptr<TorchFile> file = read_torch_file(store, OpenFile(store, store.open_read(path)), path, options.limits);
  StateDict state(*file->graph, file->archive.pickle_place, options.limits);
  const std::string name = found.name();
  auto torch = std::make_shared<TorchFiles>();
  TorchFacts facts;
  EntryValues values;
  const PartOf no_part = [&](const StateDict::Leaf& leaf) -> std::optional<TensorPart> {
    if (!is_one_ranks(leaf.tensor.cls)) return {};
    Problem p = make_problem(ProblemId::torch_rank_part, {.path = path}, leaf.tensor.cls);
    if (is_rank_file(name)) p.hint = "give the folder: the files of all ranks are one checkpoint";
    throw Error(std::move(p));
  };
  const MetadataContent content = read_state_dict(*file, {name, state}, no_part, facts, options.limits);
  OpenedCatalog opened = build_catalog(content, path, found.folder(), CheckpointKind::kTorch, &values);
  Catalog& catalog = opened.catalog;
  catalog.provenance = {};
  catalog.single_file = true;
  catalog.files[0].raw = true;
  std::ranges::move(facts.findings, std::back_inserter(opened.findings));
  if (const auto& bad = file->graph->machine().bad_text())
    opened.unloadable.push_back(make_problem(ProblemId::pickle_unloadable, bad->place, bad->got, "UTF-8"));
  take_facts(std::move(facts), values, *torch);
  torch->odd_keys = file->odd_keys;
  torch->files.push_back(std::move(file));
  catalog.torch = std::move(torch);
  return opened;
}

}  // namespace

const Input torch_file_input{.is_at = [](Found& found) { return !found.is_folder() && is_torch_file(found.head()); },
                             .open = open_torch_file,
                             .is_file =
                                 [](std::string_view name) {
                                   return name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".bin") ||
                                          name.ends_with(".ckpt");
                                 }};

}  // namespace dcp
