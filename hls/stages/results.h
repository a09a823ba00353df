// Writes a request's result: summary, totals, bad-block bitmap, then pairs or log-mass tiles.
#pragma once

#include "priority.h"

namespace nearkv {

constexpr int kTileBlocks = 16;  // positions of one log-mass tile: a beat per head

// Summary and totals; returns the beat index that follows. `count` is pairs (TOPK) or blocks
// (MASS).
inline uint64_t write_summary(const Request& request, const Outcome& outcome, uint32_t count,
                              const uint64_t bitmap[kStoreRows / 64], MemoryWord* results) {
  const uint64_t first = beats_of(request.result);
  Beat summary = {}, totals = {};
  set_word32(summary, 0, count);
  set_word32(summary, 1, outcome.bad);
  set_word32(summary, 2, request.shape.blocks);
  set_word32(summary, 3, request.shape.group);
  for (int h = 0; h < kMaxGroup; ++h) {
#pragma HLS UNROLL
    set_word32(totals, h, uint32_t(outcome.total[h]));
  }
  results[first] = stored(summary);
  results[first + 1] = stored(totals);
  const uint32_t words = (request.shape.blocks + 63) / 64;
  const uint32_t beats = (words + kBeatWords - 1) / kBeatWords;
  for (uint32_t i = 0; i < beats; ++i) {
#pragma HLS PIPELINE II = 8
    Beat beat;
    for (uint32_t w = 0; w < kBeatWords; ++w) {
      const uint32_t index = i * kBeatWords + w;
      beat.word[w] = index < words ? bitmap[index] : 0;
    }
    results[first + 2 + i] = stored(beat);
  }
  return first + 2 + beats;
}

inline void write_pairs(uint64_t first, uint32_t count, const Rank heap[kMaxTopK],
                        MemoryWord* results) {
  const uint32_t beats = (count + kBeatWords - 1) / kBeatWords;
  for (uint32_t i = 0; i < beats; ++i) {
#pragma HLS PIPELINE II = 8
    Beat beat;
    for (uint32_t w = 0; w < kBeatWords; ++w) {
      const uint32_t index = i * kBeatWords + w;
      const Rank rank = index < count ? heap[index] : Rank(0);
      beat.word[w] = index < count ? position_of(rank) | uint64_t(priority_of(rank)) << 32 : 0;
    }
    results[first + i] = stored(beat);
  }
}

// Tiles of 16 positions, a beat per head: the stored rows transposed.
inline void write_tiles(uint64_t first, const Shape shape, const MassRow store[kStoreRows],
                        MemoryWord* results) {
  const uint32_t tiles = (shape.blocks + kTileBlocks - 1) / kTileBlocks;
  uint64_t at = first;
  for (uint32_t tile = 0; tile < tiles; ++tile) {
    Beat beat[kMaxGroup] = {};
#pragma HLS ARRAY_PARTITION variable = beat complete
    for (uint32_t i = 0; i < kTileBlocks * shape.passes(); ++i) {
#pragma HLS PIPELINE II = 1
      const uint32_t row = tile * kTileBlocks * shape.passes() + i;
      const bool exists = row < shape.blocks * shape.passes();
      const MassRow masses = exists ? store[row] : MassRow{};
      const uint32_t pass = i % shape.passes(), position = i / shape.passes();
      for (int h = 0; h < kHeads; ++h) {
#pragma HLS UNROLL
        set_word32(beat[pass * kHeads + h], position, uint32_t(masses.value[h]));
      }
    }
    for (uint32_t h = 0; h < shape.group; ++h) {
#pragma HLS PIPELINE II = 1
      results[at++] = stored(beat[h]);
    }
  }
}

}  // namespace nearkv
