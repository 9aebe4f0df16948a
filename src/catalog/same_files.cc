#include "catalog/same_files.h"

namespace dcp {

Catalog catalog_over_files_of(const Catalog& from) {
  Catalog c;
  c.kind = from.kind;
  c.path = from.path;
  c.folder = from.folder;
  c.single_file = from.single_file;
  for (const DataFile& f : from.files) {
    c.files.push_back(f);
    c.files.back().name = c.strings.intern(from.strings[f.name]);
  }
  c.transforms = from.transforms;
  return c;
}

}  // namespace dcp
