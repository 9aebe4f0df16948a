// Web servers and Hugging Face.
#pragma once

#include <memory>

#include "net/origin.h"

namespace dcp::net {

std::unique_ptr<Origin> make_web(Http& http);
std::unique_ptr<Origin> make_hub(Http& http);

}  // namespace dcp::net
