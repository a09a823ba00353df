// Widths and records that the stages share (contract sections 3 to 6).
#pragma once

#include <cstdint>

#include "integers.h"

namespace nearkv {

constexpr int kBeatBytes = 64;              // one 512-bit transfer
constexpr int kBeatWords = kBeatBytes / 8;  // C simulation handles a beat as 64-bit words
constexpr int kBlockTokens = 32;
constexpr int kMaxGroup = 16;
constexpr int kMaxWidth = 256;
constexpr int kMaxTopK = 2048;

typedef Int<24> Dot;         // 256 products of two int8 values
typedef Int<32> Score;       // x, and log-masses and totals
typedef Int<24> Exponent;    // integer part of a score
typedef UInt<21> Addend;     // a token's mass in units of 2^(E-20)
typedef UInt<26> BlockSum;   // 32 addends
typedef UInt<25> Share;      // one head's share of the mass in units of 2^-24: at most 1
typedef UInt<29> Priority;   // the shares of 16 heads
typedef UInt<64> TotalSum;   // a stream's addends

constexpr int32_t kEmpty = INT32_MIN;  // log-mass of a block without tokens

struct Beat {
  uint64_t word[kBeatWords];
};

}  // namespace nearkv
