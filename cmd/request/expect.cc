#include "request/expect.h"

#include "app/expect.h"
#include "line/command.h"

namespace dcp::cmd {

void add_expect(Command& c, ExpectRequest& flags) {
  const std::string group = "Expectations";
  c.option("--expect", flags.reference, "REF",
           "Write only if keys and shapes are those of REF, a checkpoint or a list as 'inspect --keys' prints it, and no object of REF is "
           "missing")
      .reads()
      .in(group);
  c.flag("--expect-tensors", flags.tensors, "With --expect: tensors alone, whatever objects REF has").needs("--expect").in(group);
  c.flag("--expect-dtypes", flags.dtypes, "With --expect: the dtypes too").needs("--expect").in(group);
}

void expectation_json(JsonWriter& json, const Expectation& e) {
  if (e.reference.empty()) return;
  constexpr std::string_view kMembers[kDifferenceKinds] = {"missing", "unexpected", "shape", "dtype"};
  constexpr uint64_t kShown = 1000;  // of each kind
  json.key("expect").begin_object().member("reference", e.reference).member("differences", uint64_t{e.differences.size()});
  if (e.may_lack_shards) json.member("incomplete", true);
  for (size_t k = 0; k < kDifferenceKinds; ++k) {
    json.key(kMembers[k]).begin_array();
    uint64_t shown = 0;
    for (const Difference& d : e.differences) {
      if (static_cast<size_t>(d.kind) != k || ++shown > kShown) continue;
      json.begin_object().member("key", d.key);
      if (!d.got.empty()) json.member("got", d.got);
      if (!d.expected.empty()) json.member("expected", d.expected);
      json.end_object();
    }
    json.end_array();
  }
  if (!e.additional.empty()) json.member("additional_objects", e.additional);
  json.end_object();
}

}  // namespace dcp::cmd
