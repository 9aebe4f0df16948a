// A run folder. The input is its folders: a byte for what is in one, a byte for the length of its name, the name.
#include "catalog/build.h"
#include "fuzz.h"
#include "inputs/run.h"
#include "unit/catalog/made_checkpoint.h"

namespace dcp::fuzz {
namespace {

void put(test::FakeIo& io, const std::string& folder, unsigned what) {
  switch (what % 8) {
    case 0: {
      test::MadeCheckpoint made;
      made.tensors = {test::whole_tensor("w", DType::float32, {2})};
      return made.put(io, folder);
    }
    case 1: return io.put(folder + "/.metadata", "not a pickle");
    case 2: return io.put(folder + "/__0_0.distcp", "alone");
    case 3: return io.put(folder + "/model.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
    case 4: return io.put(folder + "/optimizer/.metadata", "deeper");
    case 5: return io.put(folder + "/step-3/.metadata", "an experiment");
    case 6: return io.put(folder + "/_SUCCESS", "");
    default: return io.put_folder(folder);
  }
}

}  // namespace

void run(Bytes input) {
  constexpr const char* kPatterns[] = {"", "step-(\\d+)", "^(\\d+)$", "_([0-9]+)[._]"};
  constexpr size_t kMaxFolders = 40;
  test::FakeIo io;
  io.put_folder("run");
  const unsigned how = input.empty() ? 0 : std::to_integer<unsigned>(input[0]);
  for (size_t n = 0; input.size() > 2 && n < kMaxFolders; ++n) {
    const auto what = std::to_integer<unsigned>(input[0]);
    const size_t length = std::min<size_t>(std::to_integer<size_t>(input[1]), input.size() - 2);
    std::string name(as_text(input.subspan(2, length)));
    input = input.subspan(2 + length);
    if (name.empty() || name.find('/') != std::string::npos || name.find('\0') != std::string::npos || name == "." || name == "..")
      continue;
    if (!io.facts("run/" + name)) put(io, "run/" + name, what);
  }
  for (const char* pattern : kPatterns) {
    try {
      const std::vector<Step> steps = find_run(io, "run", pattern).steps;
      must(std::ranges::is_sorted(steps, {}, &Step::number), "steps ascend");
      const std::string last = steps.empty() ? "7" : std::to_string(steps.back().number);
      std::vector<Step> broken;
      const std::string found = find_step(io, {"run/", how % 2 == 0 ? "latest" : last, pattern}, {.limits = kLimits}, broken);
      const auto it = std::ranges::find(steps, found, &Step::path);
      must(it != steps.end(), "what is found is a step");
      must(!it->unfinished, "an unfinished one is never chosen");
      if (how % 2 == 0 && it->parts.empty()) must(!why_broken(io, found, {.limits = kLimits}), "the latest step opens");
    } catch (const Error&) {
    }
  }
}

}  // namespace dcp::fuzz
