// libdcpctl_c10d_nccl.so: tensor bytes go by NCCL, through a GPU buffer and a pinned host buffer for each message under way; small messages
// go by Gloo.
//
// NCCL has no tags: two ranks match their operations by the order in which both start them. So the two ranks agree on each message by Gloo
// first: the receiver sends a token when it asks for a message, and the sender then names the one, of all that were asked for, that it
// starts now. Two ranks move one message at a time.
#define USE_C10D_NCCL 1
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstring>
#include <iterator>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <vector>

#include "modules/c10d/messages.h"

namespace dcp::c10d_module {
namespace {

constexpr int kSmall = 0;         // the tag of messages by Gloo alone
constexpr int kStarts = 1 << 30;  // added to a tag: the sender starts this message now

struct Nccl {
  c10::intrusive_ptr<::c10d::Backend> backend;
  c10::Device device;
  std::vector<std::mutex> sending;  // by receiver
  Nccl(c10::intrusive_ptr<::c10d::Backend> b, c10::Device d, int world_size)
      : backend(std::move(b)), device(d), sending(static_cast<size_t>(world_size)) {}
  at::Tensor on_gpu(uint64_t bytes) const { return at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions(at::kByte).device(device)); }
  static at::Tensor pinned(uint64_t bytes) {
    return at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions(at::kByte).pinned_memory(true));
  }
  void synchronize() const { at::cuda::getCurrentCUDAStream(device.index()).synchronize(); }
};

class NcclSend : public Message {
 public:
  NcclSend(Nccl& nccl, Messages& gloo, int to, int tag, const void* buffer, uint64_t bytes)
      : nccl_(nccl), gloo_(gloo), to_(to), tag_(tag), buffer_(buffer), bytes_(bytes), token_(gloo.send(to, tag, &value_, sizeof value_)) {}
  void wait() override {
    token_->wait();
    const c10::cuda::CUDAGuard guard(nccl_.device);
    at::Tensor host = Nccl::pinned(bytes_);
    std::memcpy(host.data_ptr(), buffer_, bytes_);
    const std::lock_guard lock(nccl_.sending[static_cast<size_t>(to_)]);
    gloo_.send(to_, tag_ + kStarts, &value_, sizeof value_)->wait();
    std::vector<at::Tensor> tensors{nccl_.on_gpu(bytes_)};
    tensors[0].copy_(host, true);
    nccl_.backend->send(tensors, to_, 0)->wait();
    nccl_.synchronize();
  }
  void abort() override { token_->abort(); }

 private:
  Nccl& nccl_;
  Messages& gloo_;
  int to_, tag_;
  const void* buffer_;
  uint64_t bytes_, value_ = 0;
  std::unique_ptr<Message> token_;
};

class NcclReceive : public Message {
 public:
  NcclReceive(Nccl& nccl, Messages& gloo, int from, int tag, void* buffer, uint64_t bytes)
      : nccl_(nccl),
        from_(from),
        buffer_(buffer),
        bytes_(bytes),
        token_(gloo.receive(from, tag, &values_[0], sizeof values_[0])),
        starts_(gloo.receive(from, tag + kStarts, &values_[1], sizeof values_[1])) {}
  void wait() override {
    token_->wait();
    starts_->wait();
    const c10::cuda::CUDAGuard guard(nccl_.device);
    at::Tensor host = Nccl::pinned(bytes_);
    std::vector<at::Tensor> tensors{nccl_.on_gpu(bytes_)};
    nccl_.backend->recv(tensors, from_, 0)->wait();
    host.copy_(tensors[0], true);
    nccl_.synchronize();
    std::memcpy(buffer_, host.data_ptr(), bytes_);
  }
  void abort() override {
    token_->abort();
    starts_->abort();
  }

 private:
  Nccl& nccl_;
  int from_;
  void* buffer_;
  uint64_t bytes_, values_[2] = {};
  std::unique_ptr<Message> token_, starts_;
};

class NcclMessages : public Messages {
 public:
  NcclMessages(std::unique_ptr<Messages> gloo, c10::intrusive_ptr<::c10d::Backend> backend, c10::Device device, int world_size)
      : gloo_(std::move(gloo)), nccl_(std::move(backend), device, world_size) {}
  std::unique_ptr<Message> send(int to, int tag, const void* buffer, uint64_t bytes) override {
    if (tag == kSmall) return gloo_->send(to, tag, buffer, bytes);
    return std::make_unique<NcclSend>(nccl_, *gloo_, to, tag, buffer, bytes);
  }
  std::unique_ptr<Message> receive(int from, int tag, void* buffer, uint64_t bytes) override {
    if (tag == kSmall) return gloo_->receive(from, tag, buffer, bytes);
    return std::make_unique<NcclReceive>(nccl_, *gloo_, from, tag, buffer, bytes);
  }

 private:
  std::unique_ptr<Messages> gloo_;
  Nccl nccl_;
};

// NCCL refuses two ranks on one GPU only when the first bytes are sent, with a message about its own calls. GPUs are compared by UUID,
// since each rank may number the ones that it sees from 0.
void claim(const Connecting& how, const c10::Device& device) {
  const auto& uuid = at::cuda::getDeviceProperties(device.index())->uuid.bytes;
  const std::string gpu(std::begin(uuid), std::end(uuid)), mine = std::to_string(how.rank);
  const std::string owner = how.store->compareSet("gpu/" + gpu, std::string(), mine);
  if (owner != mine)
    throw Lacking("NCCL needs a GPU for each rank, and GPU " + std::to_string(device.index()) + " of rank " + mine + " is rank " + owner +
                  "'s, too: start as many ranks on a machine as it has GPUs");
}

}  // namespace

const bool kInOrder = true;

std::unique_ptr<Messages> make_messages(const Connecting& how) {
  if (at::cuda::device_count() == 0) throw Lacking("NCCL needs a GPU, and there is none");
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(how.local_rank % at::cuda::device_count()));
  claim(how, device);
  auto options = ::c10d::ProcessGroupNCCL::Options::create();
  options->timeout = how.timeout;
  auto store = c10::make_intrusive<::c10d::PrefixStore>("nccl", how.store);
  auto nccl = c10::make_intrusive<::c10d::ProcessGroupNCCL>(store, how.rank, how.world_size, options);
  return std::make_unique<NcclMessages>(make_gloo_messages(how), std::move(nccl), device, how.world_size);
}

}  // namespace dcp::c10d_module
