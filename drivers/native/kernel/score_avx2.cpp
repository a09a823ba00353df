// The score kernel for AVX2 (vpmaddwd on 16-bit keys: vpmaddubsw would saturate) with CRC-32C by
// PCLMULQDQ.
#include "attend.hpp"
#include "codec.hpp"
#include "crc32c_clmul.inl"
#include "row_codec.hpp"

#define block_crc_of crc32c_clmul
#include "score_generic.inl"

namespace nearkv {

const Isa kAvx2{"avx2",       query_bytes, prepare,     score_blocks,
                crc32c_clmul, kCodecAvx2,  kAttendAvx2, kRowsAvx2};

}  // namespace nearkv
