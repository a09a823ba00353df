// A token's score from its dot product (contract section 5).
#pragma once

#include "../types.h"

namespace nearkv {

// x = sat32(((dot * m * c) >> r) + b); `>>` is arithmetic.
inline Score score_of(Dot dot, UInt<8> m, UInt<16> c, UInt<6> r, Score b) {
#pragma HLS INLINE
  const Int<33> weighted = dot * m;
  const Int<48> product = weighted * c;
  const UInt<6> shift = r > 47 ? UInt<6>(47) : r;  // 47 leaves only the sign
  const Int<48> shifted = product >> shift;
  const Int<49> sum = shifted + b;
  if (sum > INT32_MAX) return INT32_MAX;
  if (sum < INT32_MIN) return INT32_MIN;
  return Score(sum);
}

}  // namespace nearkv
