// Vectors of floats, as wide as the file that includes this is compiled for, and how 16-bit floats
// become float32 and back. Everything has internal linkage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace nearkv {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
typedef float Lanes __attribute__((vector_size(4 * kLanes)));
typedef int32_t LaneInts __attribute__((vector_size(4 * kLanes)));
typedef uint32_t LaneBits __attribute__((vector_size(4 * kLanes)));
typedef uint16_t LaneHalves __attribute__((vector_size(2 * kLanes)));

template <typename To, typename From>
inline To as_type(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline Lanes load(const float* data) {
  Lanes x;
  std::memcpy(&x, data, sizeof x);
  return x;
}
inline void store(float* data, const Lanes& x) { std::memcpy(data, &x, sizeof x); }

inline Lanes widen_half(const LaneHalves& halves) {
#if defined(__AVX512F__)
  return as_type<Lanes>(_mm512_cvtph_ps(as_type<__m256i>(halves)));
#elif defined(__AVX2__) && defined(__F16C__)
  return as_type<Lanes>(_mm256_cvtph_ps(as_type<__m128i>(halves)));
#else
  // Exponent and fraction moved into a float's place, then rebased by 2^(127 - 15), which also
  // makes subnormals normal; infinities and NaNs get all exponent bits.
  const LaneBits bits = __builtin_convertvector(halves, LaneBits);
  const LaneBits rest = bits & 0x7FFFu;
  const LaneBits scaled = as_type<LaneBits>(as_type<Lanes>(rest << 13) * 0x1p112f);
  const LaneBits special = as_type<LaneBits>(rest >= 0x7C00u) & 0x7F800000u;
  return as_type<Lanes>(scaled | special | (bits & 0x8000u) << 16);
#endif
}

inline Lanes widen_bfloat(const LaneHalves& halves) {
  return as_type<Lanes>(__builtin_convertvector(halves, LaneBits) << 16);
}

// A finite float to the nearest half, ties to even; what is beyond the largest half becomes it.
inline LaneHalves narrow_half(Lanes x) {
  constexpr float kLargest = 65504.0f;
  x = x > kLargest ? Lanes{} + kLargest : x;
  x = x < -kLargest ? Lanes{} - kLargest : x;
#if defined(__AVX512F__)
  return as_type<LaneHalves>(_mm512_cvtps_ph(as_type<__m512>(x), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__AVX2__) && defined(__F16C__)
  return as_type<LaneHalves>(_mm256_cvtps_ph(as_type<__m256>(x), _MM_FROUND_TO_NEAREST_INT));
#else
  const LaneBits bits = as_type<LaneBits>(x), rest = bits & 0x7FFFFFFFu;
  // Subnormal halves are multiples of 2^-24, the unit of floats in [1/2, 1): the addition rounds.
  const LaneBits small = as_type<LaneBits>(as_type<Lanes>(rest) + 0.5f) - as_type<uint32_t>(0.5f);
  const LaneBits normal = (rest + 0xFFFu + (rest >> 13 & 1u) - (112u << 23)) >> 13;
  const LaneBits half = as_type<LaneBits>(rest < 113u << 23) ? small : normal;
  return __builtin_convertvector(half | (bits >> 16 & 0x8000u), LaneHalves);
#endif
}

// A finite float to the nearest bfloat16, ties to even. Callers keep clear of its largest value.
inline LaneHalves narrow_bfloat(const Lanes& x) {
  const LaneBits bits = as_type<LaneBits>(x);
  return __builtin_convertvector((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16, LaneHalves);
}

}  // namespace
}  // namespace nearkv
