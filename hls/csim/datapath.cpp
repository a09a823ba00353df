// The datapath's pure functions with a C interface: what the property tests call and what the
// equivalence proof translates. Each is straight-line code once its loops are unrolled.
#include "../datapath/crc32c.h"
#include "../datapath/dot.h"
#include "../datapath/fold.h"
#include "../datapath/log2.h"
#include "../datapath/priority.h"
#include "../datapath/scale.h"

using namespace nearkv;

extern "C" {

int32_t nearkv_dot16(const int8_t q_even[kQuarterLanes], const int8_t q_odd[kQuarterLanes],
                     const int8_t k_even[kQuarterLanes], const int8_t k_odd[kQuarterLanes]) {
  return int32_t(dot16(q_even, q_odd, k_even, k_odd));
}

// One head and one beat: unpack, 16-lane sums, row. out: the row so far, then the two slots.
void nearkv_mac(const uint64_t beat[kBeatWords], const int8_t q_even[kLanes],
                const int8_t q_odd[kLanes], uint8_t int4, uint16_t row_bytes, uint8_t phase,
                int32_t before, int32_t out[3]) {
  Beat b;
  for (int w = 0; w < kBeatWords; ++w) b.word[w] = beat[w];
  const KeyLanes key = unpack(b, int4 & 1);
  QuarterSum quarter[kQuarters];
  for (int i = 0; i < kQuarters; ++i) {
    const int at = i * kQuarterLanes;
    quarter[i] = dot16(&q_even[at], &q_odd[at], &key.even[at], &key.odd[at]);
  }
  const RowDots head = row_dots(quarter, Dot(before), row_bytes, phase & 1);
  out[0] = int32_t(head.row);
  out[1] = int32_t(head.slot[0]);
  out[2] = int32_t(head.slot[1]);
}

int32_t nearkv_scale(int32_t dot, uint8_t m, uint16_t c, uint8_t r, int32_t b) {
  return int32_t(score_of(Dot(dot), m, c, r, b));
}

uint32_t nearkv_token_mass(int32_t x, int32_t peak) {
  return uint32_t(token_mass(x, Exponent(peak)));
}

int32_t nearkv_log_of_block(int32_t exponent, uint32_t sum) {
  return int32_t(log_of<26>(Exponent(exponent), BlockSum(sum)));
}

void nearkv_fold(int32_t* exponent, uint64_t* sum, int32_t value) {
  const Total next = fold({Exponent(*exponent), TotalSum(*sum)}, value);
  *exponent = int32_t(next.exponent);
  *sum = uint64_t(next.sum);
}

int32_t nearkv_total_of(int32_t exponent, uint64_t sum) {
  return int32_t(total_of({Exponent(exponent), TotalSum(sum)}));
}

uint32_t nearkv_share(int32_t log_mass, int32_t total) {
  return uint32_t(share_of(log_mass, total));
}

uint32_t nearkv_crc32c_beat(uint32_t state, const uint64_t beat[kBeatWords]) {
  Beat b;
  for (int w = 0; w < kBeatWords; ++w) b.word[w] = beat[w];
  return crc32c_beat(state, b);
}

uint32_t nearkv_crc32c_header(const uint64_t beat[kBeatWords]) {
  Beat b;
  for (int w = 0; w < kBeatWords; ++w) b.word[w] = beat[w];
  return crc32c_header(b);
}

}  // extern "C"
