#include "request/source.h"

#include "app/resources.h"
#include "line/command.h"
#include "line/network.h"
#include "line/option_values.h"
#include "line/sandbox.h"

namespace dcp::cmd {

void add_source(Command& c, Context& context, SourceFlags& flags) {
  const std::string group = "Source";
  c.argument("CKPT", flags.path, "DCP folder, torch.save or safetensors file, folder of such files, or a run folder with --step")
      .is_source()
      .reads()
      .is_required();
  c.option("--step", flags.step, "N|latest", "CKPT is a run folder: take step N, or 'latest' (the newest complete one)")
      .opens(Access::kSteps)
      .offers(Offer::kSteps)
      .in(group);
  add_pattern(c, flags.pattern, group).needs("--step");
  c.number("--prefer-rank", flags.prefer_rank, "R", "Where ranks wrote different values for one key, use rank R's").in(group);
  c.number("--shards-on-dim", flags.shards_on_dim, "D",
           "Plain tensors in files of ranks are shards, as to_local() gives: join them on dim D")
      .in(group);
  c.option("--replicated", flags.replicated, "GLOB",
           "With --shards-on-dim, tensors that every rank has whole; 'none': all are shards (default: as a reference or config.json says)")
      .needs("--shards-on-dim")
      .in(group);
  c.option("--max-pickle", flags.max_pickle, "SIZE", "Largest pickle to read (default: 1GiB of an object, 256MiB of a torch.save file)")
      .in(group);
  c.flag("--follow-links", flags.follow_links, "Follow symbolic links inside the checkpoint").opens(Access::kEverywhere).in(group);
  add_sandbox(c, context);
  add_network(c, context);
}

Option& add_pattern(Command& c, std::string& pattern, const std::string& group) {
  return c.option("--pattern", pattern, "REGEX", "Steps are the folders whose name matches REGEX; its one group is the number").in(group);
}

SourceRequest SourceFlags::request() const {
  return {.path = path,
          .step = step,
          .pattern = pattern,
          .prefer_rank = prefer_rank,
          .shards_on_dim = shards_on_dim,
          .replicated = replicated,
          .follow_links = follow_links,
          .max_pickle = max_pickle.empty() ? std::nullopt : std::optional(parse_size(max_pickle))};
}

void add_max_memory(Command& c, std::string& max_memory, const std::string& group) {
  c.option("--max-memory", max_memory, "SIZE", "Hard cap on memory (default: half of the machine's, at most 16GiB)").in(group);
}

void add_threads(Command& c, unsigned& threads, const std::string& group) {
  c.number("-j,--threads", threads, {1u, 1024u}, "N", "Worker threads (default: cores, at least 4, at most 16)").in(group);
}

uint64_t reading_cap(const std::string& max_memory) { return max_memory.empty() ? default_reading_cap() : parse_size(max_memory); }

}  // namespace dcp::cmd
