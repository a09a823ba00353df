// CRC-32C by 512-bit carry-less multiplication (VPCLMULQDQ), for whole buffers and for score
// blocks.
#include "contract.hpp"
#include "crc32c_clmul.inl"

// Accumulators live in registers across functions, so none of them may become a call.
#define NEARKV_INLINE inline __attribute__((always_inline))

namespace nearkv {
namespace {

NEARKV_INLINE __m512i load_512(const void* data) { return _mm512_loadu_si512(data); }

NEARKV_INLINE __m512i broadcast_fold(FoldConstants k) {
  return _mm512_broadcast_i32x4(fold_vector(k));
}

// a * fold + b for four 128-bit lanes.
NEARKV_INLINE __m512i fold_512(__m512i a, __m512i k, __m512i b) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(a, k, 0x00),
                                   _mm512_clmulepi64_epi128(a, k, 0x11), b, 0x96);
}

// The CRC register that four 64-byte accumulators stand for, which hold folded data in its order.
NEARKV_INLINE uint32_t reduce_folded(const __m512i* folded) {
  static constexpr FoldConstants k512 = fold_constants(512), k384 = fold_constants(384),
                                 k256 = fold_constants(256), k128 = fold_constants(128);
  const __m512i step = broadcast_fold(k512);
  __m512i all = folded[0];
  for (int i = 1; i < 4; ++i) all = fold_512(all, step, folded[i]);
  const __m512i join =
      _mm512_set_epi64(0, 0, static_cast<long long>(k128.high), static_cast<long long>(k128.low),
                       static_cast<long long>(k256.high), static_cast<long long>(k256.low),
                       static_cast<long long>(k384.high), static_cast<long long>(k384.low));
  const __m512i moved = fold_512(all, join, _mm512_setzero_si512());
  const __m256i half =
      _mm256_xor_si256(_mm512_castsi512_si256(moved), _mm512_extracti64x4_epi64(moved, 1));
  const __m128i low =
      _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  return reduce_128(_mm_xor_si128(low, _mm512_extracti64x2_epi64(all, 3)));
}

uint32_t crc32c_wide(uint32_t seed, const uint8_t* data, size_t bytes) {
  if (bytes < 512) return crc32c_clmul(seed, data, bytes);
  static constexpr FoldConstants k2048 = fold_constants(2048);
  const __m512i far = broadcast_fold(k2048);
  __m512i folded[4];
  for (int i = 0; i < 4; ++i) folded[i] = load_512(data + 64 * i);
  folded[0] = _mm512_xor_si512(folded[0],
                               _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~seed))));
  for (data += 256, bytes -= 256; bytes >= 256; data += 256, bytes -= 256)
    for (int i = 0; i < 4; ++i) folded[i] = fold_512(folded[i], far, load_512(data + 64 * i));
  return ~crc32c_tail(reduce_folded(folded), data, bytes);
}

// The first line of a block's CRC: four zero bytes and bytes 0..59 of the header, which end where
// the payload starts; leading zeros do not change a remainder, so the initial value goes where the
// header begins.
NEARKV_INLINE __m512i header_line(const uint8_t* block) {
  const __m512i initial = _mm512_maskz_set1_epi32(2, -1);
  return _mm512_xor_si512(_mm512_alignr_epi32(load_512(block), _mm512_setzero_si512(), 15),
                          initial);
}

// CRC of one block, advanced a few lines at a time between other work: carry-less multiplication
// has a port of its own and would be the slowest part of a pass of its own. Four accumulators, the
// one that is furthest behind first.
class BlockCrc {
 public:
  NEARKV_INLINE explicit BlockCrc(const uint8_t* block) : next_(block + kHeaderBytes) {
    for (int i = 0; i < 3; ++i) folded_[i] = _mm512_setzero_si512();
    folded_[3] = header_line(block);
  }

  template <int kLines>
  NEARKV_INLINE void advance() {
    static constexpr FoldConstants kStride = fold_constants(2048);
    const __m512i stride = broadcast_fold(kStride);
    __m512i moved[4];
    for (int i = 0; i < 4; ++i)
      moved[(i + 4 - kLines) % 4] =
          i < kLines ? fold_512(folded_[i], stride, load_512(next_ + 64 * i)) : folded_[i];
    for (int i = 0; i < 4; ++i) folded_[i] = moved[i];
    next_ += 64 * kLines;
  }

  NEARKV_INLINE uint32_t value() const { return ~reduce_folded(folded_); }

 private:
  const uint8_t* next_;
  __m512i folded_[4];
};

}  // namespace
}  // namespace nearkv
