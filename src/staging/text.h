// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace dcp {

std::string fixed(double value, int digits);
std::string duration(uint64_t ns);               // "1.84 s", "310 ms", "12.3 us"
std::string byte_count(uint64_t bytes);          // "15.0 GiB", "312 B"
std::string gigabytes(double bytes_per_second);  // "26.10"

}  // namespace dcp
