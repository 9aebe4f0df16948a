// Programs that show an answer at a terminal: a pager, or man.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "context.h"

namespace dcp::cmd {

// A program that reads what is written to input().
class Viewer {
 public:
  explicit Viewer(std::vector<std::string> words);
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;
  ~Viewer() { close(); }
  bool is_there() const { return child_ > 0; }
  int input() const { return input_; }
  // Ends what it reads, and waits until who looks at it leaves. False: it failed, or is not there.
  bool close();

 private:
  pid_t child_ = -1;
  int input_ = -1;
};

// Between this and its end standard output goes through $DCPCTL_PAGER, $PAGER or less, as git has it: at a terminal only. What is written
// when its reader has left is lost without a word.
class Pager {
 public:
  explicit Pager(Context& context);
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;
  ~Pager();

 private:
  Context& context_;
  std::unique_ptr<Viewer> viewer_;
  int terminal_ = -1;  // what standard output was
};

}  // namespace dcp::cmd
