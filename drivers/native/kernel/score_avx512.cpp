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

// Accumulators live in registers across these functions, so none of them may become a call.
#define NEARKV_INLINE inline __attribute__((always_inline))

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

NEARKV_INLINE __m512i load_512(const void* data) { return _mm512_loadu_si512(data); }

NEARKV_INLINE __m512i broadcast_fold(FoldConstants k) {
  return _mm512_broadcast_i32x4(fold_vector(k));
}

// a * fold + b for four 128-bit lanes.
NEARKV_INLINE __m512i fold_512(__m512i a, __m512i k, __m512i b) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(a, k, 0x00),
                                   _mm512_clmulepi64_epi128(a, k, 0x11), b, 0x96);
}

// The CRC register that 64-byte accumulators stand for, which hold folded data in its order.
template <int kCount>
NEARKV_INLINE uint32_t reduce_folded(const __m512i* folded) {
  static constexpr FoldConstants k512 = fold_constants(512), k384 = fold_constants(384),
                                 k256 = fold_constants(256), k128 = fold_constants(128);
  const __m512i step = broadcast_fold(k512);
  __m512i all = folded[0];
  for (int i = 1; i < kCount; ++i) all = fold_512(all, step, folded[i]);
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
  return ~crc32c_tail(reduce_folded<4>(folded), data, bytes);
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
// has a port of its own and would be the slowest part of a pass of its own. Two accumulators take
// turns.
class BlockCrc {
 public:
  NEARKV_INLINE explicit BlockCrc(const uint8_t* block)
      : next_(block + kHeaderBytes), turn_(_mm512_setzero_si512()), last_(header_line(block)) {}

  template <int kLines>
  NEARKV_INLINE void advance() {
    static constexpr FoldConstants kStride = fold_constants(1024);
    const __m512i stride = broadcast_fold(kStride);
    for (int i = 0; i < kLines; ++i, next_ += 64) {
      const __m512i folded = fold_512(turn_, stride, load_512(next_));
      turn_ = last_;
      last_ = folded;
    }
  }

  NEARKV_INLINE uint32_t value() const {
    const __m512i folded[2] = {turn_, last_};
    return ~reduce_folded<2>(folded);
  }

 private:
  const uint8_t* next_;
  __m512i turn_, last_;
};

// Stands where a tile of heads does not advance a CRC.
struct NoCrc {
  template <int kLines>
  NEARKV_INLINE void advance() {}
};

// One chunk to the scratch, as unsigned values: INT8 with an offset of 128; INT4 with one of 8, the
// low nibbles and behind them the high ones.
template <int kBits>
NEARKV_INLINE void store_chunk(uint8_t* scratch, __m512i chunk) {
  if constexpr (kBits == 8) {
    _mm512_store_si512(scratch, _mm512_xor_si512(chunk, _mm512_set1_epi8(-128)));
  } else {  // (nibble ^ 8) & 15
    const __m512i sign = _mm512_set1_epi8(8), nibble = _mm512_set1_epi8(15);
    const __m512i high = _mm512_srli_epi16(chunk, 4);
    _mm512_store_si512(scratch, _mm512_ternarylogic_epi64(chunk, sign, nibble, 0x28));
    _mm512_store_si512(scratch + 64, _mm512_ternarylogic_epi64(high, sign, nibble, 0x28));
  }
}

// Payload rows to chunks of four tokens each: scratch [8][D / 16][64].
template <int kBits, int kWidth>
NEARKV_INLINE void transpose_rows(const uint8_t* rows, uint8_t* scratch) {
  constexpr int kRow = kWidth * kBits / 8;
  constexpr int kChunk = 64 * (8 / kBits);
  for (int t = 0; t < kBlockTokens; t += 4, rows += 4 * kRow, scratch += kWidth * 4) {
    for (int line = 0; line < 4 * kRow; line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(rows + line + kPrefetchBytes), _MM_HINT_T0);
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

// Dot products of kHeads heads with 16 tokens: element 4 i + g of dot[h] belongs to token 4 g + i.
// Two heads at a time, so that accumulators and keys stay in registers.
template <int kWidth, int kHeads, int kLines, typename Crc>
NEARKV_INLINE void dot_16(const uint8_t* scratch, const int8_t* chunks, const int32_t* starts,
                          __m512i* dot, Crc& crc) {
  __m512i sum[kHeads][4];
  for (int h = 0; h < kHeads; ++h)
    for (int g = 0; g < 4; ++g) sum[h][g] = _mm512_set1_epi32(starts[h]);
#pragma GCC unroll 2
  for (int j = 0; j < kWidth / 16; ++j) {
    crc.template advance<kLines>();
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

template <int kHead>
NEARKV_INLINE __m512i head_of(__m512i four) {
  return _mm512_shuffle_epi32(four, static_cast<_MM_PERM_ENUM>(kHead * 0x55));
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
NEARKV_INLINE __m512i addends(__m512i low, __m512i high, __m512i peak, const Multipliers& tokens) {
  const auto addend = [peak](__m512i x, __mmask16 exists) {
    // (x & 255) | 256; a shift of 32 and more yields 0, as one of 31 does.
    const __m512i mantissa =
        _mm512_ternarylogic_epi32(x, _mm512_set1_epi32(255), _mm512_set1_epi32(256), 0xEA);
    const __m512i gap = _mm512_sub_epi32(peak, _mm512_srai_epi32(x, 8));
    return _mm512_maskz_srlv_epi32(exists, _mm512_slli_epi32(mantissa, 12), gap);
  };
  return _mm512_add_epi32(addend(low, tokens.exists[0]), addend(high, tokens.exists[1]));
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

// x [2][kHeads] of 32 tokens; folds kCrcLines lines of the block's CRC on the way.
template <int kWidth, int kHeads, int kCrcLines, typename Crc>
NEARKV_INLINE void token_scores(const uint8_t* scratch, const int8_t* chunks, const int32_t* starts,
                                const HeadScale* scale, bool narrow, const Multipliers& tokens,
                                Crc& crc, __m512i (*x)[kHeads]) {
  constexpr int kPairs = (kHeads + 1) / 2, kLast = kHeads - 2 * (kPairs - 1);
  constexpr int kLines = kCrcLines / (2 * kPairs * (kWidth / 16));
  static_assert(kLines * 2 * kPairs * (kWidth / 16) == kCrcLines);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* keys = scratch + half * 16 * kWidth;
    if constexpr (kPairs == 2) dot_16<kWidth, 2, kLines>(keys, chunks, starts, x[half], crc);
    constexpr int kFirst = kHeads - kLast;
    dot_16<kWidth, kLast, kLines>(keys, chunks + kFirst * kWidth * 4, starts + kFirst,
                                  x[half] + kFirst, crc);
  }
  for (int half = 0; half < 2; ++half)
    for (int h = 0; h < kHeads; ++h)
      x[half][h] = narrow ? scale_narrow(x[half][h], tokens.m[half], scale[h])
                          : scale_wide(x[half][h], tokens.m[half], scale[h]);
}

// L of one block for the first kHeads of four heads.
template <int kHeads>
NEARKV_INLINE __m128i log_mass_of(const __m512i (*x)[kHeads], const Multipliers& tokens) {
  __m512i peaks[kTile], sums[kTile];
  for (int h = 0; h < kTile; ++h) {
    peaks[h] = sums[h] = _mm512_set1_epi32(INT32_MIN);
    if (h < kHeads)
      peaks[h] = _mm512_max_epi32(_mm512_mask_srai_epi32(peaks[h], tokens.exists[0], x[0][h], 8),
                                  _mm512_mask_srai_epi32(peaks[h], tokens.exists[1], x[1][h], 8));
  }
  const __m512i peak =
      reduce_four(peaks, [](__m512i a, __m512i b) { return _mm512_max_epi32(a, b); });
  sums[0] = addends(x[0][0], x[1][0], head_of<0>(peak), tokens);
  if constexpr (kHeads > 1) sums[1] = addends(x[0][1], x[1][1], head_of<1>(peak), tokens);
  if constexpr (kHeads > 2) sums[2] = addends(x[0][2], x[1][2], head_of<2>(peak), tokens);
  if constexpr (kHeads > 3) sums[3] = addends(x[0][3], x[1][3], head_of<3>(peak), tokens);
  const __m512i sum =
      reduce_four(sums, [](__m512i a, __m512i b) { return _mm512_add_epi32(a, b); });
  return log_of_four(_mm512_castsi512_si128(peak), _mm512_castsi512_si128(sum));
}

// One query against the consecutive blocks of a run.
template <int kBits, int kWidth>
class RunScorer {
 public:
  RunScorer(const PreparedQuery& query, const RunScale& scale)
      : group_(query.group),
        chunks_(static_cast<const int8_t*>(query.data)),
        starts_(reinterpret_cast<const int32_t*>(chunks_ + query.group * kWidth * 4)) {
    for (int h = 0; h < group_; ++h) {
      heads_[h] = head_scale(scale, h, kWidth, kBits);
      narrow_ &= heads_[h].narrow;
    }
  }

  // L[h * stride] of one block for every head; false where CRC, format or width do not match.
  NEARKV_INLINE bool score(const uint8_t* block, int32_t* log_mass, size_t stride) {
    BlockCrc crc(block);
    NoCrc none;
    transpose_rows<kBits, kWidth>(block + kHeaderBytes, scratch_);
    const Multipliers tokens = load_multipliers(block);
    tile(0, tokens, log_mass, stride, crc);
    for (int h = kTile; h < group_; h += kTile) tile(h, tokens, log_mass, stride, none);
    uint32_t stored;
    std::memcpy(&stored, block + kCrcOffset, 4);
    const bool good = stored == crc.value() && block[kFormatOffset] == kBits &&
                      block[kWidthOffset] == kWidth / 32;
    if (!good || !(tokens.exists[0] | tokens.exists[1]))
      for (int h = 0; h < group_; ++h) log_mass[h * stride] = kEmpty;
    return good;
  }

 private:
  static constexpr int kCrcLines = kBlockTokens * kWidth * kBits / 8 / 64;

  template <typename Crc>
  NEARKV_INLINE void tile(int first, const Multipliers& tokens, int32_t* log_mass, size_t stride,
                          Crc& crc) {
    switch (group_ - first) {
      case 1:
        return tile_of<1>(first, tokens, log_mass, stride, crc);
      case 2:
        return tile_of<2>(first, tokens, log_mass, stride, crc);
      case 3:
        return tile_of<3>(first, tokens, log_mass, stride, crc);
      default:
        return tile_of<4>(first, tokens, log_mass, stride, crc);
    }
  }

  template <int kHeads, typename Crc>
  NEARKV_INLINE void tile_of(int first, const Multipliers& tokens, int32_t* log_mass, size_t stride,
                             Crc& crc) {
    __m512i x[2][kHeads];
    token_scores<kWidth, kHeads, kCrcLines>(scratch_, chunks_ + first * kWidth * 4, starts_ + first,
                                            heads_ + first, narrow_, tokens, crc, x);
    alignas(16) int32_t values[kTile];
    _mm_store_si128(reinterpret_cast<__m128i*>(values), log_mass_of<kHeads>(x, tokens));
    for (int j = 0; j < kHeads; ++j) log_mass[(first + j) * stride] = values[j];
  }

  alignas(64) uint8_t scratch_[kBlockTokens * kWidth];
  HeadScale heads_[kMaxGroup];
  int group_;
  const int8_t* chunks_;
  const int32_t* starts_;
  bool narrow_ = true;
};

template <int kBits, int kWidth>
void score_run(const PreparedQuery& query, const RunScale& scale, const uint8_t* blocks,
               size_t count, int32_t* log_mass, size_t stride, uint8_t* bad) {
  RunScorer<kBits, kWidth> scorer(query, scale);
  for (size_t i = 0; i < count; ++i, blocks += block_bytes(kWidth, kBits))
    if (!scorer.score(blocks, log_mass + i, stride)) bad[i] = 1;
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
