// What edit will write or has written, as text and as JSON.
#pragma once

#include <functional>
#include <string_view>

#include "app/edit.h"
#include "line/context.h"

namespace dcp::cmd {

void describe_edit(const EditRequest& request, const EditResult& found, Context& context);
void print_edit(const EditRequest& request, const EditResult& found, Context& context);
std::string edit_json(const EditRequest& request, const EditResult& found);

}  // namespace dcp::cmd
