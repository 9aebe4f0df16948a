// The exception that every function of the library throws, and the problems that verify() reports.
//
// Every failure is an exception of one type, Error. Nothing is printed, and the process is never terminated. When a call that writes fails,
// its output does not appear under its name.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "dcpctl/export.h"

namespace dcpctl {

// Who is at fault. The numbers are the exit codes of the dcpctl program.
enum class Kind : int {
  kAnswerNo = 1,  // done, and the answer is no
  kUsage = 2,     // the call is wrong, or its output exists
  kInput = 3,     // the input is not a checkpoint, is malformed or damaged, or uses something unsupported
  kMachine = 4,   // I/O, disk space, memory; or whatever a callback of the caller threw
  kLacking = 5,   // this build or machine lacks what was asked for
  kRank = 6,      // the exchange between ranks failed
};

enum class Severity : uint8_t { kNote, kWarning, kDamage, kError };

// A fact, and its place. Names and paths are raw and may hold any byte; only `line` is escaped.
struct Problem {
  std::string id = {};  // stable identifier for programs, such as "crc_mismatch"
  Kind kind = Kind::kMachine;
  Severity severity = Severity::kError;
  std::string path = {};                // file or folder, "" if there is none
  std::string member = {};              // record in it, such as "data.pkl"
  std::string key = {};                 // of a tensor or an object
  std::optional<uint64_t> offset = {};  // bytes from the start of `path`
  std::optional<uint32_t> rank = {};    // in a save by several ranks: the one where it happened
  std::string what = {};                // description, without place and values
  std::string got = {}, expected = {};  // may be empty
  std::string hint = {};                // what to do about it; may be empty
  std::string line = {};                // everything but the hint, in one line that is safe to print on a terminal
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
