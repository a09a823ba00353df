// The records of command and result memory (docs/kernel-interface.md; fpga/registers.json).
#pragma once

#include "memory.h"

namespace nearkv {

constexpr uint32_t kInterfaceVersion = 1;
constexpr uint32_t kStoreRows = 65536;  // log-masses on chip, kHeads in a row

enum Mode : uint8_t { kMass = 0, kTopK = 1 };

enum Status : uint32_t {
  kOk = 0,
  kBits = 5,
  kWidth = 6,
  kGroup = 7,
  kMode = 8,
  kTopKRange = 9,
  kBlocks = 10,
  kRuns = 11,
  kAddress = 12,
};

struct Request {
  uint64_t query;  // byte offsets from `commands`
  uint64_t descriptors;
  uint64_t result;  // byte offset from `results`
  uint32_t runs;
  uint32_t k;
  uint8_t mode;
  Shape shape;
};

inline Request request_of(const Beat& beat) {
#pragma HLS INLINE
  Request r;
  r.query = beat.word[0];
  r.descriptors = beat.word[1];
  r.result = beat.word[2];
  r.runs = word32(beat, 6);
  r.shape.blocks = word32(beat, 7);
  r.k = word32(beat, 8);
  r.shape.bits = uint8_t(beat.word[4] >> 32);
  r.shape.width = uint8_t(beat.word[4] >> 40);
  r.shape.group = uint8_t(beat.word[4] >> 48);
  r.mode = uint8_t(beat.word[4] >> 56);
  return r;
}

// One run descriptor, from its two beats.
struct Descriptor {
  uint64_t address;  // bytes from `keys`
  RunScale scale;
};

inline Descriptor descriptor_of(const Beat& low, const Beat& high) {
#pragma HLS INLINE
  Descriptor d;
  d.address = low.word[0];
  d.scale.blocks = word32(low, 2);
  for (int h = 0; h < kMaxGroup; ++h) {
#pragma HLS UNROLL
    d.scale.r[h] = uint8_t(low.word[2 + h / 8] >> (8 * (h % 8)));
    d.scale.c[h] = uint16_t(low.word[4 + h / 4] >> (16 * (h % 4)));
    d.scale.b[h] = int32_t(word32(high, h));
  }
  return d;
}

inline uint64_t beats_of(uint64_t bytes) { return bytes / kBeatBytes; }
inline bool aligned(uint64_t bytes) { return bytes % kBeatBytes == 0; }

}  // namespace nearkv
