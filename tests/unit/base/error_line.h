// What a call says when it fails: tests compare whole messages.
#pragma once

#include <string>

#include "base/problem.h"

namespace dcp::test {

// The line of the Error that `call` throws; "no error" if it throws none.
template <class Call>
std::string error_line(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The id of it; empty if there is none.
template <class Call>
std::string error_id(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(id_name(error.problem().id));
  }
  return {};
}

}  // namespace dcp::test
