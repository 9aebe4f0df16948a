#include "report/staging_run.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "app/resources.h"
#include "app/stages.h"
#include "app/write.h"
#include "base/json.h"
#include "base/text.h"
#include "line/environment.h"
#include "line/option_values.h"
#include "line/progress.h"
#include "line/sandbox.h"
#include "report/staging_report.h"
#include "request/dtype_flags.h"
#include "staging/cpu_device.h"
#include "staging/device.h"
#include "staging/host_memory.h"

namespace dcp::cmd {
namespace {

std::vector<StagingCase> cases_of(const StagingRequest& o, const std::vector<int>& nodes) {
  std::vector<StagingMethod> methods;
  for (const std::string& name : o.methods.empty() ? std::vector<std::string>{} : split_list(o.methods)) {
    const std::optional<StagingMethod> method = method_named(name);
    if (!method)
      fail(ProblemId::usage, {}, "--methods '" + name + "'", joined(kStagingMethods, ", ", [](StagingMethod m) { return name_of(m); }));
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

std::vector<Workload> workloads_of(const StagingRequest& o, Context& context) {
  if (!o.model.empty()) {
    return {model_workload({.name = o.model,
                            .dtype = parse_dtype(o.dtype),
                            .optimizer = o.optimizer,
                            .world_size = o.world_size,
                            .rank = o.rank.value_or(0)})};
  }
  if (!o.like.path.empty()) {
    Workload w = checkpoint_workload(open_source(o.like.request(), context, default_reading_cap())->catalog, o.rank);
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
const DcpctlDeviceTable& device_table(const StagingRequest& o, StagingReport& report) {
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

std::vector<uint32_t> wanted_devices(const StagingRequest& o, uint32_t there) {
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

void measure_staging(const StagingRequest& o, const std::vector<StagingSource>& sources, StagingReport& report, Context& context) {
  const std::vector<StagingCase> cases = cases_of(o, report.nodes.size() > 1 ? report.nodes : std::vector<int>{-1});
  StepDisplay steps(context, report.workloads.size() * cases.size());
  for (size_t w = 0; w < report.workloads.size(); ++w) {
    for (const StagingCase& how : cases) {
      const std::string what = report.workloads[w].name + ": " + std::string(name_of(how.method));
      steps.begin(what);
      if (is_redundant(plan_copies(report.workloads[w], how), report.workloads[w], how)) continue;
      context.verbose(what);
      for (StagingLine& l : measure(context.io, sources, {report.workloads[w], how}, o.measure, context.stop)) {
        l.workload = w;
        report.lines.push_back(std::move(l));
      }
      context.check_stop();
    }
  }
}

// The page of --html, whole or not at all.
void save_page(const StagingOptions& o, const std::string& page, Context& context) {
  save_small_file(context, o.html, page, {.replace = o.force ? Replace::kYes : Replace::kNo});
}

std::string answer(const StagingOptions& o, const StagingReport& report, const std::optional<TrainingReport>& training, Context& context) {
  if (!o.html.empty()) {
    PageHead head = report.page_head();
    if (training) head.verdict = training->verdict();
    save_page(o, page_html(head, [&](JsonWriter& json) { training ? training->sections(json) : report.sections(json); }), context);
  }
  if (!context.common.json) {
    report.print_head(context);
    if (training) training->print(context);
    else report.print(context);
  }
  std::string document = json_document([&](JsonWriter& json) {
    json.member("schema", "dcpctl.bench.staging/1");
    report.json_head(json);
    if (training) training->json(json);
    else report.json(json);
  });
  if (context.common.json) context.print(document);
  return document;
}

}  // namespace

std::string run_staging(const StagingOptions& o, Context& context) {
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

}  // namespace dcp::cmd
