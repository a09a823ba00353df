// A block's share of the attention mass (contract section 5).
#pragma once

#include "log2.h"

namespace nearkv {

inline Share share_of(Score log_mass, Score total) {
#pragma HLS INLINE
  const Int<33> difference = log_mass - total;
  const Int<33> y = difference > 0 ? Int<33>(0) : difference;
  const Int<26> below = 8 - (y >> 8);
  const UInt<6> shift = below > 40 ? UInt<6>(40) : UInt<6>(below);
  const UInt<33> mantissa = UInt<33>(256 + (y & 255)) << 24;
  return log_mass == kEmpty ? Share(0) : Share(mantissa >> shift);
}

// The priority so far and the shares of a pass, of which the first `heads` exist.
inline Priority shares_of(const int32_t log_mass[kHeads], const int32_t total[kHeads],
                          uint32_t heads, Priority before) {
#pragma HLS INLINE
  Priority sum = before;
  for (uint32_t h = 0; h < uint32_t(kHeads); ++h) {
#pragma HLS UNROLL
    if (h < heads) sum = sum + share_of(log_mass[h], total[h]);
  }
  return sum;
}

}  // namespace nearkv
