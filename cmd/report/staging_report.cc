#include "report/staging_report.h"

#include <algorithm>

#include "base/text.h"
#include "staging/verdict.h"

namespace dcp::cmd {
namespace {

std::string percent(double part, double whole) { return whole > 0 ? fixed(100 * part / whole, 0) + "%" : "-"; }

std::string chunk_text(uint64_t bytes) { return bytes == 0 ? "whole" : human_bytes(bytes); }

std::string series_name(const StagingLine& l, bool nodes, bool devices) {
  std::string name(name_of(l.how.method));
  if (l.how.streams > 1) name += ", " + std::to_string(l.how.streams) + " streams";
  if (l.how.chunk_bytes > 0) name += ", " + human_bytes(l.how.chunk_bytes);
  if (nodes) name += ", node " + std::to_string(l.how.node);
  if (devices) name += ", device " + std::to_string(l.device);
  return name;
}

// "NVIDIA H200: 0000:1b:00.0, PCIe Gen5 x16 at most, NVLink 4 x18, NUMA node 0, 138.9 GiB of 139.8 GiB free".
std::string device_text(const DcpctlDeviceFacts& f) {
  std::string text = escaped(f.name) + ": ";
  if (f.bus_id[0] != '\0') text += escaped(f.bus_id) + ", ";
  const std::string link = link_name({.generation = f.pcie_generation_max, .width = f.pcie_width_max});
  if (!link.empty()) text += link + " at most, ";
  if (f.nvlink_links > 0) text += "NVLink " + std::to_string(f.nvlink_version) + " x" + std::to_string(f.nvlink_links) + ", ";
  if (f.numa_node >= 0) text += "NUMA node " + std::to_string(f.numa_node) + ", ";
  return text + human_bytes(f.free_bytes) + " of " + human_bytes(f.memory_bytes) + " free";
}

Table table_of(const StagingReport& r) {
  const bool nodes = r.nodes.size() > 1, devices = r.devices.size() > 1;
  const double best = best_rate(r.lines), limit = link_limit(r.link);
  Table t{.left = 2, .head = {r.curve ? "size" : "workload", "method"}, .rows = {}};
  for (const char* h : {"streams", "chunk"}) t.head.emplace_back(h);
  if (nodes) t.head.emplace_back("node");
  if (devices) t.head.emplace_back("device");
  for (const char* h : {"GB/s", "spread", "of link", "of best", "setup", "blocks", "host memory"}) t.head.emplace_back(h);
  for (const StagingLine& l : r.lines) {
    std::vector<std::string> row{r.workloads[l.workload].name, std::string(name_of(l.how.method)), std::to_string(l.how.streams),
                                 chunk_text(l.how.chunk_bytes)};
    if (nodes) row.push_back(std::to_string(l.how.node));
    if (devices) row.push_back(std::to_string(l.device));
    if (l.measured()) {
      const Spread copy = l.copy();
      for (std::string& cell :
           std::vector<std::string>{gigabytes(l.rate()), percent(copy.quartiles, 1), percent(l.rate(), limit), percent(l.rate(), best),
                                    l.setup_ns > 0 ? duration(l.setup_ns) : "-", duration(l.blocking().median), human_bytes(l.host_bytes)})
        row.push_back(std::move(cell));
    }
    t.rows.push_back(std::move(row));
  }
  return t;
}

void facts_json(JsonWriter& out, const DcpctlDeviceFacts& f) {
  out.begin_object().member("name", f.name).member("memory_bytes", f.memory_bytes).member("free_bytes", f.free_bytes);
  if (f.bus_id[0] != '\0') out.member("bus_id", f.bus_id);
  if (f.numa_node >= 0) out.member("numa_node", f.numa_node);
  if (f.pcie_generation_max > 0) out.member("pcie_generation_max", f.pcie_generation_max).member("pcie_width_max", f.pcie_width_max);
  if (f.nvlink_links > 0) out.member("nvlink_version", f.nvlink_version).member("nvlink_links", f.nvlink_links);
  out.end_object();
}

void spread_json(JsonWriter& out, std::string_view name, const Spread& s) {
  out.key(name)
      .begin_object()
      .member("least_ns", s.min)
      .member("median_ns", s.median)
      .member("most_ns", s.max)
      .member("quartiles", s.quartiles)
      .end_object();
}

void line_json(JsonWriter& out, const StagingLine& l, double best, double limit) {
  out.begin_object()
      .member("workload", uint64_t{l.workload})
      .member("device", l.device)
      .member("method", name_of(l.how.method))
      .member("streams", l.how.streams);
  out.member("chunk_bytes", l.how.chunk_bytes).member("bytes", l.bytes);
  if (l.how.node >= 0) out.member("numa_node", l.how.node);
  if (!l.measured()) {
    out.member("unavailable", l.unavailable).end_object();
    return;
  }
  out.member("copies", l.copies).member("rate", l.rate()).member("of_best", l.rate() / best);
  if (limit > 0) out.member("of_link", l.rate() / limit);
  out.member("setup_ns", l.setup_ns).member("host_bytes", l.host_bytes).member("device_bytes", l.device_bytes);
  spread_json(out, "copy", l.copy());
  spread_json(out, "blocking", l.blocking());
  if (!l.note.empty()) out.member("note", l.note);
  out.key("repeats").begin_array();
  for (const Repeat& r : l.repeats)
    out.begin_object().member("allocate_ns", r.allocate_ns).member("touch_ns", r.touch_ns).member("copy_ns", r.copy_ns).end_object();
  out.end_array().end_object();
}

// Lines of one case, one a device, as measure() gave them together.
std::vector<std::vector<StagingLine>> cases_of(const std::vector<StagingLine>& lines, size_t devices) {
  std::vector<std::vector<StagingLine>> cases;
  for (size_t at = 0; at + devices <= lines.size(); at += devices)
    if (lines[at].measured())
      cases.emplace_back(lines.begin() + static_cast<ptrdiff_t>(at), lines.begin() + static_cast<ptrdiff_t>(at + devices));
  return cases;
}

}  // namespace

void table_section(JsonWriter& json, std::string_view title, const Table& t) {
  json.begin_object().member("type", "rows").member("title", title).member("left", t.left).member("head", t.head).member("rows", t.rows);
  json.end_object();
}

std::string StagingReport::first_line() const {
  if (host_copies)
    return "host copies: --device cpu copies from host memory to host memory; no GPU is measured" +
           (why_cpu.empty() ? "" : " (" + why_cpu + ")");
  const std::string text = "GPU to host copies: " + joined(devices, ", ", [](const auto& d) { return escaped(d.name); });
  const std::string link_text = link_name(link);
  return text + (link_text.empty() ? "" : ", " + link_text + " under load, " + gigabytes(link_limit(link)) + " GB/s at most");
}

std::vector<std::string> StagingReport::conclusions() const {
  std::vector<std::string> sentences;
  if (devices.size() > 1) {
    Combined max;
    for (const auto& lines_of_case : cases_of(lines, devices.size()))
      if (const Combined t = combined(lines_of_case); t.sum > max.sum) max = t;
    sentences.push_back("All " + std::to_string(devices.size()) + " devices at once: " + gigabytes(max.sum) +
                        " GB/s together; the slowest, device " + std::to_string(max.slowest_device) + ", " + gigabytes(max.slowest) +
                        " GB/s.");
  }
  if (const auto slow = slow_link(lines, link))
    sentences.push_back(*slow + " Likely causes: " + joined(slow_link_causes(link, nodes.size() > 1, devices.front().numa_node), "; ") +
                        ".");
  if (curve) {
    if (const std::string note = curve_note(lines); !note.empty()) sentences.push_back(note);
  }
  const size_t last = workloads.size() - 1;
  sentences.push_back(verdict(lines, last, workloads[last].name));
  return sentences;
}

// Why something was not measured, and what is to be known of what was.
std::vector<std::string> StagingReport::reasons() const {
  std::vector<std::string> texts;
  for (const StagingLine& l : lines) {
    std::string why = l.measured() ? l.note : l.unavailable;
    if (!why.empty()) why = std::string(name_of(l.how.method)) + ": " + (l.measured() ? "" : "not measured, ") + escaped(why);
    if (!why.empty() && std::ranges::find(texts, why) == texts.end()) texts.push_back(std::move(why));
  }
  return texts;
}

void StagingReport::print_head(const Context& context) const {
  context.print(first_line() + "\n");
  for (const DcpctlDeviceFacts& f : devices) context.print(device_text(f) + "\n");
  if (!curve)
    for (const Workload& w : workloads)
      context.print(w.name + ": " + grouped(w.tensors.size()) + " tensors, " + human_bytes(w.bytes()) + ", the largest " +
                    human_bytes(w.largest()) + "\n");
}

void StagingReport::print(const Context& context) const {
  context.print("\n");
  print_table(context, table_of(*this));
  context.print("\n");
  for (const std::string& r : reasons()) context.print(r + "\n");
  for (const std::string& c : conclusions()) context.print(c + "\n");
}

void StagingReport::json_head(JsonWriter& out) const {
  out.member("host_copies", host_copies).member("device", host_copies ? "cpu" : "cuda");
  if (!why_cpu.empty()) out.member("why_cpu", why_cpu);
  out.key("devices").begin_array();
  for (const DcpctlDeviceFacts& f : devices) facts_json(out, f);
  out.end_array();
  if (const std::string name = link_name(link); !name.empty())
    out.key("link")
        .begin_object()
        .member("name", name)
        .member("generation", link.generation)
        .member("width", link.width)
        .member("limit", link_limit(link))
        .end_object();
  out.member("numa_nodes", nodes).key("workloads").begin_array();
  for (const Workload& w : workloads)
    out.begin_object()
        .member("name", w.name)
        .member("tensors", uint64_t{w.tensors.size()})
        .member("bytes", w.bytes())
        .member("largest_bytes", w.largest())
        .end_object();
  out.end_array();
}

void StagingReport::json(JsonWriter& out) const {
  const double best = best_rate(lines), limit = link_limit(link);
  out.member("best_rate", best).key("lines").begin_array();
  for (const StagingLine& l : lines) line_json(out, l, best, limit);
  out.end_array();
  if (devices.size() > 1) {
    out.key("together").begin_array();
    for (const auto& lines_of_case : cases_of(lines, devices.size())) {
      const Combined t = combined(lines_of_case);
      out.begin_object()
          .member("workload", uint64_t{lines_of_case.front().workload})
          .member("method", name_of(lines_of_case.front().how.method));
      out.member("streams", lines_of_case.front().how.streams).member("chunk_bytes", lines_of_case.front().how.chunk_bytes);
      out.member("rate", t.sum).member("slowest_rate", t.slowest).member("slowest_device", t.slowest_device).end_object();
    }
    out.end_array();
  }
  if (const auto slow = slow_link(lines, link)) {
    const std::vector<std::string> causes = slow_link_causes(link, nodes.size() > 1, devices.front().numa_node);
    out.key("slow_link").begin_object().member("text", *slow).member("causes", causes).end_object();
  }
  const size_t last = workloads.size() - 1;
  if (const StagingLine* chosen = choose(lines, last)) out.key("chosen_line").value(static_cast<uint64_t>(chosen - lines.data()));
  out.member("verdict", verdict(lines, last, workloads[last].name));
}

PageHead StagingReport::page_head() const {
  PageHead head{.command = "dcpctl bench staging", .title = escaped(devices.front().name), .verdict = {}, .facts = {first_line()}};
  for (const DcpctlDeviceFacts& f : devices) head.facts.push_back(device_text(f));
  if (const std::string name = link_name(link); !name.empty())
    head.cards.push_back({.label = "link under load", .value = name, .note = gigabytes(link_limit(link)) + " GB/s at most"});
  head.cards.push_back(
      {.label = "devices", .value = grouped(devices.size()), .note = host_copies ? "no GPU: from host memory to host memory" : ""});
  const Workload& last = workloads.back();
  head.cards.push_back(
      {.label = "workload", .value = last.name, .note = counted(last.tensors.size(), "tensor") + ", " + human_bytes(last.bytes())});
  if (lines.empty()) return head;
  if (const double best = best_rate(lines); best > 0) head.cards.push_back({.label = "fastest copy", .value = gigabytes(best) + " GB/s"});
  const std::vector<std::string> sentences = conclusions();
  head.verdict = sentences.back();
  if (slow_link(lines, link)) head.tone = "warn";
  head.facts.insert(head.facts.end(), sentences.begin(), sentences.end());
  for (std::string& r : reasons()) head.facts.push_back(std::move(r));
  return head;
}

void StagingReport::sections(JsonWriter& json) const {
  const auto name = [&](const StagingLine& l) { return series_name(l, nodes.size() > 1, devices.size() > 1); };
  if (curve) {
    std::vector<std::pair<std::string, std::vector<const StagingLine*>>> series;
    for (const StagingLine& l : lines) {
      if (!l.measured()) continue;
      auto at = std::ranges::find(series, name(l), [](const auto& s) { return s.first; });
      if (at == series.end()) at = series.insert(series.end(), {name(l), {}});
      at->second.push_back(&l);
    }
    json.begin_object().member("type", "curves").member("title", "How fast copies are");
    json.member("limit", link_limit(link) / 1e9).member("limitName", link_name(link)).key("series").begin_array();
    for (const auto& [title, points] : series) {
      json.begin_object().member("name", title).key("points").begin_array();
      for (const StagingLine* l : points) json.begin_array().value(l->bytes).value(l->rate() / 1e9).end_array();
      json.end_array().end_object();
    }
    json.end_array().end_object();
  }
  const size_t last = workloads.size() - 1;
  json.begin_object().member("type", "bars").key("legend").value(std::vector<std::string>{"allocate", "first touch", "copy"});
  json.member("title", "How long a save of " + workloads[last].name + " (" + human_bytes(workloads[last].bytes()) + ") blocks");
  json.key("bars").begin_array();
  for (const StagingLine& l : lines) {
    if (l.workload != last || !l.measured()) continue;
    json.begin_object().member("name", name(l)).key("parts").begin_array();
    for (uint64_t Repeat::* part : {&Repeat::allocate_ns, &Repeat::touch_ns, &Repeat::copy_ns}) {
      std::vector<uint64_t> values;
      for (const Repeat& r : l.repeats) values.push_back(r.*part);
      json.value(spread_of(std::move(values)).median);
    }
    json.end_array().end_object();
  }
  json.end_array().end_object();
  table_section(json, "All that was measured", table_of(*this));
}

}  // namespace dcp::cmd
