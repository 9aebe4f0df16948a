// What the stores of this room are told by the program: they read no environment and know no options.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/workers.h"

namespace dcp::net {

using Variables = std::function<std::optional<std::string>(const std::string& name)>;

struct Settings {
  Variables variable;  // of the environment; an empty one is as good as none
  std::function<std::vector<std::string>()> module_folders;
  const StopFlag& stop;
  uint32_t timeout_s = 60;           // how long a request may go without getting anywhere, its repetitions included
  bool insecure_http = false;        // http:// to hosts other than this one
  uint64_t cache_bytes = 128 << 20;  // of each store, for small reads

  std::string value(const std::string& name) const {
    const auto found = variable(name);
    return found ? *found : std::string();
  }
};

// What the requests of the process have been.
struct Counts {
  std::atomic<uint64_t> requests = 0, bytes = 0, retries = 0;
};

}  // namespace dcp::net
