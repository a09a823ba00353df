// The score kernel for AVX-512 VNNI.
//
// A block is read once: four tokens at a time its rows are transposed in 16-byte chunks, so that
// the four 128-bit lanes of a register hold the same chunk of four tokens, and written to a scratch
// that stays in L1; the same pass folds the CRC. vpdpbusd wants unsigned times signed, so keys
// carry an offset (128 or 8), which the accumulators' start takes back. Four accumulators (16
// tokens) then need three additions instead of a full reduction tree, and everything from the dot
// product to the log-mass stays in registers, four heads at a time.
#include <cstring>

#include "codec.hpp"
#include "contract.hpp"
#include "crc32c_clmul.inl"

namespace nearkv {
namespace {

constexpr int kTile = 4;  // heads that are reduced together
constexpr int kPrefetchBytes = 8192;

// Prepared query: [G][D/16] chunks of 64 bytes, each 16 query values repeated four times, then
// int32 [G] starts.
size_t query_bytes(int group, int width) {
  return static_cast<size_t>(group) * width * 4 + 4 * kMaxGroup;
}

void prepare(const int8_t* q, int group, int width, int bits, void* out) {
  int8_t* chunks = static_cast<int8_t*>(out);
  int32_t* starts = reinterpret_cast<int32_t*>(chunks + static_cast<size_t>(group) * width * 4);
  for (int h = 0; h < group; ++h, q += width) {
    int32_t sum = 0;
    for (int i = 0; i < width; ++i) sum += q[i];
    starts[h] = bits == 8 ? -32 * sum
                          : -2 * sum;  // a quarter of the offset's share: four lanes are added up
    for (int chunk = 0; chunk < width / 16; ++chunk, chunks += 64)
      for (int i = 0; i < 64; ++i) {
        const int lane = i % 16;
        // INT4: an even chunk holds the low nibbles (even values) of 16 bytes, the odd one behind
        // it the high ones.
        chunks[i] = bits == 8 ? q[chunk * 16 + lane] : q[chunk / 2 * 32 + 2 * lane + chunk % 2];
      }
  }
}

inline __m512i load_512(const void* data) { return _mm512_loadu_si512(data); }

inline __m512i broadcast_fold(FoldConstants k) { return _mm512_broadcast_i32x4(fold_vector(k)); }

// a * fold + b for four 128-bit lanes.
inline __m512i fold_512(__m512i a, __m512i k, __m512i b) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(a, k, 0x00),
                                   _mm512_clmulepi64_epi128(a, k, 0x11), b, 0x96);
}

// Four 64-byte accumulators of a folded CRC, in the order of the data.
struct Folded {
  __m512i lane[4];
};

// The CRC register that `folded` stands for.
inline uint32_t reduce_folded(const Folded& folded) {
  static constexpr FoldConstants k512 = fold_constants(512), k384 = fold_constants(384),
                                 k256 = fold_constants(256), k128 = fold_constants(128);
  const __m512i step = broadcast_fold(k512);
  __m512i all = folded.lane[0];
  for (int i = 1; i < 4; ++i) all = fold_512(all, step, folded.lane[i]);
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
  Folded folded{{load_512(data), load_512(data + 64), load_512(data + 128), load_512(data + 192)}};
  folded.lane[0] = _mm512_xor_si512(
      folded.lane[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~seed))));
  for (data += 256, bytes -= 256; bytes >= 256; data += 256, bytes -= 256)
    for (int i = 0; i < 4; ++i)
      folded.lane[i] = fold_512(folded.lane[i], far, load_512(data + 64 * i));
  return ~crc32c_tail(reduce_folded(folded), data, bytes);
}

// The first line of a block's CRC: four zero bytes and bytes 0..59 of the header, which end where
// the payload starts; leading zeros do not change a remainder, so the initial value goes where the
// header begins.
inline __m512i header_line(const uint8_t* block) {
  const __m512i initial = _mm512_maskz_set1_epi32(2, -1);
  return _mm512_xor_si512(_mm512_alignr_epi32(load_512(block), _mm512_setzero_si512(), 15),
                          initial);
}

template <int kBits>
inline void store_chunk(uint8_t* scratch, __m512i chunk) {
  if constexpr (kBits == 8) {
    _mm512_store_si512(scratch, _mm512_xor_si512(chunk, _mm512_set1_epi8(-128)));
  } else {  // (chunk ^ 0x88) & 0x0F, and the same for the high nibbles
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x88)), nibble = _mm512_set1_epi8(15);
    _mm512_store_si512(scratch, _mm512_ternarylogic_epi64(chunk, sign, nibble, 0x28));
    _mm512_store_si512(scratch + 64,
                       _mm512_ternarylogic_epi64(_mm512_srli_epi16(chunk, 4),
                                                 _mm512_srli_epi16(sign, 4), nibble, 0x28));
  }
}

// Payload rows of kTokens tokens to chunks of four tokens each: scratch [kTokens / 4][D / 16][64].
template <int kBits, int kWidth, int kTokens>
inline void transpose_rows(const uint8_t* rows, uint8_t* scratch) {
  constexpr int kRow = kWidth * kBits / 8;
  constexpr int kChunk = 64 * (8 / kBits);
  for (int t = 0; t < kTokens; t += 4, rows += 4 * kRow, scratch += kWidth * 4) {
    if constexpr (kRow == 16) {
      store_chunk<kBits>(scratch, load_512(rows));
    } else if constexpr (kRow == 32) {
      const __m512i ab = load_512(rows), cd = load_512(rows + 64);
      store_chunk<kBits>(scratch, _mm512_shuffle_i32x4(ab, cd, 0x88));
      store_chunk<kBits>(scratch + kChunk, _mm512_shuffle_i32x4(ab, cd, 0xDD));
    } else {
      for (int column = 0; column < kRow; column += 64) {
        const __m512i a = load_512(rows + column), b = load_512(rows + column + kRow);
        const __m512i c = load_512(rows + column + 2 * kRow),
                      d = load_512(rows + column + 3 * kRow);
        const __m512i ab01 = _mm512_shuffle_i32x4(a, b, 0x44),
                      ab23 = _mm512_shuffle_i32x4(a, b, 0xEE);
        const __m512i cd01 = _mm512_shuffle_i32x4(c, d, 0x44),
                      cd23 = _mm512_shuffle_i32x4(c, d, 0xEE);
        uint8_t* out = scratch + column / 16 * kChunk;
        store_chunk<kBits>(out, _mm512_shuffle_i32x4(ab01, cd01, 0x88));
        store_chunk<kBits>(out + kChunk, _mm512_shuffle_i32x4(ab01, cd01, 0xDD));
        store_chunk<kBits>(out + 2 * kChunk, _mm512_shuffle_i32x4(ab23, cd23, 0x88));
        store_chunk<kBits>(out + 3 * kChunk, _mm512_shuffle_i32x4(ab23, cd23, 0xDD));
      }
    }
  }
}

// One pass over a block: its keys into `scratch`; returns whether CRC, format and width match.
template <int kBits, int kWidth>
inline bool unpack(const uint8_t* block, uint8_t* scratch) {
  constexpr int kRow = kWidth * kBits / 8;
  constexpr int kStepTokens = kRow >= 64 ? 4 : 256 / kRow;
  constexpr int kStepBytes = kStepTokens * kRow;
  static constexpr FoldConstants k512 = fold_constants(512), k2048 = fold_constants(2048);
  const __m512i far = broadcast_fold(k2048);
  const uint8_t* rows = block + kHeaderBytes;
  Folded folded;
  for (int step = 0; step < kBlockTokens / kStepTokens; ++step, rows += kStepBytes) {
    for (int at = 0; at < kStepBytes; at += 256)
      for (int i = 0; i < 4; ++i) {
        const uint8_t* line = rows + at + 64 * i;
        _mm_prefetch(reinterpret_cast<const char*>(line + kPrefetchBytes), _MM_HINT_T0);
        const __m512i data = load_512(line);
        if (step || at)
          folded.lane[i] = fold_512(folded.lane[i], far, data);
        else
          folded.lane[i] = i ? data : fold_512(header_line(block), broadcast_fold(k512), data);
      }
    transpose_rows<kBits, kWidth, kStepTokens>(rows, scratch + step * kStepTokens * kWidth);
  }
  uint32_t stored;
  std::memcpy(&stored, block + kCrcOffset, 4);
  return stored == ~reduce_folded(folded) && block[kFormatOffset] == kBits &&
         block[kWidthOffset] == kWidth / 32;
}

// Dot products of kHeads heads with 16 tokens: element 4 i + g of dot[h] belongs to token 4 g + i.
template <int kWidth, int kHeads>
inline void dot_16(const uint8_t* scratch, const int8_t* chunks, const int32_t* starts,
                   __m512i* dot) {
  __m512i sum[kHeads][4];
  for (int h = 0; h < kHeads; ++h)
    for (int g = 0; g < 4; ++g) sum[h][g] = _mm512_set1_epi32(starts[h]);
  for (int j = 0; j < kWidth / 16; ++j) {
    __m512i keys[4];
    for (int g = 0; g < 4; ++g) keys[g] = _mm512_load_si512(scratch + g * kWidth * 4 + j * 64);
    for (int h = 0; h < kHeads; ++h) {
      const __m512i q = _mm512_load_si512(chunks + (h * (kWidth / 16) + j) * 64);
      for (int g = 0; g < 4; ++g) sum[h][g] = _mm512_dpbusd_epi32(sum[h][g], keys[g], q);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(sum[h][0], sum[h][1]),
                                        _mm512_unpackhi_epi32(sum[h][0], sum[h][1]));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(sum[h][2], sum[h][3]),
                                        _mm512_unpackhi_epi32(sum[h][2], sum[h][3]));
    dot[h] = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  }
}

// How one run scales one head. `narrow` says that neither the shifted product nor its sum with the
// bias can leave int32.
struct HeadScale {
  __m512i c;
  __m512i b32;
  __m512i b64;
  __m128i right;
  __m128i left;
  bool narrow;
};

inline HeadScale head_scale(const RunScale& scale, int h, int width, int bits) {
  const int64_t most =
      (static_cast<int64_t>(bits == 8 ? 128 : 8) * 128 * width * 255 * scale.c[h]) >> scale.r[h];
  const int64_t bias = scale.b[h] < 0 ? -static_cast<int64_t>(scale.b[h]) : scale.b[h];
  return {_mm512_set1_epi64(scale.c[h]),      _mm512_set1_epi32(scale.b[h]),
          _mm512_set1_epi64(scale.b[h]),      _mm_cvtsi32_si128(scale.r[h]),
          _mm_cvtsi32_si128(32 - scale.r[h]), scale.r[h] <= 32 && most + 1 + bias <= INT32_MAX};
}

// x for 16 tokens.
inline __m512i scale_16(__m512i dot, __m512i m, const HeadScale& scale) {
  const __m512i product = _mm512_mullo_epi32(dot, m);
  const __m512i even = _mm512_mul_epi32(product, scale.c);
  const __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(product, 32), scale.c);
  if (scale.narrow) {
    const __m512i shifted = _mm512_mask_blend_epi32(0xAAAA, _mm512_srl_epi64(even, scale.right),
                                                    _mm512_sll_epi64(odd, scale.left));
    return _mm512_add_epi32(shifted, scale.b32);
  }
  const __m512i top = _mm512_set1_epi64(INT32_MAX), bottom = _mm512_set1_epi64(INT32_MIN);
  const __m512i low = _mm512_add_epi64(_mm512_sra_epi64(even, scale.right), scale.b64);
  const __m512i high = _mm512_add_epi64(_mm512_sra_epi64(odd, scale.right), scale.b64);
  return _mm512_mask_blend_epi32(
      0xAAAA, _mm512_max_epi64(_mm512_min_epi64(low, top), bottom),
      _mm512_slli_epi64(_mm512_max_epi64(_mm512_min_epi64(high, top), bottom), 32));
}

// Four registers reduced at once: every 128-bit lane of the result holds [of v0, of v1, of v2, of
// v3].
template <typename Combine>
inline __m512i reduce_four(const __m512i* v, Combine combine) {
  const __m512i ab = combine(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
  const __m512i cd = combine(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
  __m512i all = combine(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  all = combine(all, _mm512_shuffle_i32x4(all, all, 0x4E));
  return combine(all, _mm512_shuffle_i32x4(all, all, 0xB1));
}

template <int kHead>
inline __m512i head_of(__m512i four) {
  return _mm512_shuffle_epi32(four, static_cast<_MM_PERM_ENUM>(kHead * 0x55));
}

// Block multipliers and which tokens exist, in the order of dot_16.
struct Multipliers {
  __m512i m[2];
  __mmask16 exists[2];
};

inline Multipliers load_multipliers(const uint8_t* block) {
  const __m128i order = _mm_set_epi8(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  Multipliers out;
  for (int half = 0; half < 2; ++half) {
    out.m[half] = _mm512_cvtepu8_epi32(_mm_shuffle_epi8(load_128(block + 16 * half), order));
    out.exists[half] = _mm512_test_epi32_mask(out.m[half], out.m[half]);
  }
  return out;
}

// The sum of 2^(x - E) in the contract's fixed point, as per-lane addends of 32 tokens.
inline __m512i addends(const __m512i* x, __m512i peak, const Multipliers& tokens) {
  __m512i sum = _mm512_setzero_si512();
  for (int half = 0; half < 2; ++half) {
    // (x & 255) | 256; a shift of 32 and more yields 0, as one of 31 does.
    const __m512i mantissa =
        _mm512_ternarylogic_epi32(x[half], _mm512_set1_epi32(255), _mm512_set1_epi32(256), 0xEA);
    const __m512i gap = _mm512_sub_epi32(peak, _mm512_srai_epi32(x[half], 8));
    const __m512i addend =
        _mm512_maskz_srlv_epi32(tokens.exists[half], _mm512_slli_epi32(mantissa, 12), gap);
    sum = _mm512_add_epi32(sum, addend);
  }
  return sum;
}

// log_of for four heads: exponents and sums in the lowest 128 bits.
inline __m128i log_of_four(__m128i peak, __m128i sum) {
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

// L of one block for kHeads heads, from the third on zero where there are fewer.
template <int kWidth, int kHeads>
inline __m128i log_mass_tile(const uint8_t* scratch, const int8_t* chunks, const int32_t* starts,
                             const HeadScale* scale, const Multipliers& tokens) {
  __m512i dot[2][kHeads];
  for (int half = 0; half < 2; ++half)
    dot_16<kWidth, kHeads>(scratch + half * 16 * kWidth, chunks, starts, dot[half]);
  __m512i x[kTile][2], peaks[kTile], sums[kTile];
  for (int h = 0; h < kTile; ++h) {
    if (h >= kHeads) {
      peaks[h] = sums[h] = _mm512_setzero_si512();
      continue;
    }
    const __m512i none = _mm512_set1_epi32(INT32_MIN);
    for (int half = 0; half < 2; ++half)
      x[h][half] = scale_16(dot[half][h], tokens.m[half], scale[h]);
    peaks[h] = _mm512_max_epi32(_mm512_mask_srai_epi32(none, tokens.exists[0], x[h][0], 8),
                                _mm512_mask_srai_epi32(none, tokens.exists[1], x[h][1], 8));
  }
  const __m512i peak =
      reduce_four(peaks, [](__m512i a, __m512i b) { return _mm512_max_epi32(a, b); });
  sums[0] = addends(x[0], head_of<0>(peak), tokens);
  if constexpr (kHeads > 1) sums[1] = addends(x[1], head_of<1>(peak), tokens);
  if constexpr (kHeads > 2) sums[2] = addends(x[2], head_of<2>(peak), tokens);
  if constexpr (kHeads > 3) sums[3] = addends(x[3], head_of<3>(peak), tokens);
  const __m512i sum =
      reduce_four(sums, [](__m512i a, __m512i b) { return _mm512_add_epi32(a, b); });
  return log_of_four(_mm512_castsi512_si128(peak), _mm512_castsi512_si128(sum));
}

template <int kWidth>
inline __m128i log_mass_some(int heads, const uint8_t* scratch, const int8_t* chunks,
                             const int32_t* starts, const HeadScale* scale,
                             const Multipliers& tokens) {
  switch (heads) {
    case 1:
      return log_mass_tile<kWidth, 1>(scratch, chunks, starts, scale, tokens);
    case 2:
      return log_mass_tile<kWidth, 2>(scratch, chunks, starts, scale, tokens);
    case 3:
      return log_mass_tile<kWidth, 3>(scratch, chunks, starts, scale, tokens);
    default:
      return log_mass_tile<kWidth, 4>(scratch, chunks, starts, scale, tokens);
  }
}

template <int kBits, int kWidth>
void score_run(const PreparedQuery& query, const RunScale& scale, const uint8_t* blocks,
               size_t count, int32_t* log_mass, size_t stride, uint8_t* bad) {
  alignas(64) uint8_t scratch[kBlockTokens * kWidth];
  const int8_t* chunks = static_cast<const int8_t*>(query.data);
  const int32_t* starts = reinterpret_cast<const int32_t*>(chunks + query.group * kWidth * 4);
  HeadScale heads[kMaxGroup];
  for (int h = 0; h < query.group; ++h) heads[h] = head_scale(scale, h, kWidth, kBits);
  for (size_t i = 0; i < count; ++i, blocks += block_bytes(kWidth, kBits)) {
    const bool good = unpack<kBits, kWidth>(blocks, scratch);
    const Multipliers tokens = load_multipliers(blocks);
    if (!good) bad[i] = 1;
    if (!good || !(tokens.exists[0] | tokens.exists[1])) {
      for (int h = 0; h < query.group; ++h) log_mass[h * stride + i] = kEmpty;
      continue;
    }
    for (int h = 0; h < query.group; h += kTile) {
      const int some = query.group - h < kTile ? query.group - h : kTile;
      alignas(16) int32_t values[kTile];
      _mm_store_si128(reinterpret_cast<__m128i*>(values),
                      log_mass_some<kWidth>(some, scratch, chunks + h * kWidth * 4, starts + h,
                                            heads + h, tokens));
      for (int j = 0; j < some; ++j) log_mass[(h + j) * stride + i] = values[j];
    }
  }
}

template <int kBits>
void score_width(const PreparedQuery& query, const RunScale& scale, const uint8_t* blocks,
                 size_t count, int32_t* log_mass, size_t stride, uint8_t* bad) {
  switch (query.width) {
    case 32:
      return score_run<kBits, 32>(query, scale, blocks, count, log_mass, stride, bad);
    case 64:
      return score_run<kBits, 64>(query, scale, blocks, count, log_mass, stride, bad);
    case 128:
      return score_run<kBits, 128>(query, scale, blocks, count, log_mass, stride, bad);
    default:
      return score_run<kBits, 256>(query, scale, blocks, count, log_mass, stride, bad);
  }
}

void score_blocks(const PreparedQuery& query, const RunScale& scale, const uint8_t* blocks,
                  size_t count, int32_t* log_mass, size_t stride, uint8_t* bad) {
  if (query.bits == 8) return score_width<8>(query, scale, blocks, count, log_mass, stride, bad);
  score_width<4>(query, scale, blocks, count, log_mass, stride, bad);
}

}  // namespace

const Isa kAvx512{"avx512", query_bytes, prepare, score_blocks, crc32c_wide, kCodecAvx512};

}  // namespace nearkv
