// operator new of the program, which counts (base/heap.h). new[], the forms without exceptions and their deletes come down to these.
// Large blocks ask for huge pages: what touches half a gigabyte once spends a sixth of its time on the faults of small ones.
#include "base/heap.h"

#include <malloc.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "base/text.h"

namespace {

constexpr int64_t kOwn = 16;  // malloc's own, beside a block
constexpr std::uintptr_t kPage = 4096, kLarge = 32 << 20;

void check(std::size_t bytes) {
  if (dcp::Heap::is_taken()) dcp::Heap::check(bytes);
}

void* counted(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  if (dcp::Heap::is_taken()) dcp::Heap::count(static_cast<int64_t>(malloc_usable_size(block)) + kOwn);
  return block;
}

void* with_huge_pages(void* block, std::size_t bytes) {
  if (block == nullptr || bytes < kLarge) return block;
  void* const page = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(block) + kPage - 1) & ~(kPage - 1));
  static_cast<void>(madvise(page, bytes - kPage, MADV_HUGEPAGE));  // a wish
  return block;
}

void release(void* block) noexcept {
  if (block == nullptr) return;
  if (dcp::Heap::is_taken()) dcp::Heap::count(-static_cast<int64_t>(malloc_usable_size(block)) - kOwn);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t bytes) {
  check(bytes);
  return counted(with_huge_pages(std::malloc(bytes == 0 ? 1 : bytes), bytes));
}
void* operator new(std::size_t bytes, std::align_val_t align) {
  check(bytes);
  const auto a = static_cast<std::size_t>(align);
  return counted(std::aligned_alloc(a, (bytes + a - 1) / a * a));
}
void operator delete(void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete(void* block, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { release(block); }
