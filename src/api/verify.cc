#include "dcpctl/verify.h"

#include "api/convert.h"
#include "app/verify.h"

namespace dcpctl {

VerifyReport verify(const std::string& path, const VerifyOptions& options) {
  return guarded([&] {
    Outside outside(options.control);
    dcp::VerifyResult found;
    dcp::verify({.read = {.source = source_of(path, options.step),
                          .ranks = {},
                          .max_memory = cap_of(options.max_memory),
                          .threads = options.threads},
                 .data = options.data,
                 .manifest = options.manifest,
                 .against = options.against,
                 .map = {},
                 .select = {}},
                outside.world, found);
    return VerifyReport{.findings = to_public(found.findings),
                        .tensors = found.tensors,
                        .objects = found.objects,
                        .chunks = found.chunks,
                        .files = found.files,
                        .records_checked = found.records,
                        .records_without_crc = found.records_without_crc,
                        .bytes_read = found.bytes,
                        .is_sound = !found.is_damaged()};
  });
}

}  // namespace dcpctl
