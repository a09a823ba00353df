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
constexpr int kLanes = kBeatBytes;  // byte lanes: 64 INT8 or 128 INT4 values a cycle
constexpr int kQuarters = 4;        // a beat of the shortest rows holds four of them
constexpr int kQuarterLanes = kLanes / kQuarters;
constexpr int kQuadLanes = 4;
constexpr int kQuarterQuads = kQuarterLanes / kQuadLanes;
constexpr int kSlots = 2;  // tokens that leave the multipliers together
constexpr int kMaxChunks = kMaxWidth / kLanes;

typedef Int<18> QuadSum;     // four products of two int8 values, or eight of int8 and int4
typedef Int<20> QuarterSum;  // four quads

struct Beat {
  uint64_t word[kBeatWords];
};

// What every stage needs to know to count a request's values.
struct Shape {
  uint32_t blocks;
  uint8_t bits;   // 4 or 8
  uint8_t width;  // D / 32: 1, 2, 4 or 8
  uint8_t group;  // G

  uint32_t row_bytes() const { return uint32_t(bits) * width * 4; }  // 16 to 256
  uint32_t payload_beats() const { return row_bytes() / 2; }         // 32 rows of 64-byte beats
  uint32_t chunks() const { return row_bytes() > kBeatBytes ? row_bytes() / kBeatBytes : 1; }
  uint32_t phases() const { return row_bytes() == 16 ? 2 : 1; }
  uint32_t slots() const { return row_bytes() < kBeatBytes ? 2 : 1; }
  uint32_t items() const { return kBlockTokens / slots(); }  // of a block and pass
  uint32_t passes() const { return group > kHeads ? 2 : 1; }
  uint32_t query_beats() const { return width > 2 ? width / 2 : 1; }  // of a row of int8[D]
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

// A query head by byte lane, for one beat of a key row.
struct HeadLanes {
  int8_t even[kLanes];
  int8_t odd[kLanes];
};

struct QueryLanes {
  HeadLanes head[kMaxPasses][kMaxChunks][kHeads];
};

// Dot products of one or two tokens with the heads of a pass.
struct Dots {
  Dot slot[kSlots][kHeads];
};

struct TokenScores {
  Score x[kSlots][kHeads];
  bool exists[kSlots];
};

struct Peaks {
  Exponent peak[kHeads];
};

struct LogMasses {
  Score value[kHeads];
  bool sound;  // the block's header and CRC are right
};

}  // namespace nearkv
