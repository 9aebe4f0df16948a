#include <catch2/catch_test_macros.hpp>
#include <initializer_list>

#include "base/text.h"

using namespace dcp;

TEST_CASE("edits between words") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("weight", "weight") == 0);
  CHECK(edit_distance("weigth", "weight") == 1);  // neighbours
  CHECK(edit_distance("wight", "weight") == 1);
  CHECK(edit_distance("weights", "weight") == 1);
  CHECK(edit_distance("", "bias") == 4);
}

TEST_CASE("the nearest name, if one is near") {
  const auto closest = [](std::string_view word, std::initializer_list<std::string_view> names) {
    Closest c(word);
    for (const std::string_view n : names) c.offer(n);
    return c.found();
  };
  CHECK(closest("output.weigth", {"output.bias", "output.weight", "input.weight"}) == "output.weight");
  CHECK(closest("inspekt", {"verify", "inspect"}) == "inspect");
  CHECK(closest("zzz", {"verify", "inspect"}).empty());
  CHECK(closest("", {"a"}) == "a");
  const std::string prefix(100000, 'x');
  CHECK(closest(prefix + "weigth" + prefix, {prefix + "weight" + prefix, prefix + "bias" + prefix}) == prefix + "weight" + prefix);
}
