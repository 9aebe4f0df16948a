// Programs that show an answer on a terminal: a pager, or man.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "line/context.h"

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
  // Closes its input and waits until the user leaves. False: it failed, or does not exist.
  bool close();

 private:
  pid_t child_ = -1;
  int input_ = -1;
};

// While it lives, standard output goes through $DCPCTL_PAGER, $PAGER or less, as with git: only on a terminal. Output after the user has
// left the pager is silently dropped.
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
