// What `verify` says: findings, a closing line, the JSON document, and the --report file in every outcome.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/resolve.h"
#include "context.h"
#include "exec/execute.h"
#include "findings.h"
#include "plan/verify_plan.h"

namespace dcp::cmd {

class VerifyReport {
 public:
  std::string source, manifest, against;
  std::string_view kind;
  FailOn fail_on;
  uint64_t tensors = 0, objects = 0, chunks = 0, files = 0;
  uint64_t records = 0;              // whose CRC was compared
  uint64_t records_without_crc = 0;  // that were read, but have none
  uint64_t bytes = 0;                // read
  uint64_t left_out_records = 0, left_out_bytes = 0, data_records = 0, data_bytes = 0;
  std::string left_out_by;                         // "--quick"
  uint64_t compared_keys = 0, compared_files = 0;  // with --against
  uint64_t seconds_ns = 0;
  uint64_t planned_memory = 0;
  std::vector<Problem> findings;

  void describe(const Catalog& catalog);
  // Takes over what was read and found; one finding says how many records have no CRC.
  void add(const Catalog& catalog, const Resolved& resolved, const VerifyPlan& plan, ExecuteReport executed);
  bool is_damaged() const;
  // Sorts the findings, prints the answer, returns the exit code.
  int done(const Context& context);
  // Another rank than 0, which prints nothing: exits with what rank 0 has found.
  int follow(int exit) { return exit_ = exit; }
  // Runs `body`; renders its failure; writes --report whatever happened. Returns the exit code.
  int around(Context& context, const std::function<int()>& body);

 private:
  void json(JsonWriter& out) const;
  std::string document() const;
  void print(const Context& context) const;
  std::string summary() const;
  int exit_code() const;

  std::vector<UnsafePickle> unsafe_;
  int exit_ = 0;
  std::optional<Problem> error_;
};

}  // namespace dcp::cmd
