// --expect REF, --expect-dtypes, and their part of --report.
#pragma once

#include "app/requests.h"
#include "base/json.h"
#include "line/context.h"

namespace dcp {
struct Expectation;
}

namespace dcp::cmd {

void add_expect(Command& command, ExpectRequest& flags);
void expectation_json(JsonWriter& json, const Expectation& expectation);

}  // namespace dcp::cmd
