#include "source.h"

#include <algorithm>

#include "catalog/open_torch.h"
#include "catalog/run.h"
#include "command.h"
#include "problem_words.h"
#include "sandbox.h"
#include "together.h"

namespace dcp::cmd {

void add_source(Command& c, Context& context, SourceFlags& flags) {
  const std::string group = "Source";
  c.argument("CKPT", flags.path, "DCP folder, torch.save or safetensors file, folder of safetensors files, or a run folder with --step")
      .reads()
      .is_required();
  c.option("--step", flags.step, "N|latest", "CKPT is a run folder: take step N, or 'latest' (the newest complete one)")
      .opens(Access::kSteps)
      .offers(Offer::kSteps)
      .in(group);
  c.option("--pattern", flags.pattern, "REGEX", "Steps are the folders whose name matches REGEX; its one group is the number")
      .needs("--step")
      .in(group);
  c.number("--prefer-rank", flags.prefer_rank, "R", "Where ranks wrote different values for one key, use rank R's").in(group);
  c.option("--max-pickle", flags.max_pickle, "SIZE", "Largest pickle to read (default: 1GiB of an object, 256MiB of a torch.save file)")
      .in(group);
  c.flag("--follow-links", flags.follow_links, "Follow symbolic links inside the checkpoint").opens(Access::kEverywhere).in(group);
  add_sandbox(c, context);
}

Limits SourceFlags::limits(uint64_t memory_bytes) const {
  Limits limits{.memory_bytes = memory_bytes};
  constexpr uint64_t kMost = uint64_t{1} << 56;  // 16 times as much, and sums with that, stay in 64 bits
  if (!max_pickle.empty())
    limits.blob_bytes = limits.decoded_bytes = limits.item_pickle_bytes = limits.archive_pickle_bytes =
        std::min(parse_size(max_pickle), kMost);
  return limits;
}

std::string_view kind_name(CheckpointKind kind) {
  switch (kind) {
    case CheckpointKind::kDcp: return "dcp";
    case CheckpointKind::kDcpRankLocal: return "dcp-rank-local";
    case CheckpointKind::kTorch: return "torch";
    case CheckpointKind::kSafetensors: return "safetensors";
    case CheckpointKind::kHf: return "hf";
  }
  return "";
}

namespace {

Catalog open_from(Io& io, const SourceFlags& flags, const Context& context, uint64_t memory_bytes) {
  const OpenOptions options{.limits = flags.limits(memory_bytes), .links = flags.links(), .prefer_rank = flags.prefer_rank};
  std::string path = flags.path;
  if (!flags.step.empty()) {
    std::vector<Step> broken;
    const auto tell = [&] {
      for (const Step& s : broken) context.note("passed over: " + to_line(worded(*s.broken)));
    };
    try {
      path = find_step(io, flags.path, flags.step, flags.pattern, options, broken, context.command);
    } catch (const Error& e) {
      if (e.problem().id == ProblemId::step_in_parts) tell();
      throw;
    }
    tell();
    context.note("step: " + escaped(path));
  }
  Catalog catalog = open_checkpoint(io, path, options);
  look_at_files(io, catalog, options.links);
  if (flags.prefer_rank && catalog.kind != CheckpointKind::kDcpRankLocal)
    context.note("--prefer-rank has nothing to choose from: every key was written once");
  if (catalog.torch && catalog.torch->odd_keys.count > 0)
    context.note("keys of dicts that are neither text nor integers become text: " + counted(catalog.torch->odd_keys.count, "key") +
                 ", such as " + escaped(catalog.torch->odd_keys.example));
  return catalog;
}

}  // namespace

Catalog open_source(const SourceFlags& flags, const Context& context, uint64_t memory_bytes) {
  return open_from(context.io, flags, context, memory_bytes);
}

Catalog open_together(const SourceFlags& flags, const Context& context, uint64_t memory_bytes) {
  if (!context.together) return open_source(flags, context, memory_bytes);
  Crew& crew = context.together->crew;
  const std::unique_ptr<Io> more = flags.step.empty() ? crew.metadata_of_all(context.io, flags.path) : nullptr;
  Catalog mine;
  if (crew.leads()) mine = open_from(more ? *more : context.io, flags, context, memory_bytes);
  return crew.share(std::move(mine), context.io, flags.links());
}

}  // namespace dcp::cmd
