// Web servers and Hugging Face.
#pragma once

#include <memory>

#include "net/origin.h"

namespace dcp::net {

// Where a redirect from `base` leads; "": nowhere.
std::string joined_url(const std::string& base, const std::string& location);

std::unique_ptr<Origin> make_web(Http& http);
std::unique_ptr<Origin> make_hub(Http& http);

}  // namespace dcp::net
