// libdcpctl_c10d.so: all messages by Gloo.
#include "modules/c10d/messages.h"

namespace dcp::c10d_module {

const bool kInOrder = false;

std::unique_ptr<Messages> make_messages(const Connecting& how) { return make_gloo_messages(how); }

}  // namespace dcp::c10d_module
