#include "staging/chart.h"

#include <catch2/catch_test_macros.hpp>

using namespace dcp;

TEST_CASE("a table as text: the first columns to the left, the others to the right") {
  const Table t{{"method", "GB/s"}, {{"pinned", "5.10"}, {"x", "12.00"}}};
  CHECK(table_text(t, 1) == "method   GB/s\npinned   5.10\nx       12.00\n");
}
