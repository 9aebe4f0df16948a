// The output of diff: a verdict and rows of differences, or JSON.
#pragma once

#include <cstdint>
#include <string>

#include "app/diff.h"
#include "line/context.h"
#include "report/fields.h"

namespace dcp::cmd {

struct DiffPaths {
  std::string a, b;  // as on the command line
};

enum class DiffRows : uint8_t { kNone, kFolded, kAll };

void print_diff(const DiffResult& result, const DiffPaths& paths, DiffRows rows, const Context& context);
std::string diff_document(const DiffResult& result, const DiffPaths& paths);
// A page: which layers changed and by how much, and each difference.
std::string diff_html(const DiffResult& result, const DiffPaths& paths);
inline const std::vector<std::string_view> kDiffFields{"key",      "kind",      "dtype_a", "dtype_b", "shape_a", "shape_b",
                                                       "elements", "differing", "max_abs", "max_rel", "text"};
void diff_rows(const DiffResult& result, const FieldFlags& fields, const Context& context);
// A problem of B: its hints name the options for B.
Problem with_option_of_b(const Problem& problem);
// Notes what was not compared.
void note_left_out(const DiffResult& result, Context& context);

}  // namespace dcp::cmd
