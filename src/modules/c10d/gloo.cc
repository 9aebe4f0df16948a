// Messages by Gloo. The only file that includes ProcessGroupGloo.hpp (and with it the shim's headers).
#define USE_C10D_GLOO 1
#include <ATen/ATen.h>

#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "modules/c10d/messages.h"

namespace dcp::c10d_module {
namespace {

// Longer than any run: a late message does not mean that a rank is gone (a slow disk is not a failure).
constexpr std::chrono::hours kNoEnd(24 * 365);

class GlooMessage : public Message {
 public:
  explicit GlooMessage(c10::intrusive_ptr<::c10d::Work> work) : work_(std::move(work)) {}
  void wait() override {
    if (!work_->wait(std::chrono::duration_cast<std::chrono::milliseconds>(kNoEnd))) throw std::runtime_error("given up");
  }
  void abort() override { work_->abort(); }

 private:
  c10::intrusive_ptr<::c10d::Work> work_;
};

class GlooMessages : public Messages {
 public:
  explicit GlooMessages(c10::intrusive_ptr<::c10d::Backend> backend) : backend_(std::move(backend)) {}
  std::unique_ptr<Message> send(int to, int tag, const void* buffer, uint64_t bytes) override {
    std::vector<at::Tensor> tensors{tensor(const_cast<void*>(buffer), bytes)};
    const std::lock_guard lock(mutex_);
    return std::make_unique<GlooMessage>(backend_->send(tensors, to, tag));
  }
  std::unique_ptr<Message> receive(int from, int tag, void* buffer, uint64_t bytes) override {
    std::vector<at::Tensor> tensors{tensor(buffer, bytes)};
    const std::lock_guard lock(mutex_);
    return std::make_unique<GlooMessage>(backend_->recv(tensors, from, tag));
  }

 private:
  static at::Tensor tensor(void* buffer, uint64_t bytes) { return at::from_blob(buffer, {static_cast<int64_t>(bytes)}, at::kByte); }
  c10::intrusive_ptr<::c10d::Backend> backend_;
  std::mutex mutex_;  // the process group counts its operations without a lock
};

}  // namespace

std::unique_ptr<Messages> make_gloo_messages(const Connecting& how) {
  // create_default uses GLOO_SOCKET_IFNAME, or else the address of this host's name.
  auto options = how.address.empty() ? ::c10d::ProcessGroupGloo::Options::create_default(how.timeout)
                                     : ::c10d::ProcessGroupGloo::Options::create(how.timeout);
  if (!how.address.empty()) options->devices.push_back(::c10d::ProcessGroupGloo::createDeviceForHostname(how.address));
  return std::make_unique<GlooMessages>(c10::make_intrusive<::c10d::ProcessGroupGloo>(how.store, how.rank, how.world_size, options));
}

}  // namespace dcp::c10d_module
