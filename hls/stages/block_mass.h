// The log-mass of a block per head: log2 of the sum of 2^score over its tokens.
#pragma once

#include <hls_stream.h>

#include "../datapath/log2.h"

namespace nearkv {

// Blocks that are not sound, or have no tokens, are empty.
inline void block_mass(const Shape shape, hls::stream<TokenScores>& scores,
                       hls::stream<Peaks>& peaks, hls::stream<bool>& sound,
                       hls::stream<LogMasses>& masses) {
  const uint64_t total = uint64_t(shape.blocks) * shape.items() * shape.passes();
  Peaks peak[kMaxPasses] = {};
  BlockSum sum[kMaxPasses][kHeads];
#pragma HLS ARRAY_PARTITION variable = peak complete dim = 0
#pragma HLS ARRAY_PARTITION variable = sum complete dim = 0
  uint32_t pass = 0, item = 0;
  bool ok = false;
  for (uint64_t i = 0; i < total; ++i) {
#pragma HLS PIPELINE II = 1
    if (item == 0) peak[pass] = peaks.read();
    const TokenScores in = scores.read();
    const bool last = item + 1 == shape.items();
    if (last && pass == 0) ok = sound.read();
    LogMasses out;
    out.sound = ok;
    for (int h = 0; h < kHeads; ++h) {
#pragma HLS UNROLL
      const Exponent top = peak[pass].peak[h];
      BlockSum next = item == 0 ? BlockSum(0) : sum[pass][h];
      for (int j = 0; j < kSlots; ++j) {
#pragma HLS UNROLL
        if (in.exists[j]) next = sum_of(next, token_mass(in.x[j][h], top));
      }
      sum[pass][h] = next;
      out.value[h] = last && ok && next != 0 ? log_of<26>(top, next) : Score(kEmpty);
    }
    if (last) masses.write(out);
    if (++pass == shape.passes()) {
      pass = 0;
      if (++item == shape.items()) item = 0;
    }
  }
}

}  // namespace nearkv
