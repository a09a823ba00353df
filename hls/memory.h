// Beats to and from memory. A wide ap_uint is slow in C simulation, so it is taken apart once into
// 64-bit words here and nowhere else.
#pragma once

#include <ap_int.h>

#include "types.h"

namespace nearkv {

typedef ap_uint<8 * kBeatBytes> MemoryWord;

inline Beat load(const MemoryWord& word) {
#pragma HLS INLINE
  Beat beat;
  MemoryWord rest = word;
  for (int i = 0; i < kBeatWords; ++i) {
#pragma HLS UNROLL
    beat.word[i] = rest.to_uint64();
    rest >>= 64;
  }
  return beat;
}

inline MemoryWord stored(const Beat& beat) {
#pragma HLS INLINE
  MemoryWord word;
  for (int i = 0; i < kBeatWords; ++i) {
#pragma HLS UNROLL
    word.range(64 * i + 63, 64 * i) = beat.word[i];
  }
  return word;
}

inline uint32_t word32(const Beat& beat, int index) {
#pragma HLS INLINE
  return uint32_t(beat.word[index / 2] >> (32 * (index % 2)));
}

inline void set_word32(Beat& beat, int index, uint32_t value) {
#pragma HLS INLINE
  beat.word[index / 2] |= uint64_t(value) << (32 * (index % 2));
}

}  // namespace nearkv
