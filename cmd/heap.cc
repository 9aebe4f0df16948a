// operator new of the program, which counts (base/heap.h). new[], the forms without exceptions and their deletes come down to these.
#include "base/heap.h"

#include <malloc.h>

#include <cstdlib>

namespace {

constexpr int64_t kOwn = 16;  // malloc's own, beside a block

void* counted(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  dcp::Heap::count(static_cast<int64_t>(malloc_usable_size(block)) + kOwn);
  return block;
}

void release(void* block) noexcept {
  if (block == nullptr) return;
  dcp::Heap::count(-static_cast<int64_t>(malloc_usable_size(block)) - kOwn);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t bytes) {
  dcp::Heap::check(bytes);
  return counted(std::malloc(bytes == 0 ? 1 : bytes));
}
void* operator new(std::size_t bytes, std::align_val_t align) {
  dcp::Heap::check(bytes);
  const auto a = static_cast<std::size_t>(align);
  return counted(std::aligned_alloc(a, (bytes + a - 1) / a * a));
}
void operator delete(void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete(void* block, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { release(block); }
