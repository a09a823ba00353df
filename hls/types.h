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

typedef Int<24> Dot;        // 256 products of two int8 values
typedef Int<32> Score;      // x, and log-masses and totals
typedef Int<24> Exponent;   // integer part of a score
typedef UInt<21> Addend;    // a token's mass in units of 2^(E-20)
typedef UInt<26> BlockSum;  // 32 addends
typedef UInt<25> Share;     // one head's share of the mass in units of 2^-24: at most 1
typedef UInt<29> Priority;  // the shares of 16 heads
typedef UInt<64> TotalSum;  // a stream's addends

constexpr int32_t kEmpty = INT32_MIN;  // log-mass of a block without tokens

constexpr int kHeads = 8;  // query heads computed in parallel: one pass
constexpr int kMaxPasses = kMaxGroup / kHeads;
constexpr int kLanes = 64;       // key values per cycle: an INT8 beat, half an INT4 beat
constexpr int kGroupLanes = 32;  // the narrowest row; wider rows are sums of such groups
constexpr int kSliceGroups = kLanes / kGroupLanes;
constexpr int kMaxSlices = kMaxWidth / kLanes;

typedef Int<21> GroupSum;  // 32 products of two int8 values

struct Beat {
  uint64_t word[kBeatWords];
};

// What every stage needs to know to count a request's values.
struct Shape {
  uint32_t blocks;
  uint8_t bits;   // 4 or 8
  uint8_t width;  // D / 32: 1, 2, 4 or 8
  uint8_t group;  // G

  uint32_t payload_beats() const { return uint32_t(bits) * width * 2; }
  uint32_t slices() const { return uint32_t(width) * (kBlockTokens / kSliceGroups); }  // a block's
  uint32_t row_slices() const { return width > kSliceGroups ? width / kSliceGroups : 1; }
  uint32_t items() const { return slices() / row_slices(); }  // TokenScores of a block and pass
  uint32_t passes() const { return group > kHeads ? 2 : 1; }
};

// A block's header as the datapath needs it; every m is 0 where format or width are not the
// request's.
struct BlockTokens {
  uint8_t m[kBlockTokens];
};

// How a query scales against one run's segment.
struct RunScale {
  uint32_t blocks;
  uint16_t c[kMaxGroup];
  uint8_t r[kMaxGroup];
  int32_t b[kMaxGroup];
};

// The query heads as the lanes see them: one slice of a row per pass and row slice.
struct QueryLanes {
  int8_t lane[kMaxPasses][kMaxSlices][kHeads][kLanes];
};

// Dot products of a slice: its groups belong to two tokens where D = 32, else to one.
struct SliceSums {
  GroupSum sum[kHeads][kSliceGroups];
};

// Scores of one token (or of two where D = 32) for the heads of a pass.
struct TokenScores {
  Score x[kSliceGroups][kHeads];
  bool exists[kSliceGroups];
};

struct Peaks {
  Exponent peak[kHeads];
};

struct LogMasses {
  Score value[kHeads];
  bool sound;  // the block's header and CRC are right
};

}  // namespace nearkv
