// Folds log-masses into the request's totals, and keeps them and the bad-block bitmap on chip.
#pragma once

#include <hls_stream.h>

#include "../datapath/fold.h"
#include "../records.h"

namespace nearkv {

struct MassRow {
  int32_t value[kHeads];
};

// What the stream leaves behind for the second phase.
struct Outcome {
  int32_t total[kMaxGroup];
  uint32_t bad;
};

inline void fold(const Shape shape, const int32_t initial[kMaxGroup],
                 hls::stream<LogMasses>& masses, MassRow store[kStoreRows],
                 uint64_t bitmap[kStoreRows / 64], Outcome& outcome) {
  Total total[kMaxPasses][kHeads];
#pragma HLS ARRAY_PARTITION variable = total complete dim = 0
  for (int h = 0; h < kMaxGroup; ++h) {
#pragma HLS UNROLL
    total[h / kHeads][h % kHeads] = fold({Exponent(0), TotalSum(0)}, initial[h]);
  }
  uint32_t pass = 0, block = 0, bad = 0;
  uint64_t word = 0;
  for (uint32_t row = 0; row < shape.blocks * shape.passes(); ++row) {
#pragma HLS PIPELINE II = 8  // a block takes 16 cycles at least; the fold is a long chain
    const LogMasses in = masses.read();
    MassRow out;
    for (int h = 0; h < kHeads; ++h) {
#pragma HLS UNROLL
      total[pass][h] = fold(total[pass][h], in.value[h]);
      out.value[h] = int32_t(in.value[h]);
    }
    store[row] = out;
    if (++pass == shape.passes()) {
      pass = 0;
      word |= uint64_t(!in.sound) << (block % 64);
      bad += !in.sound;
      bitmap[block / 64] = word;
      if (++block % 64 == 0) word = 0;
    }
  }
  for (int h = 0; h < kMaxGroup; ++h) {
#pragma HLS UNROLL
    outcome.total[h] = h < shape.group ? int32_t(total_of(total[h / kHeads][h % kHeads])) : 0;
  }
  outcome.bad = bad;
}

}  // namespace nearkv
