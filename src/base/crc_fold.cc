#include "base/crc_fold.h"

#include <algorithm>

#include "base/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

namespace dcp {

// Each function is for one kind of processor and is chosen at run time. The instruction set is an attribute of the function, not a compiler
// flag: a flag would also compile the inline functions of headers for that processor.

namespace {

size_t fold_nothing(const FoldKeys&, Bytes, std::byte*) { return 0; }

#if defined(__x86_64__)

#define DCPCTL_FOR(isa) __attribute__((target(isa)))
#define DCPCTL_STEP_FOR(isa) __attribute__((target(isa), always_inline)) inline

// ---- eight registers of 16 bytes

DCPCTL_STEP_FOR("pclmul,sse4.1") __m128i step(__m128i a, __m128i key, __m128i next) {
  return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(a, key, 0x00), _mm_clmulepi64_si128(a, key, 0x11)), next);
}
DCPCTL_STEP_FOR("pclmul,sse4.1") __m128i load(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
DCPCTL_STEP_FOR("pclmul,sse4.1") __m128i both(const FoldKey& k) {
  return _mm_set_epi64x(static_cast<int64_t>(k.hi), static_cast<int64_t>(k.lo));
}

// Continues from the 16 bytes in `r` over all whole blocks of 16 bytes at `p`.
DCPCTL_STEP_FOR("pclmul,sse4.1") size_t finish(const FoldKeys& keys, __m128i r, const std::byte* p, Bytes bytes, std::byte* out) {
  const std::byte* const end = bytes.data() + bytes.size();
  const __m128i near = both(keys.by_16);
  for (; end - p >= 16; p += 16) r = step(r, near, load(p));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), r);
  return static_cast<size_t>(p - bytes.data());
}

DCPCTL_FOR("pclmul,sse4.1") size_t fold_pclmul(const FoldKeys& keys, Bytes bytes, std::byte* out) {
  const std::byte* p = bytes.data();
  const std::byte* const end = p + bytes.size();
  if (end - p < 16) return 0;
  if (end - p < 128) return finish(keys, load(p), p + 16, bytes, out);
  __m128i r[8];
  for (int i = 0; i < 8; ++i) r[i] = load(p + 16 * i);
  const __m128i far = both(keys.by_128), near = both(keys.by_16);
  for (p += 128; end - p >= 128; p += 128) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) r[i] = step(r[i], far, load(p + 16 * i));
  }
  for (int i = 1; i < 8; ++i) r[0] = step(r[0], near, r[i]);
  return finish(keys, r[0], p, bytes, out);
}

// ---- four registers of 64 bytes

#define DCPCTL_WIDE "vpclmulqdq,avx512f,pclmul,sse4.1"

DCPCTL_STEP_FOR(DCPCTL_WIDE) __m512i step(__m512i a, __m512i key, __m512i next) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(a, key, 0x00), _mm512_clmulepi64_epi128(a, key, 0x11), next,
                                   0x96);  // a ^ b ^ c
}
DCPCTL_STEP_FOR(DCPCTL_WIDE) __m512i four(const FoldKey& k) {
  const auto lo = static_cast<int64_t>(k.lo), hi = static_cast<int64_t>(k.hi);
  return _mm512_set_epi64(hi, lo, hi, lo, hi, lo, hi, lo);
}
DCPCTL_STEP_FOR(DCPCTL_WIDE) __m512i load_wide(const std::byte* p) { return _mm512_loadu_si512(p); }

DCPCTL_FOR(DCPCTL_WIDE) size_t fold_vpclmul(const FoldKeys& keys, Bytes bytes, std::byte* out) {
  const std::byte* p = bytes.data();
  const std::byte* const end = p + bytes.size();
  if (end - p < 256) return fold_pclmul(keys, bytes, out);
  __m512i r[4];
  for (int i = 0; i < 4; ++i) r[i] = load_wide(p + 64 * i);
  const __m512i far = four(keys.by_256), near = four(keys.by_64);
  for (p += 256; end - p >= 256; p += 256) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) r[i] = step(r[i], far, load_wide(p + 64 * i));
  }
  for (int i = 1; i < 4; ++i) r[0] = step(r[0], near, r[i]);
  for (; end - p >= 64; p += 64) r[0] = step(r[0], near, load_wide(p));
  std::byte last[64];
  _mm512_storeu_si512(last, r[0]);
  __m128i one = load(last);
  for (int i = 1; i < 4; ++i) one = step(one, both(keys.by_16), load(last + 16 * i));
  return finish(keys, one, p, bytes, out);
}

#elif defined(__aarch64__) && defined(__linux__)

#define DCPCTL_PMULL __attribute__((target("+crypto")))
#define DCPCTL_PMULL_STEP __attribute__((target("+crypto"), always_inline)) inline

DCPCTL_PMULL_STEP uint64x2_t load(const std::byte* p) { return vreinterpretq_u64_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(p))); }
DCPCTL_PMULL_STEP uint64x2_t step(uint64x2_t a, const FoldKey& key, uint64x2_t next) {
  const poly128_t lo = vmull_p64(vgetq_lane_u64(a, 0), key.lo), hi = vmull_p64(vgetq_lane_u64(a, 1), key.hi);
  return veorq_u64(veorq_u64(vreinterpretq_u64_p128(lo), vreinterpretq_u64_p128(hi)), next);
}

DCPCTL_PMULL size_t fold_pmull(const FoldKeys& keys, Bytes bytes, std::byte* out) {
  const std::byte* p = bytes.data();
  const std::byte* const end = p + bytes.size();
  if (end - p < 16) return 0;
  uint64x2_t r[8];
  int registers = end - p < 128 ? 1 : 8;
  for (int i = 0; i < registers; ++i) r[i] = load(p + 16 * i);
  p += 16 * registers;
  for (; registers == 8 && end - p >= 128; p += 128) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) r[i] = step(r[i], keys.by_128, load(p + 16 * i));
  }
  for (int i = 1; i < registers; ++i) r[0] = step(r[0], keys.by_16, r[i]);
  for (; end - p >= 16; p += 16) r[0] = step(r[0], keys.by_16, load(p));
  vst1q_u8(reinterpret_cast<uint8_t*>(out), vreinterpretq_u8_u64(r[0]));
  return static_cast<size_t>(p - bytes.data());
}

bool has_pmull() { return (getauxval(AT_HWCAP) & HWCAP_PMULL) != 0; }

#endif

}  // namespace

std::span<const NamedFold> all_folds() {
  static const NamedFold folds[] = {
#if defined(__x86_64__)
      {"vpclmulqdq", fold_vpclmul, x86_features().vpclmul},
      {"pclmulqdq", fold_pclmul, x86_features().pclmul},
#elif defined(__aarch64__) && defined(__linux__)
      {"pmull", fold_pmull, has_pmull()},
#endif
      {"none", fold_nothing, true},
  };
  return folds;
}

Fold best_fold() {
  static const Fold best = std::ranges::find(all_folds(), true, &NamedFold::runs_here)->fold;
  return best;
}

}  // namespace dcp
