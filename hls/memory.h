// Beats to and from memory, taken apart once into 64-bit words: single lanes of a wide ap_uint are
// fifty times slower in C simulation.
#pragma once

#include <ap_int.h>

#include <cstring>

#include "types.h"

namespace nearkv {

typedef ap_uint<8 * kBeatBytes> MemoryWord;

#if defined(__SYNTHESIS__) || defined(NEARKV_AP_INT)

inline Beat load(const MemoryWord& word) {
#pragma HLS INLINE
  Beat beat;
  for (int i = 0; i < kBeatWords; ++i) {
#pragma HLS UNROLL
    beat.word[i] = word.range(64 * i + 63, 64 * i).to_uint64();
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

#else  // C simulation's memory is an array of MemoryWord over plain bytes, so its words are there

inline Beat load(const MemoryWord& word) {
  static_assert(sizeof(MemoryWord) == kBeatBytes, "ap_uint<512> holds its bits and nothing else");
  Beat beat;
  std::memcpy(beat.word, static_cast<const void*>(&word), kBeatBytes);
  return beat;
}

inline MemoryWord stored(const Beat& beat) {
  MemoryWord word;
  std::memcpy(static_cast<void*>(&word), beat.word, kBeatBytes);
  return word;
}

#endif

inline uint32_t word32(const Beat& beat, int index) {
#pragma HLS INLINE
  return uint32_t(beat.word[index / 2] >> (32 * (index % 2)));
}

inline int8_t byte_of(const Beat& beat, int index) {
#pragma HLS INLINE
  return int8_t(beat.word[index / 8] >> (8 * (index % 8)));
}

inline void set_word32(Beat& beat, int index, uint32_t value) {
#pragma HLS INLINE
  beat.word[index / 2] |= uint64_t(value) << (32 * (index % 2));
}

}  // namespace nearkv
