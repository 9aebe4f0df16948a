// Numbers as people read them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dcp {

std::string fixed(double value, int digits);
std::string human_bytes(uint64_t bytes);                 // "1.5 MiB", "312 B"
std::string grouped(uint64_t number);                    // "1,234,567"
std::string counted(uint64_t number, const char* one);   // "1 key", "2,000 keys"
std::string rate(uint64_t bytes, uint64_t ns);           // "3.21 GB/s"
std::string gigabytes(double bytes_per_second);          // "26.10"
std::string seconds(uint64_t ns);                        // "1.23 s"
std::string duration(uint64_t ns);                       // "1.84 s", "310 ms", "12.3 us"
std::string hex(uint64_t number, size_t digits);         // "00af": at least so many digits
std::string shape_text(std::span<const int64_t> shape);  // "[4, 8]"
// The first `max` names, escaped: "a, b and 7 more".
std::string list_of(const std::vector<std::string>& names, size_t max = 8);

}  // namespace dcp
