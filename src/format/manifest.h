// A manifest: digests of a checkpoint's content, to prove later that it, or an output made from it, has the same content.
//
// Grammar (JSON; schema "dcpctl.manifest/1"; members may be added later; readers skip unknown ones):
//   manifest := {"schema": "dcpctl.manifest/1", "files": {NAME: file}[, "objects": {KEY: object}], "tensors": {KEY: tensor}}
//   tensor   := {"crc64": digest, "dtype": name, "shape": [size...]}   of the elements: row-major, little-endian, conj and neg resolved
//   object   := {"crc64": digest, "bytes": count}                      of data.pkl and then the storages, in the order of the archive
//   file     := {"bytes": count, "xxh3_128": digest}                   of a whole file of the checkpoint, named as in its folder
//   digest   := lower-case hexadecimal digits, 16 of CRC-64/XZ or 32 of XXH3-128
// Keys of every object are sorted. A tensor's digest says nothing about files and chunks, so it is the same for every sharding and format.
// An object has bytes of its own only in checkpoints with `.metadata`: a manifest made from others has no "objects".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/problem.h"

namespace dcp {

struct Manifest {
  struct Tensor {
    std::string dtype;  // as torch names it
    std::vector<int64_t> shape;
    uint64_t crc64 = 0;
    bool operator==(const Tensor&) const = default;
  };
  struct Object {
    uint64_t bytes = 0;
    uint64_t crc64 = 0;
    bool operator==(const Object&) const = default;
  };
  struct File {
    uint64_t bytes = 0;
    std::string xxh3_128;  // hexadecimal
    bool operator==(const File&) const = default;
  };
  std::map<std::string, Tensor> tensors;
  std::optional<std::map<std::string, Object>> objects;  // none: the checkpoint's objects have no bytes of their own
  std::map<std::string, File> files;
  bool operator==(const Manifest&) const = default;
};

// Throws manifest_bad_name for a key that is not valid UTF-8.
std::string write_manifest(const Manifest& manifest, const Place& place);
// Throws manifest_bad, over_limit.
Manifest read_manifest(std::string_view json, const Place& place, const Limits& limits);

enum class Subset : uint8_t { kNo, kYes };          // kYes: missing keys are fine
enum class FilesAre : uint8_t { kBelow, kItself };  // in the folder at `place`, or `place` is the one file

struct ManifestRules {
  Subset subset = Subset::kNo;
  FilesAre files = FilesAre::kBelow;
  uint64_t objects_here = 0;  // the checkpoint's objects, if `found` has none
};

// Differences of `found` from `expected`: damage, or a note for keys that may be missing. Files are compared only if their names and sizes
// are as expected: then they are the same files, and every bit counts.
struct ManifestComparison {
  std::vector<Problem> findings;
  uint64_t keys = 0;   // compared
  uint64_t files = 0;  // compared
};
ManifestComparison compare_manifests(const Manifest& expected, const Manifest& found, const Place& place, ManifestRules rules = {});

}  // namespace dcp
