// The steps of a run, as text and as JSON.
#pragma once

#include <functional>
#include <string_view>

#include "app/list.h"
#include "line/context.h"

namespace dcp::cmd {

void print_steps(const RunSurvey& run, const Context& context);
void list_json(const ListResult& found, int exit, const std::function<void(std::string_view)>& write);

}  // namespace dcp::cmd
