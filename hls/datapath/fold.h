// The fold of log-masses into a stream's total (contract section 5).
#pragma once

#include "log2.h"

namespace nearkv {

struct Total {
  Exponent exponent;
  TotalSum sum;  // in units of 2^(exponent-20); 0 means that nothing was folded yet
};

inline Total fold(Total total, Score value) {
#pragma HLS INLINE
  const Exponent e = exponent_of(value);
  const TotalSum mass = mass_of(value);
  const Int<25> rise = e - total.exponent;
  const UInt<25> distance = rise < 0 ? UInt<25>(-rise) : UInt<25>(rise);
  const UInt<6> shift = distance > 40 ? UInt<6>(40) : UInt<6>(distance);
  const bool first = total.sum == 0;
  Total next = total;
  if (value != kEmpty) {
    next.exponent = first || rise > 0 ? e : total.exponent;
    if (first) {
      next.sum = mass;
    } else if (rise > 0) {
      next.sum = TotalSum(total.sum >> shift) + mass;
    } else {
      next.sum = total.sum + TotalSum(mass >> shift);
    }
  }
  return next;
}

inline Score total_of(Total total) {
#pragma HLS INLINE
  return total.sum == 0 ? Score(kEmpty) : log_of<64>(total.exponent, total.sum);
}

}  // namespace nearkv
