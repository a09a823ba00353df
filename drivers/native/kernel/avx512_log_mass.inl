// From dot products to log-masses in AVX-512 registers: two registers hold a block's 32 tokens,
// four heads are reduced together.
#include "avx512_crc.inl"
#include "isa.hpp"

namespace nearkv {
namespace {

constexpr int kTile = 4;  // heads that are reduced together

// How one run scales one head. `narrow` says that neither the shifted product nor its sum with the
// bias can leave int32.
struct HeadScale {
  int64_t c;
  int64_t b;
  int64_t right;
  int64_t left;
  bool narrow;
};

NEARKV_INLINE HeadScale head_scale(const RunScale& scale, int h, int width, int bits) {
  const int64_t most =
      (static_cast<int64_t>(bits == 8 ? 128 : 8) * 128 * width * 255 * scale.c[h]) >> scale.r[h];
  const int64_t bias = scale.b[h] < 0 ? -static_cast<int64_t>(scale.b[h]) : scale.b[h];
  return {scale.c[h], scale.b[h], scale.r[h], 32 - scale.r[h],
          scale.r[h] <= 32 && most + 1 + bias <= INT32_MAX};
}

// x for 16 tokens where the scale is narrow: the bits of each product that matter fit 32.
NEARKV_INLINE __m512i scale_narrow(__m512i dot, __m512i m, const HeadScale& scale) {
  const __m512i product = _mm512_mullo_epi32(dot, m), c = _mm512_set1_epi64(scale.c);
  const __m512i even = _mm512_mul_epi32(product, c);
  const __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(product, 32), c);
  const __m512i shifted =
      _mm512_mask_blend_epi32(0xAAAA, _mm512_srlv_epi64(even, _mm512_set1_epi64(scale.right)),
                              _mm512_sllv_epi64(odd, _mm512_set1_epi64(scale.left)));
  return _mm512_add_epi32(shifted, _mm512_set1_epi32(static_cast<int32_t>(scale.b)));
}

// x for 16 tokens.
NEARKV_INLINE __m512i scale_wide(__m512i dot, __m512i m, const HeadScale& scale) {
  const __m512i product = _mm512_mullo_epi32(dot, m), c = _mm512_set1_epi64(scale.c);
  const __m512i top = _mm512_set1_epi64(INT32_MAX), bottom = _mm512_set1_epi64(INT32_MIN);
  const auto scaled = [&](__m512i value) {
    const __m512i shifted =
        _mm512_srav_epi64(_mm512_mul_epi32(value, c), _mm512_set1_epi64(scale.right));
    const __m512i x = _mm512_add_epi64(shifted, _mm512_set1_epi64(scale.b));
    return _mm512_max_epi64(_mm512_min_epi64(x, top), bottom);
  };
  return _mm512_mask_blend_epi32(0xAAAA, scaled(product),
                                 _mm512_slli_epi64(scaled(_mm512_srli_epi64(product, 32)), 32));
}

// Four registers reduced at once: every 128-bit lane of the result holds [of v0, of v1, of v2, of
// v3].
template <typename Combine>
NEARKV_INLINE __m512i reduce_four(const __m512i* v, Combine combine) {
  const __m512i ab = combine(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
  const __m512i cd = combine(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
  __m512i all = combine(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  all = combine(all, _mm512_shuffle_i32x4(all, all, 0x4E));
  return combine(all, _mm512_shuffle_i32x4(all, all, 0xB1));
}

template <int kElement>
NEARKV_INLINE __m512i element_of(__m512i four) {
  return _mm512_shuffle_epi32(four, static_cast<_MM_PERM_ENUM>(kElement * 0x55));
}

// Block multipliers and which tokens exist, in the order of dot_16.
struct Multipliers {
  __m512i m[2];
  __mmask16 exists[2];
};

NEARKV_INLINE Multipliers load_multipliers(const uint8_t* block) {
  const __m128i order = _mm_set_epi8(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  Multipliers out;
  for (int half = 0; half < 2; ++half) {
    out.m[half] = _mm512_cvtepu8_epi32(_mm_shuffle_epi8(load_128(block + 16 * half), order));
    out.exists[half] = _mm512_test_epi32_mask(out.m[half], out.m[half]);
  }
  return out;
}

// The sum of 2^(x - E) in the contract's fixed point over 32 tokens, as 16 partial sums.
NEARKV_INLINE __m512i addends(const __m512i* x, __m512i peak, const Multipliers& tokens) {
  const auto addend = [peak](__m512i x, __mmask16 exists) {
    // (x & 255) | 256; a shift of 32 and more yields 0, as one of 31 does.
    const __m512i mantissa =
        _mm512_ternarylogic_epi32(x, _mm512_set1_epi32(255), _mm512_set1_epi32(256), 0xEA);
    const __m512i gap = _mm512_sub_epi32(peak, _mm512_srai_epi32(x, 8));
    return _mm512_maskz_srlv_epi32(exists, _mm512_slli_epi32(mantissa, 12), gap);
  };
  return _mm512_add_epi32(addend(x[0], tokens.exists[0]), addend(x[1], tokens.exists[1]));
}

// log_of for four heads: exponents and sums in the lowest 128 bits.
NEARKV_INLINE __m128i log_of_four(__m128i peak, __m128i sum) {
  const __m128i n = _mm_sub_epi32(_mm_set1_epi32(31), _mm_lzcnt_epi32(sum));
  // A sum is at least 2^20, so its top bit lies above the eight fraction bits.
  const __m128i fraction =
      _mm_and_si128(_mm_srlv_epi32(sum, _mm_sub_epi32(n, _mm_set1_epi32(8))), _mm_set1_epi32(255));
  const __m128i integer = _mm_add_epi32(peak, _mm_sub_epi32(n, _mm_set1_epi32(20)));
  const __m128i value = _mm_max_epi32(_mm_add_epi32(_mm_slli_epi32(integer, 8), fraction),
                                      _mm_set1_epi32(kLogMassMin));
  const __mmask8 high = _mm_cmpgt_epi32_mask(integer, _mm_set1_epi32(INT32_MAX >> 8));
  return _mm_mask_mov_epi32(value, high, _mm_set1_epi32(kLogMassMax));
}

// L of one block for kHeads heads from their scores x [head][half].
template <int kHeads>
NEARKV_INLINE __m128i log_mass_of(const __m512i (*x)[2], const Multipliers& tokens) {
  __m512i peaks[kTile], sums[kTile];
  const __m512i none = _mm512_set1_epi32(INT32_MIN);
  for (int i = 0; i < kTile; ++i) {
    sums[i] = peaks[i] = none;
    if (i >= kHeads) continue;
    peaks[i] = _mm512_max_epi32(_mm512_mask_srai_epi32(none, tokens.exists[0], x[i][0], 8),
                                _mm512_mask_srai_epi32(none, tokens.exists[1], x[i][1], 8));
  }
  const __m512i peak =
      reduce_four(peaks, [](__m512i a, __m512i b) { return _mm512_max_epi32(a, b); });
  sums[0] = addends(x[0], element_of<0>(peak), tokens);
  if constexpr (kHeads > 1) sums[1] = addends(x[1], element_of<1>(peak), tokens);
  if constexpr (kHeads > 2) sums[2] = addends(x[2], element_of<2>(peak), tokens);
  if constexpr (kHeads > 3) sums[3] = addends(x[3], element_of<3>(peak), tokens);
  const __m512i sum =
      reduce_four(sums, [](__m512i a, __m512i b) { return _mm512_add_epi32(a, b); });
  return log_of_four(_mm512_castsi512_si128(peak), _mm512_castsi512_si128(sum));
}

}  // namespace
}  // namespace nearkv
