#include "net/known_stores.h"

#include <algorithm>

#include "base/file_names.h"
#include "net/bucket_origin.h"
#include "net/object_store.h"
#include "net/web.h"

namespace dcp::net {
namespace {

struct Row {
  const char* scheme;
  std::unique_ptr<Origin> (*make)(Http& http);
};
constexpr Row kRows[] = {{"s3", make_s3}, {"gs", make_gcs}, {"hf", make_hub}, {"https", make_web}, {"http", make_web}};

}  // namespace

NamedStores known_stores(const std::shared_ptr<Http>& http) {
  NamedStores stores;
  for (const Row& row : kRows) stores[row.scheme] = std::make_unique<ObjectStore>(http, row.make(*http));
  return stores;
}

bool is_known(const std::string& path) {
  return std::ranges::any_of(kRows, [&](const Row& row) { return scheme_of(path) == row.scheme; });
}

std::vector<std::pair<std::string, std::string>> about_store(Http& http, const std::string& path) {
  for (const Row& row : kRows)
    if (scheme_of(path) == row.scheme) return row.make(http)->about(path);
  return {};
}

}  // namespace dcp::net
