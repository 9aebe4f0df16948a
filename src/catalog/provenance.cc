#include "catalog/provenance.h"

#include <algorithm>
#include <set>

namespace dcp {
namespace {

std::string spelled(unsigned version) { return std::to_string(version / 100) + "." + std::to_string(version % 100); }

// A lower or upper bound on the version, with its reason.
struct Bound {
  unsigned version;
  std::string why;
};

}  // namespace

// Sources: torch/distributed/checkpoint/metadata.py and filesystem.py of 1.13 to 2.15; what each form does to each reader was tried.
Provenance provenance_of(const MetadataContent& content, const Catalog& catalog) {
  Provenance p;
  p.format_version = std::string(content.version);
  p.extra_attributes = content.extra_attributes;
  p.unknown_globals = content.unknown_globals;
  if (content.old_module_names) {
    p.written_by = "1.13";
    p.loads_in = "1.13";
    p.why.push_back("class names of torch 1.13: every torch 2 unpickles them and then refuses them");
    return p;
  }

  std::vector<Bound> needs;
  const bool six = content.properties_fields >= 6;
  if (six) needs.push_back({215, "TensorProperties has 6 fields: older torch fails with 'metadata is None'"});
  if (content.has_storage_meta) needs.push_back({204, "it holds a StorageMeta object, a class of torch 2.4"});
  if (!content.tensors.empty() && !content.old_properties_module)
    needs.push_back({203, "TensorProperties is named by its module of torch 2.3"});
  std::set<std::string> transforms;
  for (const auto& list : content.transforms) transforms.insert(list.begin(), list.end());
  for (const std::string& t : transforms) needs.push_back({207, "items are transformed (" + t + ")"});
  std::set<DType> dtypes;
  for (const Tensor& t : catalog.tensors)
    if (t.dtype_known) dtypes.insert(t.dtype);
  for (DType d : dtypes)
    if (facts_of(d).since_torch > 200) needs.push_back({facts_of(d).since_torch, "dtype " + std::string(facts_of(d).name)});

  unsigned least = 200;
  for (const Bound& b : needs) least = std::max(least, b.version);
  p.loads_in = ">=" + spelled(least);
  for (const Bound& b : needs)
    if (b.version == least) p.why.push_back("torch " + spelled(b.version) + ": " + b.why);  // lesser needs rule out nothing more
  for (const std::string& g : content.unknown_globals)
    p.why.push_back("needs the Python class " + g + " to be importable");
  if (content.python313_path) p.why.push_back("a path object of Python 3.13 (pathlib._local): Python 3.12 and older cannot unpickle it");

  // What each release began or stopped to write.
  if (six) p.written_by = ">=2.15";
  else if (content.has_version) p.written_by = "2.9 - 2.14";
  else if (content.has_storage_meta_modules) p.written_by = "2.7 - 2.8";
  else if (content.has_storage_meta) p.written_by = "2.4 - 2.6";
  else if (content.old_properties_module) p.written_by = "2.0 - 2.2";
  else if (!content.tensors.empty()) p.written_by = "2.3";
  return p;
}

}  // namespace dcp
