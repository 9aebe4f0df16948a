// train_and_save FOLDER [WIDTH]    trains a small model of LibTorch and saves FOLDER/step-N beside the training
//
// The parameters are copied into a staging buffer, which is made once; a thread writes the buffer to disk while the next steps change the
// parameters. Python loads what it wrote with torch.distributed.checkpoint.load({"model": model.state_dict()}, checkpoint_id="FOLDER/step-2").
//
// --torch-save also writes FOLDER/step-N.pt with LibTorch's own torch::save, at the moment of the call: to compare.
#include <dcpctl/dcpctl.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <string>
#include <vector>

namespace {

// What to save: views of the parameters and buffers, no copies.
std::vector<dcpctl::Shard> shards_of(const torch::nn::Module& model) {
  std::vector<dcpctl::Shard> shards;
  const auto add = [&](const std::string& name, const torch::Tensor& t) {
    shards.push_back({.key = "model." + name,
                      .dtype = c10::getDtypeNames(t.scalar_type()).first,
                      .shape = t.sizes().vec(),
                      .strides = t.strides().vec(),
                      .data = t.const_data_ptr(),
                      .path = {"model", name},
                      .requires_grad = t.requires_grad()});
  };
  for (const auto& p : model.named_parameters()) add(p.key(), p.value());
  for (const auto& b : model.named_buffers()) add(b.key(), b.value());
  return shards;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) return std::fprintf(stderr, "usage: train_and_save FOLDER [WIDTH] [--torch-save]\n"), 2;
  const std::string folder = argv[1];
  const bool torch_save = std::strcmp(argv[argc - 1], "--torch-save") == 0;
  const int64_t width = argc > 2 + torch_save ? std::atoll(argv[2]) : 1024;

  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(256, width), torch::nn::ReLU(), torch::nn::Linear(width, 8));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));

  dcpctl::Staging staging;  // one for all saves
  std::future<dcpctl::SaveReport> saving;
  for (int step = 1; step <= 6; ++step) {
    const torch::Tensor input = torch::randn({32, 256}), target = torch::randn({32, 8});
    const bool is_saving = saving.valid() && saving.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
    if (is_saving) std::printf("step %d: while the checkpoint is being written\n", step);
    optimizer.zero_grad();
    torch::nn::functional::mse_loss(model->forward(input), target).backward();
    optimizer.step();  // changes the parameters, while the save before is still being written
    if (step % 2 != 0) continue;

    if (saving.valid()) saving.get();  // throws if that save has failed
    const std::string name = folder + "/step-" + std::to_string(step);
    if (torch_save) torch::save(model, name + ".pt");
    saving = dcpctl::async_save(name, shards_of(*model), staging, {.replace = true});
    std::printf("step %d: staged\n", step);
  }
  const dcpctl::SaveReport last = saving.get();
  std::printf("the last checkpoint has %llu bytes\n", static_cast<unsigned long long>(last.file_bytes));
} catch (const dcpctl::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.kind());
}
