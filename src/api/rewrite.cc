#include "dcpctl/rewrite.h"

#include "api/convert.h"
#include "app/write.h"

namespace dcpctl {
namespace {

RewriteReport rewrite(const std::string& from, dcp::OutputRequest output, const RewriteOptions& options) {
  Outside outside(options.control);
  dcp::check_on_disk(outside.stores, output.path);
  dcp::WriteRequest request{
      .read = {.source = source_of(from, options.step), .ranks = {}, .max_memory = cap_of(options.max_memory), .threads = options.threads},
      .select = {},
      .map = {},
      .output = std::move(output),
      .expect = {},
      .replace = options.replace ? dcp::Replace::kYes : dcp::Replace::kNo,
      .sync = options.sync};
  request.select.model_only = options.model_only;
  if (!options.dtype.empty()) request.select.dtypes.dtype = cast_target(options.dtype);
  dcp::WriteResult done;
  dcp::write(request, outside.world, done, [] {});
  RewriteReport report{.bytes_read = done.executed.bytes_read,
                       .bytes_written = done.executed.bytes_written,
                       .records_checked = done.executed.records_checked,
                       .warnings = to_public(done.warnings),
                       .seconds = static_cast<double>(done.nanoseconds) / 1e9};
  for (const dcp::Entry& e : done.selected.selection.entries) ++(e.is_blob() ? report.objects : report.tensors);
  return report;
}

}  // namespace

RewriteReport consolidate(const std::string& from, const std::string& to, const RewriteOptions& options, uint64_t max_shard_bytes) {
  return guarded([&] {
    dcp::OutputRequest output{.path = to};
    const auto file = dcp::model_file_kind(to);
    if (max_shard_bytes > 0) {
      if (file && !to.ends_with(".bin"))
        dcp::fail(dcp::ProblemId::usage, {.path = to}, "a file's name, and a size of shards", "the name of a folder");
      output.kind = dcp::OutputRequest::Kind::kShards;
      output.max_shard_bytes = max_shard_bytes;
    } else if (file) {
      output.kind = *file;
    } else {
      dcp::fail(dcp::ProblemId::usage, {.path = to}, "a name that does not say the form",
                ".pt, .pth, .bin or .safetensors, or a folder with a size of shards");
    }
    return rewrite(from, std::move(output), options);
  });
}

RewriteReport reshard(const std::string& from, const std::string& to, const Layout& layout, const RewriteOptions& options) {
  return guarded([&] {
    dcp::OutputRequest output{.path = to, .kind = dcp::OutputRequest::Kind::kDcp};
    output.layout = {
        .world_size = layout.world_size, .mesh = {}, .mesh_dims = {}, .like = layout.like, .file = {}, .placements = layout.placements};
    for (const uint32_t size : layout.mesh) output.layout.mesh += (output.layout.mesh.empty() ? "" : "x") + std::to_string(size);
    return rewrite(from, std::move(output), options);
  });
}

}  // namespace dcpctl
