#pragma once

namespace dcp {

// The oldest torch that is to load the output: class names in the metadata, and how dicts without tensors are flattened (plan/tree.h).
struct TorchTarget {
  static constexpr unsigned kDefault = 204, kFlattensPlainDicts = 204;
  unsigned version = kDefault;  // major * 100 + minor
  bool requested = false;       // a dtype that it lacks is then an error; else the version rises to one that has it
};

}  // namespace dcp
