#include "format/dtype.h"

#include <catch2/catch_test_macros.hpp>

using namespace dcp;

TEST_CASE("every dtype is found under its own names and no other") {
  for (int i = 0; i < static_cast<int>(DType::kCount); ++i) {
    const auto dtype = static_cast<DType>(i);
    const DTypeFacts& facts = facts_of(dtype);
    CHECK(dtype_named(facts.name) == dtype);
    CHECK(facts.bytes == bytes_of(dtype));
    if (!facts.storage.empty()) CHECK(dtype_of_storage_class(facts.storage) == dtype);
    if (!facts.safetensors.empty()) CHECK(dtype_of_safetensors(facts.safetensors) == dtype);
  }
}

TEST_CASE("names are torch's canonical ones") {
  CHECK(facts_of(DType::bool_).name == "bool");
  CHECK(dtype_named("bool") == DType::bool_);
  CHECK_FALSE(dtype_named("bool_"));
  CHECK_FALSE(dtype_named("half"));
  CHECK_FALSE(dtype_named(""));
  CHECK_FALSE(dtype_named("float32 "));
}

TEST_CASE("an absent name is no name") {
  CHECK_FALSE(dtype_of_storage_class(""));
  CHECK_FALSE(dtype_of_safetensors(""));
  CHECK_FALSE(dtype_of_storage_class("UntypedStorage"));
  CHECK_FALSE(dtype_of_safetensors("F6_E2M3"));
}

TEST_CASE("byte order applies to components of complex numbers") {
  CHECK(swap_unit(DType::complex128) == 8);
  CHECK(swap_unit(DType::complex32) == 2);
  CHECK(swap_unit(DType::bfloat16) == 2);
  CHECK(swap_unit(DType::float8_e5m2) == 1);
}
