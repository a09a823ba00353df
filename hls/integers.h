// Integers of N bits, Int<N> and UInt<N>, that wrap on assignment as hardware registers do.
//
// Synthesis uses AMD's ap_int and ap_uint. C simulation uses the thin types below: the same values
// wherever no intermediate result exceeds 64 bits (every expression of the datapath), two orders of
// magnitude faster, and plain enough for a compiler to reduce to straight-line code that a solver
// can read. Building with NEARKV_AP_INT puts ap_int into C simulation too; the tests run both.
#pragma once

#include <cstdint>

#if defined(__SYNTHESIS__) || defined(NEARKV_AP_INT)

#include <ap_int.h>

namespace nearkv {
template <int N>
using Int = ap_int<N>;
template <int N>
using UInt = ap_uint<N>;
}  // namespace nearkv

#else

#include <type_traits>

namespace nearkv {

template <int N>
class UInt;

template <int N>
class Int {
  static_assert(N >= 1 && N <= 64, "C simulation holds at most 64 bits");

 public:
  constexpr Int() : value_(0) {}
  constexpr Int(int64_t value) : value_(int64_t(uint64_t(value) << (64 - N)) >> (64 - N)) {}
  template <int M>
  constexpr Int(Int<M> other) : Int(int64_t(other)) {}
  template <int M>
  constexpr Int(UInt<M> other) : Int(int64_t(other)) {}
  constexpr operator int64_t() const { return value_; }

 private:
  int64_t value_;
};

template <int N>
class UInt {
  static_assert(N >= 1 && N <= 64, "C simulation holds at most 64 bits");

 public:
  // Fewer than 64 bits read as signed, so that differences may be negative as with ap_uint.
  typedef typename std::conditional<N == 64, uint64_t, int64_t>::type Value;

  constexpr UInt() : value_(0) {}
  constexpr UInt(uint64_t value) : value_(value << (64 - N) >> (64 - N)) {}
  template <int M>
  constexpr UInt(Int<M> other) : UInt(uint64_t(int64_t(other))) {}
  template <int M>
  constexpr UInt(UInt<M> other) : UInt(uint64_t(other)) {}
  constexpr operator Value() const { return Value(value_); }

 private:
  uint64_t value_;
};

}  // namespace nearkv

#endif
