#include "request/verify_request.h"

#include "line/option_values.h"

namespace dcp::cmd {

VerifyRequest verify_request(const VerifyOptions& o, const Context& context) {
  VerifyRequest request{.read = {.source = o.source.request(),
                                 .ranks = o.ranks.options(context),
                                 .max_memory = reading_cap(o.max_memory),
                                 .threads = o.threads},
                        .data = o.reads_data(),
                        .manifest = o.manifest,
                        .replace = o.force ? Replace::kYes : Replace::kNo,
                        .against = o.against,
                        .subset = o.subset ? Subset::kYes : Subset::kNo,
                        .file_digests = !o.no_files,
                        .map = o.map.request(),
                        .select = o.manifest.empty() && !o.strict ? o.keys.select_options(context) : o.keys.select_to_write(context)};
  if (!o.sample.empty()) request.sample_percent = parse_percent(o.sample, "--sample");
  return request;
}

}  // namespace dcp::cmd
