#pragma once  // see algorithm.h
#include <chrono>

#include "gloo/transport/device.h"

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
