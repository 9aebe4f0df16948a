// dcpctl bench staging: what copying a checkpoint from a GPU to the host costs.
#include <algorithm>
#include <optional>

#include "app/memory.h"
#include "app/small_file.h"
#include "commands.h"
#include "dtype_flags.h"
#include "html.h"
#include "module_folders.h"
#include "option_values.h"
#include "progress.h"
#include "sandbox.h"
#include "source.h"
#include "staging/cpu_device.h"
#include "staging/cuda_device.h"
#include "staging/host_memory.h"
#include "staging_report.h"
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
  std::string device = "auto", devices = "0", sizes, model, dtype = "bfloat16", methods, streams = "1,2", chunks = "whole,16MiB", html;
  SourceFlags like;
  SaveFlags save;
  bool optimizer = false, force = false, no_numa = false;
  uint32_t world_size = 1, count = 1;
  std::optional<uint32_t> rank;
  MeasureOptions measure;
};

std::vector<StagingCase> cases_of(const Options& o, const std::vector<int>& nodes) {
  std::vector<StagingMethod> methods;
  for (const std::string& name : o.methods.empty() ? std::vector<std::string>{} : split_list(o.methods)) {
    const std::optional<StagingMethod> method = method_named(name);
    std::string all;
    for (const StagingMethod m : kStagingMethods) all.append(all.empty() ? "" : ", ").append(name_of(m));
    if (!method) fail(ProblemId::usage, {}, "--methods '" + name + "'", all);
    methods.push_back(*method);
  }
  if (methods.empty()) methods.assign(std::begin(kStagingMethods), std::end(kStagingMethods));
  std::vector<StagingCase> cases;
  for (const StagingMethod m : methods)
    for (const std::string& s : split_list(o.streams))
      for (const std::string& c : split_list(o.chunks))
        for (const int node : nodes) {
          const uint64_t chunk = c == "whole" ? 0 : parse_size(c);
          if (c != "whole" && chunk < 512) fail(ProblemId::usage, {}, "--chunks '" + c + "'", "whole, or 512 bytes and more");
          cases.push_back({.method = m, .streams = parse_count(s, "--streams", 1, 64), .chunk_bytes = chunk, .node = node});
        }
  return cases;
}

std::vector<Workload> workloads_of(const Options& o, Context& context) {
  if (!o.model.empty()) {
    return {model_workload({.name = o.model,
                            .dtype = parse_dtype(o.dtype),
                            .optimizer = o.optimizer,
                            .world_size = o.world_size,
                            .rank = o.rank.value_or(0)})};
  }
  if (!o.like.path.empty()) {
    Workload w = checkpoint_workload(open_source(o.like.request(context), context, default_reading_cap()), o.rank);
    w.name = o.like.path + (o.rank ? ", rank " + std::to_string(*o.rank) : "");
    return {std::move(w)};
  }
  const std::string range = o.sizes.empty() ? "1KiB..256MiB" : o.sizes;
  const size_t dots = range.find("..");
  const uint64_t first = parse_size(range.substr(0, dots)), last = dots == std::string::npos ? first : parse_size(range.substr(dots + 2));
  if (first == 0 || last < first) fail(ProblemId::usage, {}, "--sizes '" + range + "'", "A..B with A above 0 and not above B");
  std::vector<Workload> curve = size_curve(first, last);
  for (Workload& w : curve) {
    w.name = human_bytes(w.bytes());
    if (o.count == 1) continue;
    w = many_of(o.count, w.bytes());
    w.name = grouped(o.count) + " x " + human_bytes(w.largest());
  }
  return curve;
}

// Which table of devices is used; `auto` falls back to the host and says why.
const DcpctlDeviceTable& device_table(const Options& o, StagingReport& report) {
  if (o.device == "cuda") return cuda_device_table(module_folders());
  if (o.device == "auto") {
    try {
      return cuda_device_table(module_folders());
    } catch (const Error& e) {
      report.why_cpu = to_line(e.problem());
    }
  }
  return cpu_device_table();
}

std::vector<uint32_t> wanted_devices(const Options& o, uint32_t there) {
  std::vector<uint32_t> wanted;
  for (uint32_t d = 0; o.devices == "all" && d < there; ++d) wanted.push_back(d);
  if (o.devices == "all") return wanted;
  for (const std::string& d : split_list(o.devices)) {
    wanted.push_back(parse_count(d, "--devices", 0, 1023));
    if (wanted.back() >= there)
      fail(ProblemId::device_missing, {}, "device " + d, std::to_string(there) + (there == 1 ? " device" : " devices"));
    if (std::ranges::count(wanted, wanted.back()) > 1) fail(ProblemId::usage, {}, "--devices " + o.devices, "each device once");
  }
  return wanted;
}

// The link as it is while copies run: idle ones report a lower generation.
LinkFacts link_under_load(Device& device) {
  const DcpctlDeviceFacts facts = device.facts();
  LinkFacts link{.generation_max = facts.pcie_generation_max, .width_max = facts.pcie_width_max};
  if (facts.pcie_generation_max == 0) return link;
  constexpr uint64_t kBytes = 64 << 20;
  const Device::Memory from = device.allocate(kBytes), to = device.allocate_pinned(kBytes);
  const Device::Stream stream = device.stream();
  const auto copy = [&](int times) {
    for (int i = 0; i < times; ++i) device.copy(stream, to.get(), from.get(), kBytes);
  };
  copy(16);  // wakes the link
  device.wait(stream);
  copy(64);
  const DcpctlDeviceLink now = device.link();
  device.wait(stream);
  link.generation = now.pcie_generation;
  link.width = now.pcie_width;
  return link;
}

void measure_all(const Options& o, const std::vector<StagingSource>& sources, StagingReport& report, Context& context) {
  const std::vector<StagingCase> cases = cases_of(o, report.nodes.size() > 1 ? report.nodes : std::vector<int>{-1});
  StepDisplay steps(context, report.workloads.size() * cases.size());
  for (size_t w = 0; w < report.workloads.size(); ++w) {
    for (const StagingCase& how : cases) {
      const std::string what = report.workloads[w].name + ": " + std::string(name_of(how.method));
      steps.begin(what);
      if (is_redundant(plan_copies(report.workloads[w], how), report.workloads[w], how)) continue;
      context.verbose(what);
      for (StagingLine& l : measure(context.io, sources, report.workloads[w], how, o.measure, context.stop)) {
        l.workload = w;
        report.lines.push_back(std::move(l));
      }
      context.check_stop();
    }
  }
}

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
  const DcpctlDeviceTable& table = device_table(o, report);
  report.host_copies = &table == &cpu_device_table();
  const std::vector<uint32_t> wanted = wanted_devices(o, device_count(table));
  if (!o.html.empty()) check_output_free(context.io, o.html, false, o.force ? Replace::kYes : Replace::kNo);
  report.workloads = workloads_of(o, context);
  report.curve = o.model.empty() && o.like.path.empty() && o.count == 1;
  report.nodes = o.no_numa ? std::vector<int>{0} : memory_nodes();
  if (!o.save.folder.empty() && ((o.model.empty() && o.like.path.empty()) || wanted.size() > 1))
    fail(ProblemId::usage, {}, wanted.size() > 1 ? "--save with several devices" : "--save without tensors of a checkpoint",
         wanted.size() > 1 ? "one" : "--model or --like beside it");
  cases_of(o, {-1});  // a mistake in a list is told before anything is allocated

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
    measure_all(o, sources, report, context);
  }
  return answer(o, report, training, context);
}

void add_flags(Command& c, Options& o) {
  const std::string what = "What is copied", how = "How";
  c.option("--sizes", o.sizes, "RANGE", "Buffers of sizes from A to B, written A..B (default 1KiB..256MiB)").in(what);
  c.number("--count", o.count, {1u, 10000000u}, "N", "That many buffers of each size (default 1)").in(what);
  std::vector<std::string> names;
  for (const std::string_view n : model_names()) names.emplace_back(n);
  c.option("--model", o.model, "NAME", "The tensors of a model").one_of(names).excludes("--sizes").in(what);
  c.option("--like", o.like.path, "CKPT", "Tensors of the sizes that a checkpoint has")
      .reads()
      .excludes("--sizes")
      .excludes("--model")
      .in(what);
  c.option("--dtype", o.dtype, "DTYPE", "With --model: element type of the weights (default bfloat16)")
      .offers(Offer::kDtypes)
      .needs("--model")
      .in(what);
  c.flag("--optimizer", o.optimizer, "With --model: AdamW's state in float32 beside the weights").needs("--model").in(what);
  c.number("--world-size", o.world_size, {1u, 65536u}, "N", "With --model: only what one of N ranks has").needs("--model").in(what);
  c.number("--rank", o.rank, "R", "Which rank's part: with --model 0 by default, with --like all ranks'").excludes("--sizes").in(what);
  c.option("--device", o.device, "DEVICE", "Copy from cuda, cpu (host memory as the source) or auto (default)")
      .one_of({"auto", "cuda", "cpu"})
      .in(how);
  c.option("--devices", o.devices, "LIST", "Which devices, at the same time: all, or numbers with commas (default 0)").in(how);
  c.option("--methods", o.methods, "LIST", "Only these ways, with commas between").in(how);
  c.option("--streams", o.streams, "LIST", "Numbers of streams to try (default 1,2)").in(how);
  c.option("--chunks", o.chunks, "LIST", "Largest single copies to try (default whole,16MiB)").in(how);
  c.number("--repeats", o.measure.repeats, {1u, 10000u}, "N", "Measured saves of each (default 7)").in(how);
  c.number("--warmup", o.measure.warmup, {0u, 10000u}, "N", "Saves before them that do not count (default 2)").in(how);
  c.flag("--no-numa", o.no_numa, "Leave to the kernel where buffers lie, on machines with several NUMA nodes").in(how);
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
