// What every function of the library throws, and what verify() reports.
//
// Failures are exceptions of the one type Error; nothing is printed, and the process is never ended. What a call was writing has then not
// appeared under its name.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "dcpctl/export.h"

namespace dcpctl {

// Whose fault a problem is. The numbers are the exit codes of the program dcpctl.
enum class Kind : int {
  kAnswerNo = 1,  // done, and the answer is no
  kUsage = 2,     // the call is wrong, or its output exists
  kInput = 3,     // the input is no checkpoint, malformed, damaged, or uses something that is not supported
  kMachine = 4,   // I/O, space, memory; in a callback of the caller's, whatever it threw
  kLacking = 5,   // this build or machine lacks what was asked for
  kRank = 6,      // the exchange between ranks failed
};

enum class Severity : uint8_t { kNote, kWarning, kDamage, kError };

// A fact with a place. Names and paths are raw: they may hold any byte, but for `line`.
struct Problem {
  std::string id = {};  // stable, such as "crc_mismatch": for programs
  Kind kind = Kind::kMachine;
  Severity severity = Severity::kError;
  std::string path = {};                // file or folder, "" if there is none
  std::string member = {};              // record in it, such as "data.pkl"
  std::string key = {};                 // of a tensor or an object
  std::optional<uint64_t> offset = {};  // bytes from the start of `path`
  std::optional<uint32_t> rank = {};    // of a save by several: the one at which it happened
  std::string what = {};                // in words, without place and values
  std::string got = {}, expected = {};  // may be empty
  std::string hint = {};                // what to do about it; may be empty
  std::string line = {};                // all of that but the hint in one line that is safe on a terminal
};

class DCPCTL_API Error : public std::exception {
 public:
  explicit Error(Problem problem);
  ~Error() override;
  Error(const Error&);
  Error& operator=(const Error&);
  const Problem& problem() const noexcept { return problem_; }
  Kind kind() const noexcept { return problem_.kind; }
  const char* what() const noexcept override { return problem_.line.c_str(); }

 private:
  Problem problem_;
};

}  // namespace dcpctl
