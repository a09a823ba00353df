// Dot products to scores, with the multiplier of the token and the scale of the run and head.
#pragma once

#include <hls_stream.h>

#include "../datapath/scale.h"

namespace nearkv {

// runs: one RunScale per run, in order; their blocks add up to the request's.
inline void scale(const Shape shape, hls::stream<RunScale>& runs, hls::stream<BlockTokens>& tokens,
                  hls::stream<Dots>& dots, hls::stream<TokenScores>& scores) {
  const uint64_t total = uint64_t(shape.blocks) * shape.items() * shape.passes();
  const uint32_t slots = shape.slots();
  RunScale run = {};
#pragma HLS ARRAY_PARTITION variable = run.c complete
#pragma HLS ARRAY_PARTITION variable = run.r complete
#pragma HLS ARRAY_PARTITION variable = run.b complete
  BlockTokens block = {};
  uint32_t pass = 0, token = 0;
  for (uint64_t i = 0; i < total; ++i) {
#pragma HLS PIPELINE II = 1
    if (pass == 0 && token == 0) {
      if (run.blocks == 0) run = runs.read();
      block = tokens.read();
      --run.blocks;
    }
    const Dots in = dots.read();
    TokenScores out;
    for (int slot = 0; slot < kSlots; ++slot) {
#pragma HLS UNROLL
      const uint8_t m = block.m[(token + slot) % kBlockTokens];
      out.exists[slot] = uint32_t(slot) < slots && m != 0;
      for (int h = 0; h < kHeads; ++h) {
#pragma HLS UNROLL
        const int head = pass * kHeads + h;
        out.x[slot][h] = score_of(in.slot[slot][h], m, run.c[head], run.r[head], run.b[head]);
      }
    }
    scores.write(out);
    if (++pass == shape.passes()) {
      pass = 0;
      token = (token + slots) % kBlockTokens;
    }
  }
}

}  // namespace nearkv
