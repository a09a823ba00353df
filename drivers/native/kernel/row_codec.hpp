// K and V of cold blocks in 8 or 4 bits per value, as they lie on the drive.
//
// A block is 64 rows (K1 V1 K2 V2 ...) of d values. A row is rotated as keys are in the score
// contract, so that no channel dominates, and divided by a scale of its own: codes are two's
// complement, 4-bit ones low nibble first, row after row without gaps. Scales are bfloat16, rounded
// up: they have float32's range, and the largest value of a row is never cut off.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contract.hpp"
#include "isa.hpp"

namespace nearkv {

constexpr size_t kBlockRows = 2 * kBlockTokens;

// Values of this size and above, as those that are not finite, have no codes: their rotation could
// leave float32's range.
constexpr float kRowLimit = 0x1p112f;

struct RowFormat {
  int d;
  int bits;  // 8 or 4
  KvType type;
};

// Bytes of a row's codes.
static inline size_t code_bytes(const RowFormat& format) {
  return static_cast<size_t>(format.d) * format.bits / 8;
}

// Encodes `count` blocks at `sources` to `codes`, `stride` bytes apart, and `scales` [count][64].
// Returns the first row, counted over all blocks, with a value that has no code; the number of
// rows where there is none.
size_t encode_blocks(const RowFormat& format, const uint64_t* sources, size_t count, uint8_t* codes,
                     size_t stride, uint16_t* scales, const Isa& isa);

// Decodes the blocks whose codes lie at `codes` to `targets`. A block's codes may overlap its own
// target, not another's.
void decode_blocks(const RowFormat& format, const uint64_t* codes, const uint16_t* scales,
                   const uint64_t* targets, size_t count, const Isa& isa);

extern const RowCodec kRowsPortable;
#if defined(__x86_64__)
extern const RowCodec kRowsAvx2;
extern const RowCodec kRowsAvx512;
#endif

}  // namespace nearkv
