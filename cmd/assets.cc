#include "assets.h"

#include "base/limits.h"
#include "catalog/data_files.h"
#include "plan/assets.h"

namespace dcp::cmd {

void copy_assets(const std::string& dir, const Context& context, Plan& plan) {
  const std::optional<FileFacts> facts = context.io.facts(dir);
  if (!facts) fail(ProblemId::no_such_path, {.path = dir});
  if (facts->kind != FileKind::kDirectory) fail(ProblemId::no_assets, {.path = dir}, "a file", "a folder");
  std::vector<Asset> assets;
  for (const DirEntry& e : context.io.list(dir)) {
    if (e.kind != FileKind::kRegular || !is_asset(e.name)) continue;
    const std::vector<std::byte> bytes = read_file_beneath(context.io, dir, e.name, FollowLinks::kCacheOnly, Limits{}.asset_bytes);
    assets.push_back({e.name, std::string(as_text(bytes))});
    context.detail("copies " + escaped(e.name));
  }
  if (assets.empty()) fail(ProblemId::no_assets, {.path = dir});
  add_assets(plan, std::move(assets));
}

}  // namespace dcp::cmd
