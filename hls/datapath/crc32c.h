// CRC-32C of a 64-byte beat per cycle (contract section 3): an XOR of message bits per output bit.
//
// The CRC is linear, so one step over a beat is a 512-by-32 bit matrix, computed here at compile
// time and unrolled into XOR trees. The running state enters as the message's first four bytes.
#pragma once

#include <cstdint>

#include "../types.h"

namespace nearkv {

constexpr uint32_t kCrcPolynomial = 0x82F63B78u;  // Castagnoli, bit-reflected

// mask[bit][word]: the message bits whose parity is that output bit, for a beat with zero state.
struct CrcMatrix {
  uint64_t mask[32][kBeatWords];
};

constexpr CrcMatrix make_crc_matrix() {
  CrcMatrix m{};
  uint32_t column = 1;  // what a set bit leaves: of the message's last bit, then of those before it
  for (int bit = 8 * kBeatBytes - 1; bit >= 0; --bit) {
    column = (column >> 1) ^ ((column & 1u) ? kCrcPolynomial : 0u);
    for (int out = 0; out < 32; ++out) {
      if ((column >> out) & 1u) m.mask[out][bit / 64] |= 1ull << (bit % 64);
    }
  }
  return m;
}

constexpr CrcMatrix kCrcMatrix = make_crc_matrix();

inline bool parity64(uint64_t x) {
#pragma HLS INLINE
  x ^= x >> 32;
  x ^= x >> 16;
  x ^= x >> 8;
  x ^= x >> 4;
  return (0x6996u >> (x & 15)) & 1u;
}

// The state after `beat`, from the state before it. States are complemented neither way.
inline uint32_t crc32c_beat(uint32_t state, const Beat& beat) {
#pragma HLS INLINE
  uint32_t next = 0;
  for (int out = 0; out < 32; ++out) {
#pragma HLS UNROLL
    uint64_t fold = kCrcMatrix.mask[out][0] & (beat.word[0] ^ state);
    for (int w = 1; w < kBeatWords; ++w) {
#pragma HLS UNROLL
      fold ^= kCrcMatrix.mask[out][w] & beat.word[w];
    }
    next |= uint32_t(parity64(fold)) << out;
  }
  return next;
}

// The state after a score block's header, of which the CRC covers bytes 0..59. Leading zero bytes
// leave a zero state alone, so the 60 bytes are moved to the end of the beat; the initial state of
// all ones then falls on the header's first four bytes.
inline uint32_t crc32c_header(const Beat& header) {
#pragma HLS INLINE
  Beat moved;
  uint32_t carry = 0;
  for (int w = 0; w < kBeatWords; ++w) {
#pragma HLS UNROLL
    const uint64_t word = header.word[w] ^ (w == 0 ? 0xFFFFFFFFull : 0ull);
    moved.word[w] = (word << 32) | carry;
    carry = uint32_t(word >> 32);
  }
  return crc32c_beat(0, moved);
}

}  // namespace nearkv
