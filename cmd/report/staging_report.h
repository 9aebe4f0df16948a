// The output of `bench staging`: a table, a JSON document, a page with pictures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "line/context.h"
#include "line/lines.h"
#include "report/page/page.h"
#include "staging/measure.h"
#include "staging/verdict.h"

namespace dcp::cmd {

// A section of a page.
void table_section(JsonWriter& json, std::string_view title, const Table& table);

struct StagingReport {
  bool host_copies = true;  // --device cpu: no GPU is measured
  std::string why_cpu;      // with `auto`: why no GPU is used
  std::vector<DcpctlDeviceFacts> devices;
  LinkFacts link;          // of the first device, under load
  std::vector<int> nodes;  // NUMA nodes of the host
  std::vector<Workload> workloads;
  bool curve = false;  // the workloads are sizes
  std::vector<StagingLine> lines;

  // First what is measured on which device; later the results.
  void print_head(const Context& context) const;
  void json_head(JsonWriter& out) const;
  PageHead page_head() const;
  void print(const Context& context) const;
  void json(JsonWriter& out) const;
  void sections(JsonWriter& json) const;

 private:
  std::string first_line() const;
  std::vector<std::string> conclusions() const;
  std::vector<std::string> reasons() const;
};

}  // namespace dcp::cmd
