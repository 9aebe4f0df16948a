#include "app/write.h"

#include <algorithm>
#include <set>

#include "app/model_config.h"
#include "app/ranked_run.h"
#include "app/resources.h"
#include "base/text.h"
#include "catalog/state_dict.h"
#include "catalog/structure.h"
#include "exec/read_back.h"
#include "files/file_set.h"
#include "items/predicted_heads.h"
#include "pickle/graph.h"
#include "ranks/blocks.h"

namespace dcp {
namespace {

// --- what is refused

// Of these byte items, those that hold tensors and are weights in the form of an object (TrainingState::weights_in). One that cannot be read is
// none.
std::vector<BlobId> weights_among(const Opened& opened, std::vector<BlobId> blobs, const TrainingState& state, World& world) {
  const Catalog& catalog = opened.catalog();
  const auto kind = [&](BlobId b) { return state.weights_in(catalog, b); };
  std::erase_if(blobs, [&](BlobId b) { return kind(b) == Weights::kNot; });
  if (blobs.empty()) return {};
  const Resolved found = resolve(opened, {.parts = {.tensors = {}, .blobs = blobs}, .faults = Faults::kCollect}, world);
  std::set<ItemId> items;
  for (const ItemRecord& r : found.records)
    if (r.is_data) items.insert(r.item);
  std::vector<BlobId> weights, doubtful;
  for (const BlobId b : blobs)
    if (items.contains(found.first_of(catalog.item_of(b)))) (kind(b) == Weights::kAny ? weights : doubtful).push_back(b);
  if (doubtful.empty()) return weights;
  // Few hold tensors: their pickles say how.
  const Resolved read = resolve(opened, {.parts = {.tensors = {}, .blobs = doubtful}}, world);
  for (const BlobId b : doubtful)
    if (const auto blob = read.blobs.find(read.first_of(catalog.item_of(b)));
        blob != read.blobs.end() &&
        holds_tensors_in_own_way(PickleGraph(blob->second.item.pickle, {.path = catalog.path}, opened.limits()), opened.limits()))
      weights.push_back(b);
  return weights;
}

// Objects with tensors, as a tensor of a class that pickles it in a way of its own, packed parameters of quantized modules, whole modules, are
// weights: a model without them is not the model, and one in which they keep their dtype is not of the new one. Not all that a state dict without
// a root holds is a model's.
void refuse_weights_in_objects(const Opened& opened, const DtypeOptions& given, const Selection& selection, const OutputForm& form,
                               World& world) {
  const auto refuse = [&](const std::vector<BlobId>& objects, ProblemId id, Remedy remedy) {
    const std::vector<BlobId> weights = weights_among(opened, objects, selection.state, world);
    if (weights.empty()) return;
    const Catalog& catalog = opened.catalog();
    constexpr size_t kNamed = 20;
    std::string names;
    for (size_t i = 0; i < weights.size() && i < kNamed; ++i)
      names += (i == 0 ? "" : ", ") + std::string(catalog.key(catalog.blobs[weights[i]])) + " (an object that holds tensors)";
    if (weights.size() > kNamed) names += " and " + std::to_string(weights.size() - kNamed) + " more";
    throw Error(with_remedy(make_problem(id, {.path = catalog.path}, names), remedy));
  };
  const DtypeOptions dtypes = meant_rules(given, selection);
  std::vector<BlobId> objects;
  for (const Entry& e : selection.entries)
    if (e.is_blob() && (!form.blobs || is_to_be_cast(dtypes, e.key))) objects.push_back(e.blob());
  if (form.blobs) refuse(objects, ProblemId::cast_opaque, Remedy::kOfId);
  else
    refuse(objects, ProblemId::no_dtype_in_output,
           dtypes.dtype ? Remedy::kFewerKeys : Remedy::kOfId);  // nor does a .pt of another dtype hold them
  refuse(selection.dropped_blobs, ProblemId::weights_left_out, Remedy::kOfId);
}

// The part of the one tensor that is selected.
TensorSlice part_of(const Catalog& catalog, const Selection& selection, const Subscript& slice) {
  const Entry& e = selection.entries.front();
  if (e.is_blob())
    fail(ProblemId::usage, {.path = catalog.path, .tensor = std::string(e.key), .object = true}, "a slice of an object", "a tensor");
  return {.tensor = e.tensor(), .axes = slice.of(catalog.dims(catalog.tensors[e.tensor()]))};
}

maps::Reformed reform(Ready& ready, maps::OptimizerForm form, Selection& selection) {
  maps::Reformed made = maps::reform(ready.source(), form, ready.opened.limits(), selection);
  if (!made.lists.empty()) ready.derived = std::make_unique<const Derived>(with_objects(ready.source(), made.lists));
  return made;
}

// What is expected of the output, what it is to be laid out like, and its configuration show which tensors each rank has whole.
void add_known_shapes(const WriteRequest& request, Store& store, const Catalog& catalog, WholeShapes& shapes) {
  std::vector<std::string> configs;
  if (!request.map.config.empty()) configs.push_back(request.map.config);
  if (!request.output.assets.empty()) configs.push_back(request.output.assets + "/config.json");
  WholeShapes by_config = shapes_by_config(catalog, configs, store);
  by_config.swap(shapes);  // of two, the one that was given
  shapes.merge(by_config);
  bool may_lack_shards = false;
  for (const std::string& reference : {request.output.layout.like, request.expect.reference})
    if (!reference.empty()) add_shapes(catalog, request.select, read_reference(store, reference, may_lack_shards), shapes);
}

// What a missing file could have held is not missing where the result is what was expected, unless the reference may lack it, too.
void weigh_missing_shards(World& world, WriteResult& result) {
  if (result.expectation.reference.empty() || std::ranges::none_of(result.warnings, tells_unseen_shards)) return;
  if (result.expectation.may_lack_shards)
    world.events.info(world.events.name_of("expect") + " " + escaped(result.expectation.reference) +
                      " cannot show what is missing: it may lack the same");
  else std::erase_if(result.warnings, tells_unseen_shards);
}

// --- the second half: the plan is carried out, in this process alone or on several ranks

// What the ranks have between them for one output; with one process, nothing.
struct Shared {
  RankedRun& ranks;
  bool all_write;
  Blocks blocks;
  Exchange exchange;
  Shared(RankedRun& run, const WriteRequest& request, const Plan& plan, const Source& source, unsigned workers)
      : ranks(run),
        all_write(request.read.ranks.all_write),
        blocks(plan, run.session.world_size()),
        exchange(run.session, run.group.visibility(),
                 {.plan = plan,
                  .source = source,
                  .units = all_write ? deal_by_blocks(plan, source.catalog, blocks, run.session.world_size())
                                     : deal_to_rank0(plan, run.session.world_size()),
                  .writers = all_write ? Writers::kAll : Writers::kRank0,
                  .workers = workers}) {}
};

class Writing {
 public:
  Writing(const WriteRequest& request, World& world, WriteResult& result)
      : request_(request), world_(world), result_(result), plan_(*result.plan), source_(result.source->source()) {
    for (const OutputFile& f : plan_.files) specs_.push_back({f.name, f.bytes});
    if (world.ranks) shared_.emplace(*world.ranks, request, plan_, source_, result.workers);
  }

  void run() {
    if (!shared_ || shared_->ranks.group.leads()) return lead();
    if (shared_->all_write) write_part();
    else serve();
  }

 private:
  bool all_write() const { return shared_ && shared_->all_write; }

  // Does the units of this process, and, where others do units as well, reads for them at the same time.
  void run_units(Sink& sink, Progress& progress) {
    const ExecuteOptions options{
        .workers = result_.workers, .fp8_overflow = request_.fp8_overflow, .supply = shared_ ? &shared_->exchange : nullptr};
    const auto units = [&] { return execute(plan_, source_, sink, options, {progress, world_.stop}); };
    result_.executed = all_write() ? execute_together(world_, shared_->exchange, result_.workers, progress, units) : units();
  }

  void refuse_overflows() {
    std::optional<Problem> first;
    for (const TensorLosses& t : result_.executed.losses) {
      if (t.values.overflowed == 0) continue;
      Problem p = make_problem(ProblemId::cast_overflow, {.path = request_.read.source.path, .tensor = t.key},
                               counted(t.values.overflowed, "value") + ", " + from_to(t));
      if (first) world_.events.warn(world_.events.line_of(p));
      else first = std::move(p);
    }
    if (first) throw Error(std::move(*first));
  }

  std::vector<RankWork> gather_work(const Progress& progress) {
    return shared_->ranks.group.gather_work({.bytes_read = shared_->exchange.bytes_read(progress),
                                             .bytes_sent = shared_->exchange.bytes_sent(),
                                             .bytes_written = progress.bytes_written,
                                             .nanoseconds = world_.io.now_ns() - result_.begin_ns,
                                             .peak_bytes = peak_rss_bytes()},
                                            shared_->ranks.session.host());
  }

  // Rank 0 writes, this is another rank: it reads what it sees, in the order of rank 0's workers.
  void serve() {
    Progress progress;
    shared_->exchange.serve(result_.workers, progress, world_.stop);
    gather_work(progress);
  }

  // All write, another rank: writes its blocks of the files that rank 0 has made.
  void write_part() {
    std::vector<uint64_t> bytes;
    for (const FileSpec& f : specs_) bytes.push_back(f.bytes);
    SharedFiles files(world_.io, shared_->ranks.group.broadcast_texts({}), bytes, request_.sync);
    ClippedSink sink(files, shared_->blocks, shared_->ranks.session.rank());
    Progress progress;
    run_units(sink, progress);
    refuse_damage(result_.executed.damage, world_);
    sink.finish();
    gather_work(progress);
  }

  // One process, or rank 0: makes the output, writes all of it or its part, and commits.
  void lead() {
    FileSet output(world_.io, request_.output.path, specs_,
                   {.folder = plan_.folder, .replace = request_.replace, .sync = request_.sync, .open_files = open_file_shares().outputs});
    for (const std::string& n : output.found()) world_.events.info(n);
    for (const std::string& n : output.notes()) world_.events.verbose(n);
    if (all_write()) shared_->ranks.group.broadcast_texts(output.shared());
    SummedFiles summed(output, specs_);
    Sink& whole = request_.verify_after ? static_cast<Sink&>(summed) : output;
    std::optional<ClippedSink> part;
    if (all_write()) part.emplace(whole, shared_->blocks, 0);
    Sink& sink = part ? static_cast<Sink&>(*part) : whole;
    Progress progress;
    {
      const auto display = world_.events.show(progress, progress.bytes_written, plan_.bytes_to_write);
      run_units(sink, progress);
    }
    result_.executed.bytes_read += source_.resolved.bytes_read;
    refuse_damage(result_.executed.damage, world_);
    if (request_.strict_cast) refuse_overflows();
    sink.finish();
    if (request_.verify_after) summed.read_back(result_.workers, world_.stop);
    result_.verified_after = request_.verify_after;
    if (shared_) {
      shared_->ranks.work = gather_work(progress);
      shared_->ranks.session.check();
    }
    world_.check_stop();  // the last moment at which nothing has appeared
    sink.commit();
    result_.nanoseconds = world_.io.now_ns() - result_.begin_ns;
  }

  const WriteRequest& request_;
  World& world_;
  WriteResult& result_;
  const Plan& plan_;
  const Source source_;
  std::vector<FileSpec> specs_;
  std::optional<Shared> shared_;
};

// Says nothing again but what ends the run.
class SaidBefore : public Events {
 public:
  explicit SaidBefore(Events& events) : events_(events) {}
  void warn(std::string_view text) override { events_.warn(text); }
  std::unique_ptr<Display> show(const Progress& progress, const std::atomic<uint64_t>& done, uint64_t total) override {
    return events_.show(progress, done, total);
  }
  Problem worded(Problem problem) const override { return events_.worded(std::move(problem)); }
  std::string name_of(std::string_view setting) const override { return events_.name_of(setting); }

 private:
  Events& events_;
};

enum class Heads : uint8_t { kPredicted, kRead };

void write(const WriteRequest& request, World& world, WriteResult& result, const std::function<void()>& planned, Heads heads);

}  // namespace

void WriteResult::release() {
  plan.reset();
  CastSummary casts = std::move(selected.selection.casts);
  selected = {};
  selected.selection.casts = std::move(casts);
  source.reset();
}

void write(const WriteRequest& request, World& world, WriteResult& result, const std::function<void()>& planned) {
  const uint64_t begin = result.begin_ns = world.io.now_ns();
  // What a dry run prints is sure, and a file number has one meaning alone.
  if (request.dry_run || world.ranks || !request.fill_from.empty()) return write(request, world, result, planned, Heads::kRead);
  try {
    return write(request, world, result, planned, Heads::kPredicted);
  } catch (const UnlikeHead&) {
    world.events.verbose("items of one tensor differ in their heads: all are read first");
  }
  SaidBefore events(world.events);
  World again(world.store, world.io, world.stop, events);
  result = WriteResult();
  result.begin_ns = begin;
  write(request, again, result, planned, Heads::kRead);
}

namespace {

void write(const WriteRequest& request, World& world, WriteResult& result, const std::function<void()>& planned, Heads heads) {
  const OutputRequest& output = request.output;
  const OutputLayout layout = layout_of(output, world, request.read.source.path, request.read.max_memory);
  const uint64_t memory_cap = begin_reading(request.read, world);
  if (world.leads()) check_output_free(world.io, output.path, output.is_folder(), request.replace);

  const auto known_shapes = [&](const Catalog& c, WholeShapes& shapes) { add_known_shapes(request, world.store, c, shapes); };
  Opened opened = open(request.read, memory_cap, world, known_shapes);
  result.checkpoint = opened.catalog().path;
  refuse_source(output.path, opened.catalog());
  for (const Problem& p : opened.found->findings)
    if (p.severity <= Severity::kWarning) result.warnings.push_back(p);

  OutputForm form = form_of(output);
  SelectOptions options = request.select;
  options.no_extra_states = !form.blobs;
  options.dtypes.any_tensor = form.any_tensor;
  Selected& selected = result.selected;
  const bool is_filled = !request.fill_from.empty();
  // The other model says what the names are to be, as assets do.
  const std::string& configured = output.assets.empty() ? request.fill_from : output.assets;
  selected = select(opened, options, {.request = request.map, .assets = configured, .has_run = form.blobs, .is_filled = is_filled}, world);
  name_by_paths(opened.catalog(), selected.selection);
  Parts parts = check_selected(*opened.found, selected.selection, form);
  if (selected.map) parts = {.tensors = selected.map->sources(), .blobs = selected.map->objects()};
  // They are compared, and lists of parameters made anew.
  if ((selected.map && selected.map->run) || request.optimizer) form.blob_use = BlobUse::kPickles;
  refuse_weights_in_objects(opened, request.select.dtypes, selected.selection, form, world);
  std::optional<TensorSlice> part;
  if (request.slice) part = part_of(opened.catalog(), selected.selection, *request.slice);

  Resolved resolved = resolve(
      opened, {.parts = parts, .use = form.blob_use, .part = part ? &*part : nullptr, .predicts = heads == Heads::kPredicted}, world);
  compare_copies(opened, resolved, Faults::kThrow, world);
  result.source = part ? make_part(std::move(opened), selected, std::move(resolved), *part)
                       : make(std::move(opened), selected, std::move(resolved), request.select);
  result.filled =
      fill({.model = request.fill_from, .map = request.map, .assets = configured, .output = output.path}, *result.source, selected, world);
  if (request.optimizer) result.reformed = reform(*result.source, *request.optimizer, selected.selection);

  const Source source = result.source->source();
  const Plan& plan = result.plan.emplace(plan_output(output, layout, source, selected, world));
  if (world.ranks) world.ranks->group.check_same_plan(plan);
  check_expected(request.expect, {.source = source, .selection = selected.selection, .plan = plan}, world, result.expectation);
  weigh_missing_shards(world, result);
  result.workers = fit(result.source->opened, plan, request.verify_after ? kPassBytes : kMiB, world, result.planned_memory);
  planned();
  if (request.dry_run) {
    if (selected.map)
      for (const std::string& text : selected.map->tied) world.events.info(text);
    if (world.leads()) check_output_room(world.io, output.path, output.is_folder(), request.replace, plan.bytes_to_write);
    return;
  }
  compare_ties(*result.source, selected, result.workers, world);
  if (result.reformed) compare_ties(result.reformed->ties, result.source->opened.with(result.source->resolved), result.workers, world);
  Writing(request, world, result).run();
}

}  // namespace
}  // namespace dcp
