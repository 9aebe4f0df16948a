#include "app/digests.h"

#include <algorithm>

#include "app/ranked_run.h"

namespace dcp {
namespace {

uint64_t objects_of(const VerifyPlan& plan) {
  const auto count = std::ranges::count_if(plan.digests, [](const VerifyPlan::Digest& d) { return d.entry.is_blob(); }) +
                     std::ranges::count_if(plan.not_digested, &Entry::is_blob);
  return static_cast<uint64_t>(count);
}

}  // namespace

ExecuteReport run_digest_units(const DigestWork& work, DigestSink& sink, Progress& progress, World& world) {
  const auto& [plan, source, workers] = work;
  ExecuteOptions options{.workers = workers, .faults = Faults::kCollect};
  RankedRun* const ranks = world.ranks.get();
  if (!ranks) return execute(plan, source, sink, options, {progress, world.stop});
  Session& session = ranks->session;
  ranks->group.check_same_plan(plan);
  Exchange exchange(session, ranks->group.visibility(),
                    {.plan = plan,
                     .source = source,
                     .units = deal_to_readers(plan, source, ranks->group.visibility(), session.world_size()),
                     .writers = Writers::kAll,
                     .workers = workers});
  options.supply = &exchange;
  ExecuteReport executed =
      execute_together(world, exchange, workers, progress, [&] { return execute(plan, source, sink, options, {progress, world.stop}); });
  ranks->group.gather_digests(sink);
  executed.damage = ranks->group.gather_problems(std::move(executed.damage));
  ranks->work = ranks->group.gather_work(
      {.bytes_read = exchange.bytes_read(progress), .bytes_sent = exchange.bytes_sent(), .peak_bytes = peak_rss_bytes()}, session.host());
  executed.bytes_read = 0;
  for (const RankWork& w : ranks->work) executed.bytes_read += w.bytes_read;
  return executed;
}

Manifest manifest_of(const Catalog& catalog, const VerifyPlan& plan, const DigestSink& sink, const std::vector<FileSum>& files) {
  Manifest manifest;
  if (catalog.traits().has_metadata) manifest.objects.emplace();
  for (const auto& [e, file, is_object] : plan.digests) {
    const std::optional<uint64_t> digest = sink.digest(file);
    if (!digest) continue;  // a unit has failed, which is a finding
    if (is_object) {
      (*manifest.objects)[std::string(e.key)] = {.bytes = plan.plan.files[file].bytes, .crc64 = *digest};
      continue;
    }
    const Tensor& t = catalog.tensors[e.tensor()];
    manifest.tensors[std::string(e.key)] = {.dtype = std::string(facts_of(t.dtype).name), .shape = catalog.shape(t), .crc64 = *digest};
  }
  for (const FileSum& s : files) manifest.files[s.name] = {.bytes = s.bytes, .xxh3_128 = s.xxh3_128};
  return manifest;
}

Manifest read_manifest_file(const std::string& path, Store& store) {
  const Limits limits;
  const std::vector<std::byte> bytes = read_file(store, path, limits.json_bytes);
  return read_manifest(as_text(bytes), {.path = path}, limits);
}

ManifestComparison compare_with(Manifest expected, const Manifest& found, const VerifyPlan& plan, const Catalog& catalog, Subset subset) {
  const auto drop = [&](const Entry& e) {
    expected.tensors.erase(std::string(e.key));
    if (expected.objects && found.objects) expected.objects->erase(std::string(e.key));
  };
  for (const Entry& e : plan.not_digested) drop(e);
  for (const auto& [e, file, is_object] : plan.digests)
    if (!found.tensors.contains(std::string(e.key)) && !(found.objects && found.objects->contains(std::string(e.key)))) drop(e);
  return compare_manifests(
      expected, found, {.path = catalog.path},
      {.subset = subset, .files = catalog.single_file ? FilesAre::kItself : FilesAre::kBelow, .objects_here = objects_of(plan)});
}

}  // namespace dcp
