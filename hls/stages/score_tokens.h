// Sums a row's slices and scales the dot product to a token's score, per head.
#pragma once

#include <hls_stream.h>

#include "../datapath/scale.h"

namespace nearkv {

// runs: one RunScale per run that has blocks, in order; their blocks add up to the request's.
inline void score_tokens(const Shape shape, hls::stream<RunScale>& runs,
                         hls::stream<BlockTokens>& tokens, hls::stream<SliceSums>& sums,
                         hls::stream<TokenScores>& scores) {
  const uint64_t total = uint64_t(shape.blocks) * shape.slices() * shape.passes();
  const bool two_tokens = shape.width < kSliceGroups;
  RunScale run = {};
#pragma HLS ARRAY_PARTITION variable = run.c complete
#pragma HLS ARRAY_PARTITION variable = run.r complete
#pragma HLS ARRAY_PARTITION variable = run.b complete
  BlockTokens block = {};
  Dot partial[kMaxPasses][kHeads];
#pragma HLS ARRAY_PARTITION variable = partial complete dim = 0
  uint32_t pass = 0, row_slice = 0, slice = 0, token = 0;
  for (uint64_t i = 0; i < total; ++i) {
#pragma HLS PIPELINE II = 1
    if (pass == 0 && slice == 0) {
      if (run.blocks == 0) run = runs.read();
      block = tokens.read();
      --run.blocks;
    }
    const SliceSums in = sums.read();
    const bool last = row_slice + 1 == shape.row_slices();
    TokenScores out;
    for (int h = 0; h < kHeads; ++h) {
#pragma HLS UNROLL
      const int head = pass * kHeads + h;
      const Dot before = row_slice == 0 ? Dot(0) : partial[pass][h];
      const Dot first = before + in.sum[h][0] + (two_tokens ? GroupSum(0) : in.sum[h][1]);
      partial[pass][h] = first;
      out.x[0][h] = scale(first, block.m[token], run.c[head], run.r[head], run.b[head]);
      out.x[1][h] = scale(Dot(in.sum[h][1]), block.m[(token + 1) % kBlockTokens], run.c[head],
                          run.r[head], run.b[head]);
    }
    out.exists[0] = block.m[token] != 0;
    out.exists[1] = two_tokens && block.m[(token + 1) % kBlockTokens] != 0;
    if (last) scores.write(out);
    if (++pass == shape.passes()) {
      pass = 0;
      if (++slice == shape.slices()) slice = 0;
      row_slice = last ? 0 : row_slice + 1;
      if (slice == 0) {
        token = 0;
      } else if (last) {
        token += two_tokens ? 2 : 1;
      }
    }
  }
}

}  // namespace nearkv
