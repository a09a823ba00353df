// Splits score blocks into multipliers and payload, and checks each block's header and CRC.
#pragma once

#include <hls_stream.h>

#include "../datapath/crc32c.h"

namespace nearkv {

inline BlockTokens tokens_of(const Beat& header, const Shape& shape) {
#pragma HLS INLINE
  const bool fits =
      (header.word[4] & 0xFF) == shape.bits && ((header.word[4] >> 8) & 0xFF) == shape.width;
  BlockTokens tokens;
  for (int t = 0; t < kBlockTokens; ++t) {
#pragma HLS UNROLL
    tokens.m[t] = fits ? uint8_t(header.word[t / 8] >> (8 * (t % 8))) : uint8_t(0);
  }
  return tokens;
}

// beats: header and payload of every block. sound: whether format, width and CRC are right.
inline void crc32c(const Shape shape, hls::stream<Beat>& beats, hls::stream<BlockTokens>& tokens,
                   hls::stream<Beat>& payload, hls::stream<bool>& sound) {
  const uint32_t per_block = shape.payload_beats() + 1;
  const uint64_t total = uint64_t(shape.blocks) * per_block;
  uint32_t index = 0;
  uint32_t state = 0, expected = 0;
  bool fits = false;
  for (uint64_t i = 0; i < total; ++i) {
#pragma HLS PIPELINE II = 1
    const Beat beat = beats.read();
    if (index == 0) {
      state = crc32c_header(beat);
      expected = uint32_t(beat.word[7] >> 32);
      fits = (beat.word[4] & 0xFFFF) == (shape.bits | uint32_t(shape.width) << 8);
      tokens.write(tokens_of(beat, shape));
    } else {
      state = crc32c_beat(state, beat);
      payload.write(beat);
    }
    if (++index == per_block) {
      sound.write(fits && ~state == expected);
      index = 0;
    }
  }
}

}  // namespace nearkv
