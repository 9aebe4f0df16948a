#include "maps/parameter_list.h"

#include <algorithm>

#include "catalog/catalog.h"
#include "pickle/graph.h"
#include "pickle/writer.h"

namespace dcp::maps {

ParameterList read_parameters(const SourceFacts& source, BlobId blob, ProblemId id, const Limits& limits) {
  const Catalog& catalog = source.catalog;
  const BlobItem& item = source.resolved.blob(catalog.item_of(blob)).item;
  const PickleGraph graph(item.pickle, item.pickle_place, limits);
  const PickleMachine& machine = graph.machine();
  const auto refuse = [&](std::string got) {
    fail(id, {.path = catalog.path, .tensor = std::string(catalog.key(catalog.blobs[blob])), .object = true}, std::move(got),
         "a list of names, as torch's get_optimizer_state_dict gives it");
  };
  if (graph.root().kind != Kind::kList) refuse(machine.describe(graph.root()));
  ParameterList list;
  PickleMachine::Items items = machine.items(graph.root());
  for (Value v; items.next(v);) {
    const bool is_number = v.kind == Kind::kInt;
    if ((!is_number && v.kind != Kind::kText) || (!list.names.empty() && is_number != list.are_numbers))
      refuse("a parameter as " + machine.describe(v));
    list.are_numbers = is_number;
    list.names.push_back(is_number ? std::to_string(v.integer()) : std::string(machine.text(v)));
  }
  return list;
}

std::string list_of_parameters(const std::vector<std::string>& names) {
  std::string pickle;
  PickleWriter writer(pickle, PickleProtocol::k2);
  writer.begin();
  writer.op(Op::EMPTY_LIST);
  writer.op(Op::MARK);
  for (const std::string& name : names) writer.text(name);
  writer.op(Op::APPENDS);
  writer.end();
  return pickle;
}

}  // namespace dcp::maps
