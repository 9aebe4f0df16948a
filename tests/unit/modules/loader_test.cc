#include "modules/loader.h"

#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "base/problem.h"
#include "base/temp_dir.h"
#include "modules/transport.h"

namespace dcp {
namespace {

const ModuleKind<DcpctlModuleHeader> kKind{
    .name = "example", .symbol = "dcpctl_example", .abi = 7, .needs = "a library (cmake -DWITH_IT=ON)"};

ProblemId problem_of(const std::vector<std::string>& folders, const ModuleKind<DcpctlModuleHeader>& kind = kKind) {
  try {
    open_module(folders, kind);
  } catch (const Error& e) {
    return e.problem().id;
  }
  return ProblemId::internal;
}

}  // namespace

TEST_CASE("A module opens once, from the first folder that has it") {
  const test::TempDir empty;
  const std::vector<std::string> folders{empty.path(), DCPCTL_EXAMPLE_MODULE};
  const DcpctlModuleHeader& header = open_module(folders, kKind);
  CHECK(std::string(header.built_with) == "the test");
  CHECK(&header == &open_module({DCPCTL_EXAMPLE_MODULE}, kKind));
}

TEST_CASE("A module that is not there, is broken, or is of another build") {
  const test::TempDir folder;
  CHECK(problem_of({folder.path()}) == ProblemId::module_missing);
  CHECK(problem_of({}) == ProblemId::module_missing);
  std::ofstream(folder.path() + "/libdcpctl_example.so") << "no library";
  CHECK(problem_of({folder.path(), DCPCTL_EXAMPLE_MODULE}) == ProblemId::module_broken);
  ModuleKind<DcpctlModuleHeader> other = kKind;
  other.abi = 8;
  CHECK(problem_of({DCPCTL_EXAMPLE_MODULE}, other) == ProblemId::module_differs);
  other = kKind;
  other.symbol = "dcpctl_other";
  CHECK(problem_of({DCPCTL_EXAMPLE_MODULE}, other) == ProblemId::module_differs);
}

}  // namespace dcp
