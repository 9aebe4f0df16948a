// Writing commands in a folder of their own, each in a process of its own, and what they must leave behind.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fault_io.h"

namespace dcp::fault {

using Files = std::map<std::string, std::string>;  // name below a folder -> content; "NAME/" -> "" for a folder

// One way to write. The command runs in the folder that holds its source ("ckpt", or "model.pt") and its output.
struct Case {
  const char* name;
  std::vector<std::string> arguments;
  std::vector<std::string> outputs;  // names that appear
  Files before{};                    // what lies there already, beside the source
  bool threads = true;               // takes -j
};
const std::vector<Case>& all_cases();
const std::vector<Case>& reading_cases();  // commands that write nothing
// Those whose answer is their exit code or what they print, beside what they are asked about.
std::vector<Case> answering_cases(const std::filesystem::path& data);

struct Outcome {
  int exit = -1;  // -1: ended by a signal
  int signal = 0;
  std::string said;  // standard error
};

using Script = std::function<void(FaultIo&)>;  // runs in the child

struct Run {
  Script before{};     // the command
  Script after{};      // it has ended: what is to be known of it goes to a file
  bool force = false;  // --force, if the command has it not
  int threads = 1;
};

class World {
 public:
  // `data` is tests/data; `scratch` a folder that is made anew for each run.
  World(const std::filesystem::path& data, std::filesystem::path scratch, const Case& c);

  const Case& command() const { return case_; }
  const std::filesystem::path& folder() const { return folder_; }

  void reset();                       // source and what lies there before
  void put(const Files& files);       // instead of what lies beside the source
  pid_t start(const Run& run) const;  // forks; the child runs the command
  Outcome wait(pid_t child) const;
  Outcome run(const Run& run = {}) const { return wait(start(run)); }

  Files beside() const;                                // all but the source
  const Files& complete() const { return complete_; }  // the same after an undisturbed run
  bool committed() const;                              // the new output is in place
  uint64_t calls() const { return calls_; }            // of Io in an undisturbed run
  int exit() const { return exit_; }                   // of the same

  // --- what must hold; each returns what does not, or ""
  enum class Left : uint8_t { kNothing, kLock, kAnything };
  // After an end of whatever kind: old or new and nothing between, the source as it was. `left` is what of ours may lie there.
  std::string whole_or_absent(Left left) const;
  // The same for an end that the program has seen: exit 0 with the new, else the old, or the new if the command had come that far.
  std::string settled(const Outcome& o, bool may_be_complete) const;
  // The next run succeeds, says what it found if a partial output lay there, and leaves nothing of ours.
  std::string repaired();

 private:
  std::filesystem::path said() const { return folder_.string() + ".said"; }
  void measure();

  const Case& case_;
  std::filesystem::path data_, folder_;
  Files source_, complete_;
  uint64_t calls_ = 0;
  int exit_ = 0;
};

Files read_files(const std::filesystem::path& folder);
void write_files(const std::filesystem::path& folder, const Files& files);

}  // namespace dcp::fault
