// Dot products of one slice of a key row with a query (contract section 5).
#pragma once

#include "../types.h"

namespace nearkv {

// Sum of the products of 32 lanes, as a balanced tree.
inline GroupSum dot32(const int8_t q[kGroupLanes], const int8_t k[kGroupLanes]) {
#pragma HLS INLINE
  int32_t node[kGroupLanes];
#pragma HLS ARRAY_PARTITION variable = node complete
  for (int i = 0; i < kGroupLanes; ++i) {
#pragma HLS UNROLL
    node[i] = int32_t(q[i]) * k[i];
  }
  for (int span = kGroupLanes / 2; span > 0; span /= 2) {
#pragma HLS UNROLL
    for (int i = 0; i < span; ++i) {
#pragma HLS UNROLL
      node[i] += node[i + span];
    }
  }
  return GroupSum(node[0]);
}

}  // namespace nearkv
