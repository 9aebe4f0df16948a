// What the choice of keys and their names did: lines on stderr, members of the JSON document.
#pragma once

#include "catalog/select.h"
#include "context.h"

namespace dcp::cmd {

void describe_selection(Context& context, const Selection& selection);

// `left_out_objects`: objects that the output's form left out, beside those that the choice of keys did.
void selection_json(JsonWriter& out, const Catalog& catalog, const Selection& selection, uint64_t left_out_objects);

}  // namespace dcp::cmd
