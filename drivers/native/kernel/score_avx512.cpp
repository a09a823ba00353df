// The score kernel for AVX-512 VNNI.
//
// A block is read once, four tokens at a time: their rows are transposed in 16-byte chunks, so that
// the four 128-bit lanes of a register hold the same chunk of four tokens, and every head
// multiplies them while they are in registers. A head's accumulators then need six shuffles for 16
// tokens instead of a full reduction tree. vpdpbusd wants unsigned times signed, so keys carry an
// offset (128 or 8), which the accumulators' start takes back. The CRC is folded between the dot
// products, because carry-less multiplication would be the bottleneck of a pass of its own.
#include <cstring>

#include "attend.hpp"
#include "avx512_log_mass.inl"
#include "codec.hpp"
#include "row_codec.hpp"

namespace nearkv {
namespace {

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

// A 64-byte chunk of keys as unsigned values: INT8 with an offset of 128; INT4 with one of 8, the
// low nibbles and behind them the high ones.
template <int kBits>
NEARKV_INLINE void unsigned_keys(__m512i chunk, __m512i* keys) {
  if constexpr (kBits == 8) {
    keys[0] = _mm512_xor_si512(chunk, _mm512_set1_epi8(-128));
  } else {  // (nibble ^ 8) & 15
    const __m512i sign = _mm512_set1_epi8(8), nibble = _mm512_set1_epi8(15);
    keys[0] = _mm512_ternarylogic_epi64(chunk, sign, nibble, 0x28);
    keys[1] = _mm512_ternarylogic_epi64(_mm512_srli_epi16(chunk, 4), sign, nibble, 0x28);
  }
}

// Payload rows of four tokens, transposed: lane i of keys[j] holds chunk j of token i.
template <int kBits, int kWidth>
NEARKV_INLINE void load_four_tokens(const uint8_t* rows, __m512i* keys) {
  constexpr int kRow = kWidth * kBits / 8;
  constexpr int kStep = 8 / kBits;
  if constexpr (kRow == 16) {
    unsigned_keys<kBits>(load_512(rows), keys);
  } else if constexpr (kRow == 32) {
    const __m512i ab = load_512(rows), cd = load_512(rows + 64);
    unsigned_keys<kBits>(_mm512_shuffle_i32x4(ab, cd, 0x88), keys);
    unsigned_keys<kBits>(_mm512_shuffle_i32x4(ab, cd, 0xDD), keys + kStep);
  } else {
    for (int column = 0; column < kRow; column += 64, keys += 4 * kStep) {
      const __m512i a = load_512(rows + column), b = load_512(rows + column + kRow);
      const __m512i c = load_512(rows + column + 2 * kRow), d = load_512(rows + column + 3 * kRow);
      const __m512i ab01 = _mm512_shuffle_i32x4(a, b, 0x44),
                    ab23 = _mm512_shuffle_i32x4(a, b, 0xEE);
      const __m512i cd01 = _mm512_shuffle_i32x4(c, d, 0x44),
                    cd23 = _mm512_shuffle_i32x4(c, d, 0xEE);
      unsigned_keys<kBits>(_mm512_shuffle_i32x4(ab01, cd01, 0x88), keys);
      unsigned_keys<kBits>(_mm512_shuffle_i32x4(ab01, cd01, 0xDD), keys + kStep);
      unsigned_keys<kBits>(_mm512_shuffle_i32x4(ab23, cd23, 0x88), keys + 2 * kStep);
      unsigned_keys<kBits>(_mm512_shuffle_i32x4(ab23, cd23, 0xDD), keys + 3 * kStep);
    }
  }
}

// Dot products of 16 tokens from four accumulators: element 4 i + g belongs to token 4 g + i.
NEARKV_INLINE __m512i add_lanes(const __m512i* sum) {
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(sum[0], sum[1]),
                                      _mm512_unpackhi_epi32(sum[0], sum[1]));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(sum[2], sum[3]),
                                      _mm512_unpackhi_epi32(sum[2], sum[3]));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
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
  bool score(const uint8_t* block, int32_t* log_mass, size_t stride) {
    const Multipliers tokens = load_multipliers(block);
    const bool good = dot_products(block);
    int h = 0;
    for (; h + kTile <= group_; h += kTile) write<kTile>(h, tokens, log_mass, stride);
    if (group_ - h == 1) write<1>(h, tokens, log_mass, stride);
    if (group_ - h == 2) write<2>(h, tokens, log_mass, stride);
    if (group_ - h == 3) write<3>(h, tokens, log_mass, stride);
    if (!good || !(tokens.exists[0] | tokens.exists[1]))
      for (int h = 0; h < group_; ++h) log_mass[h * stride] = kEmpty;
    return good;
  }

 private:
  static constexpr int kGroups = kBlockTokens / 4;
  static constexpr int kGroupBytes = 4 * kWidth * kBits / 8;
  static constexpr int kGroupLines = kGroupBytes / 64;
  static constexpr int kFolds = kGroupLines > 4 ? kGroupLines / 4 : 1;

  // sums_ of one block for every head; whether the block is sound.
  NEARKV_INLINE bool dot_products(const uint8_t* block) {
    BlockCrc crc(block);
    const uint8_t* rows = block + kHeaderBytes;
    for (int g = 0; g < kGroups; ++g, rows += kGroupBytes) {
      for (int line = 0; line < kGroupBytes; line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(rows + line + kPrefetchBytes), _MM_HINT_T0);
      for (int fold = 0; fold < kFolds; ++fold) crc.advance<kGroupLines / kFolds>();
      __m512i keys[kWidth / 16];
      load_four_tokens<kBits, kWidth>(rows, keys);
      const int8_t* q = chunks_;
      for (int h = 0; h < group_; ++h, q += kWidth * 4) {
        __m512i sum = _mm512_set1_epi32(starts_[h]);
        for (int j = 0; j < kWidth / 16; ++j)
          sum = _mm512_dpbusd_epi32(sum, keys[j], _mm512_load_si512(q + 64 * j));
        sums_[h][g] = sum;
      }
    }
    uint32_t stored;
    std::memcpy(&stored, block + kCrcOffset, 4);
    return stored == crc.value() && block[kFormatOffset] == kBits &&
           block[kWidthOffset] == kWidth / 32;
  }

  // L of one block for kHeads heads.
  template <int kHeads>
  NEARKV_INLINE void write(int first, const Multipliers& tokens, int32_t* log_mass, size_t stride) {
    __m512i x[kTile][2];
    for (int h = 0; h < kTile; ++h)
      for (int half = 0; half < 2; ++half)
        x[h][half] = h < kHeads ? add_lanes(sums_[first + h] + 4 * half) : _mm512_setzero_si512();
    for (int h = 0; h < kHeads; ++h)
      for (int half = 0; half < 2; ++half)
        x[h][half] = narrow_ ? scale_narrow(x[h][half], tokens.m[half], heads_[first + h])
                             : scale_wide(x[h][half], tokens.m[half], heads_[first + h]);
    alignas(16) int32_t values[kTile];
    _mm_store_si128(reinterpret_cast<__m128i*>(values), log_mass_of<kHeads>(x, tokens));
    for (int h = 0; h < kHeads; ++h) log_mass[(first + h) * stride] = values[h];
  }

  __m512i sums_[kMaxGroup][kGroups] = {};
  HeadScale heads_[kMaxGroup] = {};
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

const Isa kAvx512{"avx512",    query_bytes,  prepare,       score_blocks,
                  crc32c_wide, kCodecAvx512, kAttendAvx512, kRowsAvx512};

}  // namespace nearkv
