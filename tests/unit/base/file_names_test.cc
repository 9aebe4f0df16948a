// What the names of steps say.
#include "base/file_names.h"

#include <catch2/catch_test_macros.hpp>

using namespace dcp;

TEST_CASE("the number of a step is the last one behind its word, else the last of all") {
  CHECK(step_number("step-20") == 20);
  CHECK(step_number("Step_007") == 7);
  CHECK(step_number("global_step20") == 20);
  CHECK(step_number("iter_0000100") == 100);
  CHECK(step_number("iteration-3-of-9") == 3);
  CHECK(step_number("epoch=0-step=100-val_loss=0.25.ckpt") == 100);
  CHECK(step_number("step_1_step_2") == 2);
  CHECK(step_number("stepwise-5") == 5);
  CHECK(step_number("checkpoint_000003") == 3);
  CHECK(step_number("epoch=2-val_loss=0.25") == 25);
  CHECK(step_number("ep1-ba100-rank0") == 100);
  CHECK(step_number("alibaba5-7") == 7);
  CHECK(step_number("batch_3_of_9") == 3);
  CHECK(step_number("12") == 12);
  CHECK(!step_number("latest"));
  CHECK(!step_number(""));
  CHECK(!step_number("step-99999999999999999999"));  // does not fit
}

TEST_CASE("the digits of a step's number") {
  const NameDigits named = *step_digits("epoch=0-step=100-v2"), last = *step_digits("llama-7b-250x");
  CHECK((named.begin == 13 && named.size == 3 && named.is_named));
  CHECK((last.begin == 9 && last.size == 3 && !last.is_named));
  CHECK(!step_digits("step"));
}
