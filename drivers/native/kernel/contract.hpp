// The score contract's constants and scalar formulas (docs/contract.md).
//
// Functions here have internal linkage: files compiled for different instruction sets include them,
// and the linker must not replace a baseline copy by one that needs AVX-512.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearkv {

constexpr int kBlockTokens = 32;
constexpr uint64_t kBlockAlignment = 4096;
constexpr int kHeaderBytes = 64;
constexpr int kMaxGroup = 16;
constexpr int kMaxWidth = 256;
constexpr int kMaxTopK = 2048;
constexpr int kFormatOffset = 32;
constexpr int kWidthOffset = 33;
constexpr int kCrcOffset = 60;
constexpr int32_t kEmpty = INT32_MIN;
constexpr int32_t kLogMassMin = INT32_MIN + 1;
constexpr int32_t kLogMassMax = INT32_MAX;

static inline size_t block_bytes(int width, int bits) {
  return kHeaderBytes + static_cast<size_t>(kBlockTokens) * width * bits / 8;
}

// Stored row width D for head size d, or 0 where the contract has none.
static inline int row_width(int head_dim) {
  if (head_dim % 16 || head_dim < 32 || head_dim > kMaxWidth) return 0;
  return head_dim <= 32 ? 32 : head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
}

static inline int top_bit(uint64_t value) { return 63 - __builtin_clzll(value); }

// log2 of mantissa * 2^(exponent - 20) with 8 fraction bits, mantissa > 0.
static inline int32_t log_of(int64_t exponent, uint64_t mantissa) {
  const int n = top_bit(mantissa);
  const uint64_t fraction = (n >= 8 ? mantissa >> (n - 8) : mantissa << (8 - n)) & 255;
  const int64_t value = (exponent + n - 20) * 256 + static_cast<int64_t>(fraction);
  return static_cast<int32_t>(value < kLogMassMin   ? kLogMassMin
                              : value > kLogMassMax ? kLogMassMax
                                                    : value);
}

}  // namespace nearkv
