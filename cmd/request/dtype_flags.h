// The options that choose dtypes: which tensors are cast, and how.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "line/context.h"
#include "select/dtypes.h"

namespace dcp::cmd {

struct DtypeFlags {
  std::string dtype, scope = "model", fp8_overflow = "saturate";
  std::vector<std::string> rules;
  bool raw = false, strict = false;

  // Throws usage.
  DtypeOptions options() const;
  Fp8Overflow overflow() const { return fp8_overflow == "nan" ? Fp8Overflow::kNan : Fp8Overflow::kSaturate; }
};

// --dtype, --dtype-scope, --dtype-rule, --raw.
void add_dtypes(Command& command, DtypeFlags& flags);
// The same, plus the options of commands that cast: --fp8-overflow, --strict-cast.
void add_casts(Command& command, DtypeFlags& flags);

// "cast 15 tensors: 33.2 KiB become 16.6 KiB".
std::string root_text(const std::string& path);  // of a model
std::string cast_text(const CastSummary& casts);

}  // namespace dcp::cmd
