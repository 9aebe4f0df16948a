#include "line/network.h"

#include <algorithm>

#include "base/file_names.h"
#include "base/text.h"
#include "line/environment.h"
#include "line/option_values.h"

namespace dcp::cmd {

Network make_network(const StopFlag& stop) {
  auto settings = std::make_shared<net::Settings>(net::Settings{.variable = variable, .module_folders = module_folders, .stop = stop});
  return {.settings = settings, .http = std::make_shared<net::Http>(settings)};
}

void add_network(Command& c, Context& context) {
  c.number("--net-timeout", context.network->timeout_s, {1u, 86'400u}, "SECONDS",
           "How long a request to a store may go unanswered, its repetitions included (default: 60)")
      .in("Source");
  c.flag("--insecure-http", context.network->insecure_http, "Allow http:// to other machines: it shows what is read to the network")
      .in("Source");
}

void bound_network(Command& command, Context& context) {
  const Option* const cap = command.find("--max-memory");
  if (cap != nullptr && !cap->given.empty())
    context.network->cache_bytes = std::clamp<uint64_t>(parse_size(cap->given.back()) / 8, 8 << 20, context.network->cache_bytes);
}

void tell_network(Context& context) {
  if (!context.http) return;
  const net::Counts& counts = context.http->counts();
  if (counts.requests == 0) return;
  context.verbose(counted(counts.requests, "request") + " over the network, " + human_bytes(counts.bytes) + ", " +
                  counted(counts.retries, "repetition"));
}

void tell_amount(Context& context, uint64_t bytes) {
  constexpr uint64_t kMuch = 100'000'000'000;
  const auto is_away = [](const std::string& path) { return !scheme_of(path).empty(); };
  if (bytes > kMuch && std::ranges::any_of(context.sources, is_away)) context.status("reading " + human_bytes(bytes) + " over the network");
}

}  // namespace dcp::cmd
