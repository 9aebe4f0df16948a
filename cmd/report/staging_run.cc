#include "report/staging_run.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "app/write.h"
#include "base/json.h"
#include "line/sandbox.h"
#include "report/staging_report.h"
#include "staging/cpu_device.h"
#include "staging/host_memory.h"

namespace dcp::cmd {
namespace {

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
