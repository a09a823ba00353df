// CRC-32C by carry-less multiplication, 64 bytes per step (Gopal et al., "Fast CRC Computation for
// Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009). Internal linkage, as it is
// compiled per instruction set.
#include <immintrin.h>

#include "crc32c.hpp"

namespace nearkv {
namespace {

inline __m128i fold_128(__m128i value, __m128i constants) {
  return _mm_xor_si128(_mm_clmulepi64_si128(value, constants, 0x00),
                       _mm_clmulepi64_si128(value, constants, 0x11));
}

inline __m128i fold_vector(FoldConstants k) {
  return _mm_set_epi64x(static_cast<long long>(k.high), static_cast<long long>(k.low));
}

inline __m128i load_128(const uint8_t* data) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
}

// The CRC register after the 16 bytes of `value`, starting from 0.
inline uint32_t reduce_128(__m128i value) {
  const uint64_t low = static_cast<uint64_t>(_mm_cvtsi128_si64(value));
  const uint64_t high = static_cast<uint64_t>(_mm_extract_epi64(value, 1));
  return static_cast<uint32_t>(_mm_crc32_u64(_mm_crc32_u64(0, low), high));
}

inline uint32_t crc32c_tail(uint32_t crc, const uint8_t* data, size_t bytes) {
  for (; bytes >= 8; bytes -= 8, data += 8) {
    uint64_t word;
    __builtin_memcpy(&word, data, 8);
    crc = static_cast<uint32_t>(_mm_crc32_u64(crc, word));
  }
  for (; bytes; --bytes, ++data) crc = _mm_crc32_u8(crc, *data);
  return crc;
}

uint32_t crc32c_clmul(uint32_t seed, const uint8_t* data, size_t bytes) {
  uint32_t crc = ~seed;
  if (bytes >= 128) {
    static constexpr FoldConstants k512 = fold_constants(512), k128 = fold_constants(128);
    const __m128i step = fold_vector(k512), join = fold_vector(k128);
    __m128i a = _mm_xor_si128(load_128(data), _mm_cvtsi32_si128(static_cast<int>(crc)));
    __m128i b = load_128(data + 16), c = load_128(data + 32), d = load_128(data + 48);
    for (data += 64, bytes -= 64; bytes >= 64; data += 64, bytes -= 64) {
      a = _mm_xor_si128(fold_128(a, step), load_128(data));
      b = _mm_xor_si128(fold_128(b, step), load_128(data + 16));
      c = _mm_xor_si128(fold_128(c, step), load_128(data + 32));
      d = _mm_xor_si128(fold_128(d, step), load_128(data + 48));
    }
    b = _mm_xor_si128(b, fold_128(a, join));
    c = _mm_xor_si128(c, fold_128(b, join));
    crc = reduce_128(_mm_xor_si128(d, fold_128(c, join)));
  }
  return ~crc32c_tail(crc, data, bytes);
}

}  // namespace
}  // namespace nearkv
