// Exit codes, and their meanings: the table in the top-level help, in every man page and in `help --json`.
#pragma once

#include <array>
#include <iterator>
#include <string_view>

#include "base/problem.h"

namespace dcp::cmd {

enum class Exit : int {
  kOk = 0,
  kAnswerNo = 1,
  kUsage = 2,
  kInput = 3,
  kMachine = 4,
  kLacking = 5,
  kRank = 6,
  kHungUp = 129,
  kInterrupted = 130,
  kTerminated = 143,
};

inline Exit exit_of(ProblemId id) {
  constexpr Exit kExits[] = {Exit::kAnswerNo, Exit::kUsage, Exit::kInput,       Exit::kMachine,
                             Exit::kLacking,  Exit::kRank,  Exit::kInterrupted, Exit::kTerminated};  // by class
  static_assert(std::size(kExits) == static_cast<size_t>(ProblemClass::kTerminated) + 1);
  return kExits[static_cast<size_t>(class_of(id))];
}

struct ExitStatus {
  Exit code;
  std::string_view meaning;
};

constexpr std::array<ExitStatus, 10> kExitStatuses{{
    {Exit::kOk, "done"},
    {Exit::kAnswerNo, "done, and the answer is no: damage, differences, expectations not met"},
    {Exit::kUsage, "the command line is wrong, or the output exists"},
    {Exit::kInput, "the input is not a checkpoint, is malformed or damaged, or uses something unsupported"},
    {Exit::kMachine, "the machine failed: I/O, space, memory, device"},
    {Exit::kLacking, "this build or machine lacks what was asked for"},
    {Exit::kRank, "another rank failed or could not be reached"},
    {Exit::kHungUp, "the terminal was closed; nothing half-written remains"},
    {Exit::kInterrupted, "interrupted; nothing half-written remains"},
    {Exit::kTerminated, "terminated; nothing half-written remains"},
}};

}  // namespace dcp::cmd
