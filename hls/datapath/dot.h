// Integer products of one beat of key values with one query head (contract section 5).
#pragma once

#include "../types.h"

namespace nearkv {

// One beat's key values by byte lane: INT8 fills `even`, INT4 the low nibbles `even` and the high
// ones `odd`.
struct KeyLanes {
  int8_t even[kLanes];
  int8_t odd[kLanes];
};

inline KeyLanes unpack(const Beat& beat, bool int4) {
#pragma HLS INLINE
  KeyLanes key;
  for (int lane = 0; lane < kLanes; ++lane) {
#pragma HLS UNROLL
    const int8_t byte = int8_t(beat.word[lane / 8] >> (8 * (lane % 8)));
    const int8_t low = int8_t(uint8_t(byte) << 4) >> 4;
    const int8_t high = byte >> 4;
    key.even[lane] = int4 ? low : byte;
    key.odd[lane] = int4 ? high : int8_t(0);
  }
  return key;
}

// What each byte lane adds to the dot product.
template <int Lanes>
inline void products(const int8_t* q_even, const int8_t* q_odd, const int8_t* k_even,
                     const int8_t* k_odd, int32_t product[Lanes]) {
#pragma HLS INLINE
  for (int i = 0; i < Lanes; ++i) {
#pragma HLS UNROLL
    const int32_t even = int32_t(q_even[i]) * k_even[i];
    const int32_t odd = int32_t(q_odd[i]) * k_odd[i];  // 8 by 4 bits: cheaper in LUTs than in a DSP
#pragma HLS BIND_OP variable = odd op = mul impl = fabric
    product[i] = even + odd;
  }
}

inline QuadSum quad_of(const int32_t product[kQuadLanes]) {
#pragma HLS INLINE
  return QuadSum((product[0] + product[1]) + (product[2] + product[3]));
}

inline QuarterSum quarter_of(const QuadSum quad[kQuarterQuads]) {
#pragma HLS INLINE
  const QuarterSum low = quad[0] + quad[1], high = quad[2] + quad[3];
  return QuarterSum(low + high);
}

// Sum of the products of 16 byte lanes.
inline QuarterSum dot16(const int8_t* q_even, const int8_t* q_odd, const int8_t* k_even,
                        const int8_t* k_odd) {
#pragma HLS INLINE
  int32_t product[kQuarterLanes];
  QuadSum quad[kQuarterQuads];
#pragma HLS ARRAY_PARTITION variable = product complete
#pragma HLS ARRAY_PARTITION variable = quad complete
  products<kQuarterLanes>(q_even, q_odd, k_even, k_odd, product);
  for (int i = 0; i < kQuarterQuads; ++i) {
#pragma HLS UNROLL
    quad[i] = quad_of(&product[i * kQuadLanes]);
  }
  return quarter_of(quad);
}

// What one beat gives a head: the sum of its row so far, and the dot products of the tokens in the
// two slots. Rows of 16 bytes leave in two phases, rows of 32 together, longer ones in slot 0 when
// they are complete.
struct RowDots {
  Dot row;
  Dot slot[kSlots];
};

inline RowDots row_dots(const QuarterSum quarter[kQuarters], Dot before, uint32_t row_bytes,
                        uint32_t phase) {
#pragma HLS INLINE
  const Dot low = quarter[0] + quarter[1], high = quarter[2] + quarter[3];
  RowDots out;
  out.row = before + (row_bytes > 32 ? Dot(low + high) : low);
  out.slot[0] = row_bytes > 16 ? out.row : Dot(phase ? quarter[2] : quarter[0]);
  out.slot[1] = row_bytes > 16 ? high : Dot(phase ? quarter[3] : quarter[1]);
  return out;
}

}  // namespace nearkv
