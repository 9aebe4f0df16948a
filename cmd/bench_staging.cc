// dcpctl bench staging: what copying a checkpoint from a GPU to the host costs.
#include <algorithm>
#include <optional>

#include "app/small_file.h"
#include "commands.h"
#include "html.h"
#include "sandbox.h"
#include "staging/cpu_device.h"
#include "staging/host_memory.h"
#include "staging_report.h"
#include "staging_request.h"
#include "staging_save.h"
#include "text_file.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Measures how long training is blocked while a checkpoint is copied from a GPU to host memory, for each way of doing it:

  pageable           ordinary memory, allocated for each save
  pinned-fresh       pinned memory, allocated for each save
  pinned-reused      pinned memory, allocated once and kept
  registered         ordinary memory, allocated and pinned once
  registered-huge    the same on huge pages
  pinned-coalesced   pinned and kept; tensors up to 1 MiB are gathered on the GPU and copied as one

What is copied: buffers of sizes A to B (each four times the one before), the tensors of a known model, or those of a checkpoint. Setup is
what a kept buffer costs once; blocks is what each save costs: allocating, touching and copying. The verdict is about the largest workload.

With --save a training loop writes real checkpoints, by default in each of the three modes that trainers know: disabled (training stands
still until the checkpoint is written), async (it stands still while tensors are copied to ordinary memory) and async_with_pinned_mem
(they are copied to pinned memory beside the next forward and backward). torch loads them.

Without a GPU, --device cpu measures copies between host buffers with the same code, threads as streams and mlock as pinning.

  dcpctl bench staging --sizes 1KiB..1GiB --html staging.html
  dcpctl bench staging --model llama-8b --optimizer --world-size 8
  dcpctl bench staging --like step-1000 --rank 0 --device cpu
  dcpctl bench staging --save /scratch/try --model llama-1b --optimizer \
    --html modes.html)";

struct Options {
  StagingRequest what;
  SaveFlags save;
  std::string html;
  bool force = false;
};

// The page of --html, whole or not at all.
void save_page(const Options& o, const std::string& page, Context& context) {
  save_small_file(context, o.html, page, {.replace = o.force ? Replace::kYes : Replace::kNo});
}

std::string answer(const Options& o, const StagingReport& report, const std::optional<TrainingReport>& training, Context& context) {
  if (!o.html.empty())
    save_page(o, html_page("dcpctl bench staging", kStagingStyle, report.html_head() + (training ? training->html() : report.html())),
              context);
  if (!context.common.json) {
    report.print_head(context);
    if (training) training->print(context);
    else report.print(context);
  }
  std::string document;
  JsonWriter json([&](std::string_view text) { document += text; });
  json.begin_object().member("schema", "dcpctl.bench.staging/1");
  report.json_head(json);
  if (training) training->json(json);
  else report.json(json);
  json.end_object();
  json.finish();
  if (context.common.json) context.print(document);
  return document;
}

std::string run(const Options& o, Context& context) {
  StagingReport report;
  const DcpctlDeviceTable& table = device_table(o.what, report);
  report.host_copies = &table == &cpu_device_table();
  const std::vector<uint32_t> wanted = wanted_devices(o.what, device_count(table));
  if (!o.html.empty()) check_output_free(context.io, o.html, false, o.force ? Replace::kYes : Replace::kNo);
  report.workloads = workloads_of(o.what, context);
  report.curve = o.what.model.empty() && o.what.like.path.empty() && o.what.count == 1;
  report.nodes = o.what.no_numa ? std::vector<int>{0} : memory_nodes();
  if (!o.save.folder.empty() && ((o.what.model.empty() && o.what.like.path.empty()) || wanted.size() > 1))
    fail(ProblemId::usage, {}, wanted.size() > 1 ? "--save with several devices" : "--save without tensors of a checkpoint",
         wanted.size() > 1 ? "one" : "--model or --like beside it");
  cases_of(o.what, {-1});  // a mistake in a list is told before anything is allocated

  std::vector<std::unique_ptr<Device>> devices;
  for (const uint32_t d : wanted) devices.push_back(std::make_unique<Device>(table, d));
  uint64_t min_free = ~uint64_t{0};
  for (const auto& d : devices) report.devices.push_back(d->facts()), min_free = std::min(min_free, report.devices.back().free_bytes);
  check_memory(report.workloads, devices.size(), min_free, host_memory_facts().available_bytes,
               report.host_copies ? DeviceMemory::kHosts : DeviceMemory::kOwn);
  std::optional<TrainingReport> training;
  if (!o.save.folder.empty()) {
    training = run_training(o.save, *devices.front(), report.workloads.front(), context);
  } else {
    std::vector<StagingSource> sources;
    for (const auto& d : devices) sources.push_back(make_source(*d, report.workloads));
    report.link = link_under_load(*devices.front());
    measure_staging(o.what, sources, report, context);
  }
  return answer(o, report, training, context);
}

void add_flags(Command& c, Options& o) {
  StagingRequest& w = o.what;
  const std::string what = "What is copied", how = "How";
  c.option("--sizes", w.sizes, "RANGE", "Buffers of sizes from A to B, written A..B (default 1KiB..256MiB)").in(what);
  c.number("--count", w.count, {1u, 10000000u}, "N", "That many buffers of each size (default 1)").in(what);
  std::vector<std::string> names;
  for (const std::string_view n : model_names()) names.emplace_back(n);
  c.option("--model", w.model, "NAME", "The tensors of a model").one_of(names).excludes("--sizes").in(what);
  c.option("--like", w.like.path, "CKPT", "Tensors of the sizes that a checkpoint has")
      .reads()
      .excludes("--sizes")
      .excludes("--model")
      .in(what);
  c.option("--dtype", w.dtype, "DTYPE", "With --model: element type of the weights (default bfloat16)")
      .offers(Offer::kDtypes)
      .needs("--model")
      .in(what);
  c.flag("--optimizer", w.optimizer, "With --model: AdamW's state in float32 beside the weights").needs("--model").in(what);
  c.number("--world-size", w.world_size, {1u, 65536u}, "N", "With --model: only what one of N ranks has").needs("--model").in(what);
  c.number("--rank", w.rank, "R", "Which rank's part: with --model 0 by default, with --like all ranks'").excludes("--sizes").in(what);
  c.option("--device", w.device, "DEVICE", "Copy from cuda, cpu (host memory as the source) or auto (default)")
      .one_of({"auto", "cuda", "cpu"})
      .in(how);
  c.option("--devices", w.devices, "LIST", "Which devices, at the same time: all, or numbers with commas (default 0)").in(how);
  c.option("--methods", w.methods, "LIST", "Only these ways, with commas between").in(how);
  c.option("--streams", w.streams, "LIST", "Numbers of streams to try (default 1,2)").in(how);
  c.option("--chunks", w.chunks, "LIST", "Largest single copies to try (default whole,16MiB)").in(how);
  c.number("--repeats", w.measure.repeats, {1u, 10000u}, "N", "Measured saves of each (default 7)").in(how);
  c.number("--warmup", w.measure.warmup, {0u, 10000u}, "N", "Saves before them that do not count (default 2)").in(how);
  c.flag("--no-numa", w.no_numa, "Leave to the kernel where buffers lie, on machines with several NUMA nodes").in(how);
  add_save(c, o.save);
  c.option("--html", o.html, "FILE", "Write a page with the curves to FILE").writes().in("Output");
  c.flag("--force", o.force, "Replace the file of --html").in("Output");
}

}  // namespace

void add_bench_staging(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  c.details = kText;
  add_flags(c, *options);
  add_common(c, context, true);
  c.run = [options, &context] { return run_reported(context, {.output = options->html}, [&] { return run(*options, context); }); };
}

}  // namespace dcp::cmd
