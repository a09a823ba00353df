// Sums of powers of two in the log domain (contract section 5): Mitchell's approximation both ways.
#pragma once

#include "../types.h"

namespace nearkv {

inline Exponent exponent_of(Score x) {
#pragma HLS INLINE
  return Exponent(x >> 8);
}

// 1.fraction of `x` as an unsigned number with 8 fraction bits.
inline UInt<9> mantissa_of(Score x) {
#pragma HLS INLINE
  return UInt<9>(256 + (x & 255));
}

// The mass of `x` relative to its own exponent, in units of 2^-20.
inline Addend mass_of(Score x) {
#pragma HLS INLINE
  const Addend mantissa = mantissa_of(x);
  return Addend(mantissa << 12);
}

// The mass of a token of score `x` in units of 2^(peak-20), where peak >= x's exponent.
inline Addend token_mass(Score x, Exponent peak) {
#pragma HLS INLINE
  const UInt<25> below = peak - exponent_of(x);
  const UInt<5> shift = below > 31 ? UInt<5>(31) : UInt<5>(below);
  return Addend(mass_of(x) >> shift);
}

constexpr int32_t kLowestExponent = -(1 << 23);

// The larger of a peak so far and the exponent of a token, where it exists.
inline Exponent peak_of(Exponent so_far, Score x, bool exists) {
#pragma HLS INLINE
  const Exponent e = exponent_of(x);
  return exists && e > so_far ? e : so_far;
}

inline BlockSum sum_of(BlockSum so_far, Addend addend) {
#pragma HLS INLINE
  return BlockSum(so_far + addend);
}

// Index of the top bit that is set; `value` is not zero.
template <int Bits>
inline UInt<6> top_bit(UInt<Bits> value) {
#pragma HLS INLINE
  UInt<6> n = 0;
  for (int i = 1; i < Bits; ++i) {
#pragma HLS UNROLL
    if ((value >> i) & 1) n = i;
  }
  return n;
}

// log2 of sum * 2^(exponent - 20) with 8 fraction bits, clamped so that it never reads as empty.
// `sum` is at least 2^20: the largest addend alone contributes that much.
template <int Bits>
inline Score log_of(Exponent exponent, UInt<Bits> sum) {
#pragma HLS INLINE
  const UInt<6> n = top_bit<Bits>(sum);
  const UInt<6> drop = n - 8;
  const UInt<8> fraction = sum >> drop;
  const Int<26> integer = exponent + n - 20;
  const Int<34> shifted = Int<34>(integer) << 8;
  const Int<34> value = shifted + fraction;
  if (value > INT32_MAX) return INT32_MAX;
  if (value <= INT32_MIN) return INT32_MIN + 1;
  return Score(value);
}

}  // namespace nearkv
