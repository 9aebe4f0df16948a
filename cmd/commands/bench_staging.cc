// dcpctl bench staging: what copying a checkpoint from a GPU to the host costs.
#include "line/commands.h"
#include "line/text_file.h"
#include "report/staging_run.h"

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

The workload is buffers of sizes A to B (each four times the previous one), the tensors of a known model, or those of a checkpoint. Setup is
the one-time cost of a kept buffer; blocks is the cost of each save: allocating, touching and copying. The verdict is about the largest
workload.

With --save a training loop writes real checkpoints, by default in each of the three modes that trainers offer: disabled (training stands
still until the checkpoint is written), async (it stands still while tensors are copied to ordinary memory) and async_with_pinned_mem (they
are copied to pinned memory beside the next forward and backward). torch loads them.

Without a GPU, --device cpu measures copies between host buffers with the same code, threads as streams and mlock as pinning.

  dcpctl bench staging --sizes 1KiB..1GiB --html staging.html
  dcpctl bench staging --model llama-8b --optimizer --world-size 8
  dcpctl bench staging --like step-1000 --rank 0 --device cpu
  dcpctl bench staging --save /scratch/try --model llama-1b --optimizer \
    --html modes.html)";

void add_flags(Command& c, StagingOptions& o) {
  StagingRequest& w = o.what;
  const std::string what = "What is copied", how = "How";
  c.option("--sizes", w.sizes, "RANGE", "Buffers of sizes from A to B, written A..B (default 1KiB..256MiB)").in(what);
  c.number("--count", w.count, {1u, 10000000u}, "N", "Number of buffers of each size (default 1)").in(what);
  std::vector<std::string> names;
  for (const std::string_view n : model_names()) names.emplace_back(n);
  c.option("--model", w.model, "NAME", "The tensors of a model").one_of(names).excludes("--sizes").in(what);
  c.option("--like", w.like.path, "CKPT", "The tensors of a checkpoint").reads().excludes("--sizes").excludes("--model").in(what);
  c.option("--dtype", w.dtype, "DTYPE", "With --model: element type of the weights (default bfloat16)")
      .offers(Offer::kDtypes)
      .needs("--model")
      .in(what);
  c.flag("--optimizer", w.optimizer, "With --model: AdamW's state in float32 beside the weights").needs("--model").in(what);
  c.number("--world-size", w.world_size, {1u, 65536u}, "N", "With --model: only the part of one of N ranks").needs("--model").in(what);
  c.number("--rank", w.rank, "R", "The rank whose part is copied (default: 0 with --model, all with --like)").excludes("--sizes").in(what);
  c.option("--device", w.device, "DEVICE", "Copy from cuda, cpu (host memory as the source) or auto (default)")
      .one_of({"auto", "cuda", "cpu"})
      .in(how);
  c.option("--devices", w.devices, "LIST", "Devices to copy from at the same time: all, or numbers with commas (default 0)").in(how);
  c.option("--methods", w.methods, "LIST", "Only these methods, separated by commas").in(how);
  c.option("--streams", w.streams, "LIST", "Numbers of streams to try (default 1,2)").in(how);
  c.option("--chunks", w.chunks, "LIST", "Sizes of single copies to try (default whole,16MiB)").in(how);
  c.number("--repeats", w.measure.repeats, {1u, 10000u}, "N", "Measured saves for each combination (default 7)").in(how);
  c.number("--warmup", w.measure.warmup, {0u, 10000u}, "N", "Saves before them that are not measured (default 2)").in(how);
  c.flag("--no-numa", w.no_numa, "Let the kernel place the buffers on machines with several NUMA nodes").in(how);
  add_save(c, o.save);
  c.option("--html", o.html, "FILE", "Write a page with the curves to FILE").writes().in("Output");
  c.flag("--force", o.force, "Replace the file of --html").also({"--overwrite"}).in("Output");
}

}  // namespace

void add_bench_staging(Command& c, Context& context) {
  auto options = std::make_shared<StagingOptions>();
  c.details = kText;
  add_flags(c, *options);
  add_common(c, context.common, true);
  c.run = [options, &context] { return run_reported(context, {.output = options->html}, [&] { return run_staging(*options, context); }); };
}

}  // namespace dcp::cmd
