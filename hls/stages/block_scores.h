// The largest integer part of a block's scores, per head: what its addends are relative to.
#pragma once

#include <hls_stream.h>

#include "../datapath/log2.h"

namespace nearkv {

// Passes the scores on; a block's peaks follow its last score.
inline void block_scores(const Shape shape, hls::stream<TokenScores>& scores,
                         hls::stream<TokenScores>& same, hls::stream<Peaks>& peaks) {
  const uint64_t total = uint64_t(shape.blocks) * shape.items() * shape.passes();
  Exponent peak[kMaxPasses][kHeads];
#pragma HLS ARRAY_PARTITION variable = peak complete dim = 0
  uint32_t pass = 0, item = 0;
  for (uint64_t i = 0; i < total; ++i) {
#pragma HLS PIPELINE II = 1
    const TokenScores in = scores.read();
    same.write(in);
    Peaks out;
    for (int h = 0; h < kHeads; ++h) {
#pragma HLS UNROLL
      Exponent best = item == 0 ? Exponent(kLowestExponent) : peak[pass][h];
      for (int j = 0; j < kSlots; ++j) {
#pragma HLS UNROLL
        best = peak_of(best, in.x[j][h], in.exists[j]);
      }
      peak[pass][h] = best;
      out.peak[h] = best;
    }
    if (item + 1 == shape.items()) peaks.write(out);
    if (++pass == shape.passes()) {
      pass = 0;
      if (++item == shape.items()) item = 0;
    }
  }
}

}  // namespace nearkv
