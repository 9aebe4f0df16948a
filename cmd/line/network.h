// Reading over the network: what the stores of the program are told, and what is said about their requests.
#pragma once

#include <memory>

#include "line/command.h"
#include "line/context.h"
#include "net/http.h"

namespace dcp::cmd {

struct Network {
  std::shared_ptr<net::Settings> settings;
  std::shared_ptr<net::Http> http;
};
// Nothing is read or opened before a store needs it.
Network make_network(const StopFlag& stop);

void add_network(Command& command, Context& context);
// What stores keep in memory is bounded by the command's cap.
void bound_network(Command& command, Context& context);
// With -v, what the requests have been.
void tell_network(Context& context);
// Before more than 100 GB are read from a store: that costs money.
void tell_amount(Context& context, uint64_t bytes);

}  // namespace dcp::cmd
