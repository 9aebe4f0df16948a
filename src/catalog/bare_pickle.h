// An item that is no archive. torch.load takes it for the format of its releases before 1.6: five pickles, the first of them a magic number.
// Python runs the first one, whatever comes of it.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"

namespace dcp {

struct BarePickle {
  enum class Form : uint8_t { kOther, kPickle, kLegacy };
  Form form = Form::kOther;
  bool is_cut = false;               // a pickle does not end in these bytes
  std::vector<std::string> refused;  // globals that weights_only refuses, as far as Python would get
};

// Whether torch takes bytes that begin like this for an archive.
bool begins_archive(Bytes begin);

BarePickle look_at_bare_pickle(Bytes item, const Place& place, const Limits& limits);

}  // namespace dcp
