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

void nearkv_unpack(const uint64_t beat[kBeatWords], uint8_t int4, int8_t even[kLanes],
                   int8_t odd[kLanes]) {
  Beat b;
  for (int w = 0; w < kBeatWords; ++w) b.word[w] = beat[w];
  const KeyLanes key = unpack(b, int4 & 1);
  for (int lane = 0; lane < kLanes; ++lane) {
    even[lane] = key.even[lane];
    odd[lane] = key.odd[lane];
  }
}

int32_t nearkv_dot4(const int8_t q_even[kQuadLanes], const int8_t q_odd[kQuadLanes],
                    const int8_t k_even[kQuadLanes], const int8_t k_odd[kQuadLanes]) {
  int32_t product[kQuadLanes];
  products<kQuadLanes>(q_even, q_odd, k_even, k_odd, product);
  return int32_t(quad_of(product));
}

int32_t nearkv_dot16(const int8_t q_even[kQuarterLanes], const int8_t q_odd[kQuarterLanes],
                     const int8_t k_even[kQuarterLanes], const int8_t k_odd[kQuarterLanes]) {
  return int32_t(dot16(q_even, q_odd, k_even, k_odd));
}

int32_t nearkv_quarter(int32_t quad0, int32_t quad1, int32_t quad2, int32_t quad3) {
  const QuadSum quad[kQuarterQuads] = {quad0, quad1, quad2, quad3};
  return int32_t(quarter_of(quad));
}

// out: the row so far, then the two slots.
void nearkv_row(int32_t quarter0, int32_t quarter1, int32_t quarter2, int32_t quarter3,
                int32_t before, uint16_t row_bytes, uint8_t phase, int32_t out[3]) {
  const QuarterSum quarter[kQuarters] = {quarter0, quarter1, quarter2, quarter3};
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

int32_t nearkv_peak(int32_t before, uint8_t first, int32_t x0, uint8_t exists0, int32_t x1,
                    uint8_t exists1) {
  const Exponent start = first & 1 ? Exponent(kLowestExponent) : Exponent(before);
  return int32_t(peak_of(peak_of(start, x0, exists0 & 1), x1, exists1 & 1));
}

uint32_t nearkv_add(uint32_t before, uint32_t addend0, uint32_t addend1) {
  return uint32_t(sum_of(sum_of(BlockSum(before), Addend(addend0)), Addend(addend1)));
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

uint32_t nearkv_shares(const int32_t log_mass[kHeads], const int32_t total[kHeads], uint8_t heads,
                       uint32_t before) {
  return uint32_t(shares_of(log_mass, total, heads, Priority(before)));
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
