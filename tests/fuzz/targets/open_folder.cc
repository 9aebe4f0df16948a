// A folder of any kind. The input is its files: a byte for the name, four for the length, the content.
#include <algorithm>

#include "fuzz.h"
#include "whole.h"

namespace dcp::fuzz {

void run(Bytes input) {
  constexpr const char* kNames[] = {".metadata",
                                    "__0_0.distcp",
                                    "__1_0.distcp",
                                    "__0.metadata",
                                    "__1.metadata",
                                    "model.safetensors.index.json",
                                    "model-00001-of-00002.safetensors",
                                    "model-00002-of-00002.safetensors",
                                    "model.safetensors",
                                    "__2_0.distcp",
                                    "metadata.pkl",
                                    "model_0.pt",
                                    "model_1.pt",
                                    "model_world_size_2_rank_0.pt",
                                    "model_world_size_2_rank_1.pt",
                                    "model_0.safetensors",
                                    "model_1.safetensors",
                                    "config_0.json",
                                    "tokenizer_0.bin",
                                    "pytorch_model_fsdp_0_rank0.bin",
                                    "pytorch_model_fsdp_0_rank1.bin"};
  test::FakeIo io;
  io.put_folder("ckpt");
  constexpr size_t kHead = 5;
  const Bytes whole = input;
  while (input.size() >= kHead) {
    const auto name = std::to_integer<uint8_t>(input[0]) % std::size(kNames);
    const size_t bytes = std::min<size_t>(load_le<uint32_t>(input.data() + 1), input.size() - kHead);
    io.put(std::string("ckpt/") + kNames[name], as_text(input.subspan(kHead, bytes)));
    input = input.subspan(kHead + bytes);
  }
  run_whole(io, "ckpt", whole);
}

}  // namespace dcp::fuzz
