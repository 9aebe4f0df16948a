// Which files stand beside a model's weights, and where they go in a plan.
#include "plan/assets.h"

#include <catch2/catch_test_macros.hpp>

#include "catalog/made_checkpoint.h"
#include "plan/opened.h"

using namespace dcp;
using namespace dcp::test;

TEST_CASE("configuration and tokenizer are assets, weights and code are not") {
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json",
        "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "spiece.model", "qwen.tiktoken", "chat_template.jinja",
        "preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json", "LICENSE", "LICENSE.txt", "NOTICE"})
    CHECK(is_asset(name));
  for (const char* name : {"model.safetensors", "tokenizer.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json",
                           "pytorch_model.bin", "vocab.bin", "README.md", "modeling_llama.py", "training_args.bin", ".config.json",
                           "optimizer.pt", "myconfig.json", ""})
    CHECK_FALSE(is_asset(name));
  for (const char* name : {"preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json"})
    CHECK(is_processor(name));
  for (const char* name : {"config.json", "tokenizer_config.json", "chat_template.jinja"}) CHECK_FALSE(is_processor(name));
}

TEST_CASE("assets come before the index, which stays the last file") {
  MadeCheckpoint made;
  for (const char* key : {"a", "b"})
    made.tensors.push_back({.key = key, .dtype = DType::float32, .dims = {4}, .chunks = {whole_chunk({4})}});
  FakeIo io;
  made.put(io, "ckpt");
  const Opened opened(io);
  Plan plan = opened.safetensors({.max_shard_bytes = 16});
  const std::string index = plan.literals.back().bytes;
  const uint64_t bytes = plan.bytes_to_write;
  REQUIRE(plan.files.size() == 3);
  add_assets(plan, {{"config.json", "{}"}, {"LICENSE", "free"}});
  REQUIRE(plan.files.size() == 5);
  CHECK(plan.files[2].name == "config.json");
  CHECK(plan.files[3].name == "LICENSE");
  CHECK(plan.files[3].bytes == 4);
  CHECK(plan.files[4].name == "model.safetensors.index.json");
  CHECK(plan.bytes_to_write == bytes + 6);
  for (const Literal& l : plan.literals) {
    if (l.bytes == index) CHECK(l.file == 4);
    if (l.bytes == "free") CHECK(l.file == 3);
    CHECK(l.file_offset + l.bytes.size() <= plan.files[l.file].bytes);
  }
}

TEST_CASE("a configuration says the class that is published") {
  CHECK(with_architecture(R"({"a": ["architectures", {"architectures": 1}], "architectures": ["Old", "B\"]}"], "z": 1e5})", "New") ==
        "{\"a\": [\"architectures\", {\"architectures\": 1}], \"architectures\": [\n    \"New\"\n  ], \"z\": 1e5}");
  CHECK(with_architecture("{\n  \"architectures\": null\n}\n", "New") == "{\n  \"architectures\": [\n    \"New\"\n  ]\n}\n");
  CHECK(with_architecture("{\n  \"a\": \"architectures\"\n}", "New") ==
        "{\n  \"architectures\": [\n    \"New\"\n  ],\n  \"a\": \"architectures\"\n}");
  CHECK(with_architecture("{}", "New") == "{\n  \"architectures\": [\n    \"New\"\n  ]\n}");
}

TEST_CASE("the text model within a model of images has a configuration of its own") {
  CHECK(text_part("{\n  \"dtype\": \"float16\",\n  \"text_config\": {\n    \"a\": {\n      \"dtype\": 1\n    }\n  },\n  \"x\": 1\n}") ==
        "{\n  \"dtype\": \"float16\",\n  \"a\": {\n    \"dtype\": 1\n  }\n}\n");
  CHECK(text_part(R"({"text_config":{"tie_word_embeddings":true,"dtype":"a"},"dtype":"b","tie_word_embeddings":false})") ==
        "{\"tie_word_embeddings\":false,\"dtype\":\"a\"}\n");
  CHECK(text_part(R"({"x": {"text_config": {}}, "text_config": {"y": 1}, "tie_word_embeddings": null})") ==
        "{\n  \"tie_word_embeddings\": null,\"y\": 1}\n");
}

TEST_CASE("a configuration says the dtype that is written") {
  CHECK(with_dtype(R"({"a": "dtype", "torch_dtype": "float32", "b": {"dtype" : "torch.bfloat16"}, "c": [1]})", "float16") ==
        R"({"a": "dtype", "torch_dtype": "float16", "b": {"dtype" : "float16"}, "c": [1]})");
  for (const char* same : {"{}", "", "{", R"({"dtype": null, "torch_dtype": "auto"})", R"({"x_dtype": "float32", "\"dtype": "float32"})",
                           R"({"dtype": ["float32"]})", R"({"dtype": "float32)", R"({"dtype": "int8"})"})
    CHECK(with_dtype(same, "bfloat16") == same);
}
