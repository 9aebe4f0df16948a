// A --rename-map file, and keys under the names that it gives. The input is text of a key up to the first line end, then the file.
#include "catalog/build.h"
#include "fuzz.h"
#include "request/key_flags.h"
#include "select/rename.h"
#include "unit/catalog/made_checkpoint.h"

namespace dcp::fuzz {

void run(Bytes input) {
  const std::string_view text = as_text(input);
  const size_t end = text.find('\n');
  const std::string component(text.substr(0, end));
  const std::string cleaned = without_wrappers(component);
  must(cleaned.size() <= component.size() && without_wrappers(cleaned) == cleaned, "cleaned once, clean");

  test::FakeIo io;
  io.put("map.json", end == std::string_view::npos ? "{}" : text.substr(end + 1));
  const SelectOptions options{.clean_fqns = input.size() % 2 == 0, .rename_map = cmd::read_rename_map(io, "map.json")};
  test::MadeCheckpoint made;
  for (const char* key : {"model.w", "model.b", "model.module.w", "module._orig_mod.w"})
    made.tensors.push_back(test::whole_tensor(key, DType::float32, {2}));
  made.tensors.push_back(test::whole_tensor("nested.x", DType::float32, {2}, {"nested", "x"}));
  if (!component.empty() && component[0] != '#' && component.size() < 2000)
    made.tensors.push_back(test::whole_tensor("key." + component, DType::float32, {2}, {"key", component}));
  const Catalog catalog = build_catalog(made.content(), "ckpt", "ckpt").catalog;
  const Selection s = select_keys(catalog, options);
  must(s.entries.size() == made.tensors.size(), "no key is lost");
  std::vector<std::string_view> names;
  for (const Entry& e : s.entries) {
    must(joined(s.path(e)) == e.key, "the path spells the name");
    names.push_back(e.key);
  }
  std::ranges::sort(names);
  must(std::ranges::adjacent_find(names) == names.end(), "no two keys have one name");
}

}  // namespace dcp::fuzz
