// The whole program under faults: every writing command with one call failing, killed at one call, stopped by signals, on a full disk,
// short of memory, against a twin, and after a power loss at any moment.
//
//   fault DATA [--long] [NAME...]     NAME: calls, kills, signals, full, short, memory, power, twins, in-place, in-place-power, answers (all of them); --long: every state, not a sample
//
// What must hold in each state: world.h. Commands run in processes of their own, with Io in between (fault_io.h).
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <random>
#include <set>
#include <thread>

#include "allocations.h"
#include "base/problem.h"
#include "disk.h"
#include "in_place.h"
#include "undisturbed.h"
#include "world.h"

namespace dcp::fault {
namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;

struct Setup {
  fs::path data, scratch;
  bool all = false;  // --long
};

// Of `count` indices all with --long, else about `most`, spread evenly.
uint64_t stride(const Setup& s, uint64_t count, uint64_t most) { return s.all ? 1 : 1 + count / most; }

ProblemId problem_of(Call call) {
  switch (call) {
    case Call::kOpen:
    case Call::kFacts: return ProblemId::io_open;
    case Call::kRead: return ProblemId::io_read;
    case Call::kList: return ProblemId::io_list;
    case Call::kWrite:
    case Call::kAllocate: return ProblemId::io_write;
    case Call::kSync:
    case Call::kSyncFolder: return ProblemId::io_sync;
    case Call::kRename:
    case Call::kLink: return ProblemId::io_rename;
    case Call::kRemove: return ProblemId::io_remove;
    default: return ProblemId::io_create;
  }
}

// The calls that a full disk can refuse.
bool writes(Call call) {
  return call == Call::kCreate || call == Call::kWrite || call == Call::kAllocate || call == Call::kMakeFolder || call == Call::kSync;
}

const char* name_of(Call call) {
  constexpr const char* kNames[] = {"open",          "read",          "facts",  "list", "create", "write", "allocate",  "sync",
                                    "sync a folder", "make a folder", "rename", "link", "remove", "lock",  "free space"};
  return kNames[static_cast<size_t>(call)];
}

std::string at_call(uint64_t k, const char* what) { return std::string(what) + " at call " + std::to_string(k); }

void calls(World& world, const Setup&) {
  const std::vector<Call> made = calls_of(world);
  for (uint64_t k = 0; k < made.size(); ++k) {
    for (const bool full : {false, true}) {
      if (full && !writes(made[k])) continue;
      world.reset();
      const ProblemId id = full ? ProblemId::io_no_space : problem_of(made[k]);
      const Outcome o = world.run({.before = [&](FaultIo& io) {
        io.before = [k, id](uint64_t index, Call, const std::string& path) {
          if (index == k) fail(id, {.path = path}, "a fault of the test");
        };
      }});
      const std::string where = at_call(k, full ? "no space" : "an error") + std::string(", ") + name_of(made[k]);
      check(world.command(), where, world.settled(o, true));
      // What cannot be removed stays; and an error after the commit may leave something of what was replaced.
      const bool may_leave = made[k] == Call::kRemove || world.committed();
      check(world.command(), where, world.whole_or_absent(may_leave ? World::Left::kAnything : World::Left::kNothing));
      if (o.exit != 0) check(world.command(), where, o.exit == 4 ? "" : "exit " + std::to_string(o.exit));
      check(world.command(), where, world.repaired());
    }
  }
}

// What cannot be read is an error, or not needed: never another answer.
void answers(World& world, const Setup&) {
  check(world.command(), "undisturbed", world.exit() <= 1 && world.calls() > 3 ? "" : "no answer");
  const std::vector<Call> made = calls_of(world);
  world.reset();
  const Files before = world.beside();
  for (uint64_t k = 0; k < made.size(); ++k) {
    const Outcome o = world.run({.before = [&](FaultIo& io) {
      io.before = [&](uint64_t index, Call, const std::string& path) {
        if (index == k) fail(problem_of(made[k]), {.path = path}, "a fault of the test");
      };
    }});
    const std::string where = at_call(k, "an error") + ", " + name_of(made[k]);
    check(world.command(), where, o.exit == 4 || o.exit == world.exit() ? "" : "exit " + std::to_string(o.exit) + ": " + o.said);
    check(world.command(), where, world.beside() == before ? "" : "something was written");
  }
}

void kills(World& world, const Setup&) {
  for (uint64_t k = 0; k < world.calls(); ++k) {
    world.reset();
    const Outcome o = world.run({.before = [&](FaultIo& io) {
      io.before = [k](uint64_t index, Call, const std::string&) {
        if (index == k) ::raise(SIGKILL);
      };
    }});
    check(world.command(), at_call(k, "killed"), o.signal == SIGKILL ? "" : "not killed");
    check(world.command(), at_call(k, "killed"), world.whole_or_absent(World::Left::kAnything));
    check(world.command(), at_call(k, "killed"), world.repaired());
  }
}

void signals(World& world, const Setup& s) {
  const auto ended = [&](const std::string& where, const Outcome& o, int number) {
    // Before the handlers stand a signal ends the program, which has done nothing yet.
    const bool early = o.exit < 0 && o.signal == number;
    check(world.command(), where,
          early || o.exit == 0 || o.exit == 128 + number
              ? ""
              : "exit " + std::to_string(o.exit) + ", signal " + std::to_string(o.signal) + ": " + o.said);
    check(world.command(), where, world.whole_or_absent(World::Left::kNothing));
    if (o.exit == 0) check(world.command(), where, world.settled(o, false));
  };
  for (const int number : {SIGINT, SIGTERM}) {
    for (uint64_t k = 0; k < world.calls(); ++k) {
      world.reset();
      const Outcome o = world.run({.before = [&](FaultIo& io) {
        io.before = [k, number](uint64_t index, Call, const std::string&) {
          if (index == k) ::raise(number);
        };
      }});
      ended(at_call(k, ::strsignal(number)), o, number);
    }
    Random random(1);
    for (int round = 0; round < (s.all ? 500 : 25); ++round) {
      world.reset();
      const std::chrono::microseconds wait(random() % 8000);
      const pid_t child = world.start({});
      std::this_thread::sleep_for(wait);
      ::kill(child, number);
      ended(std::string(::strsignal(number)) + " after " + std::to_string(wait.count()) + " us", world.wait(child), number);
    }
  }
}

void short_calls(World& world, const Setup&) {
  for (const size_t most : {size_t{1}, size_t{7}, size_t{64}}) {
    world.reset();
    const Outcome o = world.run({.before = [&](FaultIo& io) { io.most = most; }});
    const std::string where = std::to_string(most) + " bytes a call";
    check(world.command(), where, o.exit == 0 ? world.settled(o, false) : "exit " + std::to_string(o.exit) + ": " + o.said);
    check(world.command(), where, world.whole_or_absent(World::Left::kNothing));
  }
}

void memory(World& world, const Setup& s) {
  for (const int threads : {1, 3}) {
    const uint64_t count = allocations_of(world, threads);
    check(world.command(), "counted", count > 100 ? "" : "no allocations are seen");
    const uint64_t step = stride(s, count, 150);
    for (uint64_t n = static_cast<uint64_t>(threads) % step; n < count; n += step) {
      world.reset();
      const Outcome o = world.run({.before = [&](FaultIo&) { fail_allocation(n); }, .threads = threads});
      const std::string where = "allocation " + std::to_string(n) + " fails, threads: " + std::to_string(threads);
      check(world.command(), where, world.settled(o, true));
      if (o.exit != 0)
        check(world.command(), where,
              o.exit == 4 && o.said.find("out of memory") != std::string::npos ? "" : "exit " + std::to_string(o.exit) + ": " + o.said);
      check(world.command(), where, world.whole_or_absent(World::Left::kNothing));
    }
  }
}

// Calls fn with the world in states that the disk may be in after a loss of power.
void each_state_without_power(World& world, const Setup& s, const std::function<void(const std::string& where)>& fn) {
  const std::vector<Change> changes = changes_of(world);
  Disk disk(world.command().before);
  Random random(1);
  std::set<Files> seen;  // one state may follow from many moments
  for (size_t n = 0; n <= changes.size(); ++n) {
    if (n > 0) disk.apply(changes[n - 1]);
    disk.each_state(s.all ? 512 : 8, random, [&](const Files& state) {
      if (!seen.insert(state).second) return;
      world.put(state);
      fn("power lost after change " + std::to_string(n));
    });
  }
}

void power(World& world, const Setup& s) {
  each_state_without_power(world, s, [&](const std::string& where) {
    check(world.command(), where, world.whole_or_absent(World::Left::kAnything));
    check(world.command(), where, world.repaired());
  });
}

// A small disk of our own, where the machine lets us mount one, else a limit on the size of a file.
void full(World& world, const Setup& s) {
  world.reset();
  world.run();
  uint64_t bytes = 0;
  for (const auto& [name, content] : world.beside()) bytes += content.size();
  const bool mounts = ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  const auto ends = [&](const std::string& where, const Outcome& o) {
    check(world.command(), where, world.settled(o, false));
    if (o.exit != 0) check(world.command(), where, o.exit == 4 ? "" : "exit " + std::to_string(o.exit) + ": " + o.said);
    check(world.command(), where, world.whole_or_absent(World::Left::kNothing));
  };
  constexpr uint64_t kPage = 4096;
  const uint64_t pages = bytes / kPage + 10;
  for (uint64_t n = 0; mounts && n < pages; n += stride(s, pages, 12)) {
    for (const int unsure : {0, 1, 2}) {  // the file system says what is free; does not say; and reserves nothing either
      world.reset();
      const std::string size = "size=" + std::to_string(64 * kPage + n * kPage);
      const fs::path folder = world.folder();
      const fs::path kept = folder.string() + ".kept";
      fs::rename(folder, kept);
      fs::create_directories(folder);
      if (::mount("none", folder.c_str(), "tmpfs", 0, size.c_str()) != 0) std::abort();
      fs::copy(kept, folder, fs::copy_options::recursive);
      const uint64_t room = n * kPage, free = fs::space(folder).available;
      if (free > room) {  // what is left besides is taken
        const std::string zeros(free - room, '\0');
        write_files(folder, {{"ckpt/filler", zeros}});
      }
      const Outcome o = world.run({.before = [&](FaultIo& io) {
        io.knows_space = unsure == 0;
        io.reserves = unsure < 2;
      }});
      fs::remove(folder / "ckpt/filler");
      if (fs::exists(folder / "ckpt") && fs::is_empty(folder / "ckpt")) fs::remove(folder / "ckpt");
      ends(std::to_string(n) + " pages free" + (unsure == 0 ? "" : unsure == 1 ? ", unsaid" : ", not reserved"), o);
      ::umount(folder.c_str());
      fs::remove_all(kept);
    }
  }
  for (uint64_t n = 256; n < bytes; n += 1 + bytes / (s.all ? 60 : 8)) {  // less would not hold what is said on standard error
    world.reset();
    const Outcome o = world.run({.before = [&](FaultIo& io) {
      io.reserves = false;
      const rlimit limit{n, n};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }});
    ends("files of at most " + std::to_string(n) + " bytes", o);
  }
  if (!mounts) std::printf("  no tmpfs can be mounted here: a limit on the size of files stands for the full disk\n");
}

void twins(World& world, const Setup& s) {
  Random random(1);
  uint64_t won[2] = {0, 0};
  for (int round = 0; round < (s.all ? 400 : 30); ++round) {
    world.reset();
    const pid_t first = world.start({});
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    const pid_t second = world.start({});
    int status[2] = {0, 0};
    ::waitpid(first, &status[0], 0);
    ::waitpid(second, &status[1], 0);
    const int exits[2] = {WIFEXITED(status[0]) ? WEXITSTATUS(status[0]) : -1, WIFEXITED(status[1]) ? WEXITSTATUS(status[1]) : -1};
    const std::string where = "twins, exits " + std::to_string(exits[0]) + " and " + std::to_string(exits[1]);
    const bool replaces = std::ranges::find(world.command().arguments, "--force") != world.command().arguments.end();
    // With --force the second may win after the first has ended.
    const bool fair = (exits[0] == 0 && exits[1] == 2) || (exits[0] == 2 && exits[1] == 0) || (replaces && exits[0] == 0 && exits[1] == 0);
    check(world.command(), where, fair ? "" : "not one winner");
    check(world.command(), where, world.whole_or_absent(World::Left::kNothing));
    check(world.command(), where, world.settled({.exit = 0, .said = {}}, false));
    won[exits[0] == 0 ? 0 : 1] += 1;
  }
  if (won[0] == 0 && won[1] == 0) check(world.command(), "twins", "nobody won");
}

// Each call failing, and each call the last one.
void in_place(World& world, const Setup&) {
  const Files& before = world.command().before;
  const std::vector<Call> made = calls_of(world);
  for (uint64_t k = 0; k < made.size(); ++k) {
    for (const bool killed : {false, true}) {
      world.reset();
      const ProblemId id = problem_of(made[k]);
      const Outcome o = world.run({.before = [&](FaultIo& io) {
        io.before = [k, id, killed](uint64_t index, Call, const std::string& path) {
          if (index != k) return;
          if (killed) ::raise(SIGKILL);
          fail(id, {.path = path}, "a fault of the test");
        };
      }});
      const std::string where = at_call(k, killed ? "killed" : "an error") + std::string(", ") + name_of(made[k]);
      if (!killed && o.exit != 0) check(world.command(), where, o.exit == 4 ? "" : "exit " + std::to_string(o.exit) + ": " + o.said);
      check(world.command(), where, steps_fault(before, world.complete(), world.beside()));
      const Outcome next = world.run();
      check(world.command(), where, next.exit == 0 ? "" : "the next run fails: " + next.said);
      check(world.command(), where, repaired_fault(before, world.complete(), world.beside()));
    }
  }
}

// And power lost at any moment.
void in_place_power(World& world, const Setup& s) {
  const Files& before = world.command().before;
  each_state_without_power(world, s, [&](const std::string& where) {
    check(world.command(), where, steps_fault(before, world.complete(), world.beside()));
    const Outcome next = world.run();
    check(world.command(), where, next.exit == 0 ? "" : "the next run fails: " + next.said);
    check(world.command(), where, repaired_fault(before, world.complete(), world.beside()));
  });
}

struct Mode {
  const char* name;
  void (*run)(World&, const Setup&);
};
constexpr Mode kModes[] = {
    {"calls", calls},    {"kills", kills}, {"signals", signals}, {"full", full},         {"short", short_calls},
    {"memory", memory},  {"power", power}, {"twins", twins},     {"in-place", in_place}, {"in-place-power", in_place_power},
    {"answers", answers}};

int usage() {
  std::fprintf(stderr, "fault DATA [--long] [NAME...], where NAME is one of:\n");
  for (const Mode& mode : kModes) std::fprintf(stderr, "%s\n", mode.name);
  return 2;
}

int run_modes(Setup s, const std::vector<std::string>& names) {
  for (const Mode& mode : kModes) {
    if (!names.empty() && std::ranges::find(names, mode.name) == names.end()) continue;
    tally().states = 0;
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Case> cases = mode.run == in_place || mode.run == in_place_power ? in_place_cases(s.data)
                              : mode.run == answers                              ? answering_cases(s.data)
                                                                                 : all_cases();
    if (mode.run == memory) cases.insert(cases.end(), reading_cases().begin(), reading_cases().end());
    for (const Case& c : cases) {
      World world(s.data, s.scratch / "world", c);
      mode.run(world, s);
    }
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin).count();
    std::printf("%-14s %8lu checks, %.1f s\n", mode.name, tally().states, static_cast<double>(ms) / 1000);
    std::fflush(stdout);
  }
  std::printf("%lu do not hold\n", tally().faults);
  return tally().faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace dcp::fault

int main(int argc, char** argv) {
  using namespace dcp::fault;
  if (argc < 2 || !std::filesystem::is_directory(argv[1])) return usage();
  Setup setup{.data = std::filesystem::absolute(argv[1]), .scratch = {}};
  std::vector<std::string> names;
  for (int i = 2; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--long") setup.all = true;
    else if (names.push_back(argv[i]); std::ranges::find(kModes, names.back(), &Mode::name) == std::end(kModes)) return usage();
  }
  // In memory where possible: what a sync costs is not asked here.
  std::string scratch =
      std::filesystem::exists("/dev/shm") && ::access("/dev/shm", W_OK) == 0 ? "/dev/shm/dcpctl-fault-XXXXXX" : "/tmp/dcpctl-fault-XXXXXX";
  if (::mkdtemp(scratch.data()) == nullptr) return 2;
  setup.scratch = scratch;
  const int exit = run_modes(setup, names);
  std::filesystem::remove_all(scratch);
  return exit;
}
