// Renders `doctor` and interprets its facts: what is missing, and how to get it.
#pragma once

#include <string>
#include <vector>

#include "app/doctor.h"

namespace dcp::cmd {

struct Lack {
  std::string what, gives;  // "no CUDA module: ...", "..."
  bool is_needed = false;   // what is here cannot be used, or a command may fail, without it
};
std::vector<Lack> lacks_of(const DoctorResult& found);

std::string doctor_text(const DoctorResult& found);
std::string doctor_json(const DoctorResult& found);

}  // namespace dcp::cmd
