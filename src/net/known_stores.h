// The stores that come with the program, listed in this one place.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/stores.h"
#include "net/http.h"

namespace dcp::net {

// By the schemes of their paths. Nothing is opened before the first path of one.
NamedStores known_stores(const std::shared_ptr<Http>& http);
bool is_known(const std::string& path);
// Of the store of `path`: where its credentials come from, and so on, in pairs of words and texts.
std::vector<std::pair<std::string, std::string>> about_store(Http& http, const std::string& path);

}  // namespace dcp::net
