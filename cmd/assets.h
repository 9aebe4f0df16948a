// --assets DIR: configuration and tokenizer of a Hugging Face model, copied beside its weights in the same commit.
#pragma once

#include <string>

#include "context.h"
#include "plan/plan.h"

namespace dcp::cmd {

// Adds the assets (plan/assets.h) among the files of the folder `dir` to the plan of a folder. Throws no_such_path, no_assets, over_limit.
void copy_assets(const std::string& dir, const Context& context, Plan& plan);

}  // namespace dcp::cmd
