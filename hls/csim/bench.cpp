// Throughput of C simulation: INT8 keys at G = 4 and D = 128, single thread, as MB/s and against
// memcpy of the same bytes in the same run. A measure of the simulation, not of any hardware.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>

#include "../datapath/crc32c.h"
#include "command_image.h"

namespace {

const uint32_t kBenchBlocks = 4096, kGroup = 4, kWidth = 128;

double seconds(const std::chrono::steady_clock::time_point& since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

// Random sound blocks: header, payload and a right CRC.
void fill(ScoreVector& v, std::mt19937& random) {
  for (auto& value : v.data) value = uint8_t(random());
  for (uint32_t i = 0; i < v.blocks; ++i) {
    uint8_t* block = &v.data[size_t(i) * v.block_bytes];
    block[32] = uint8_t(v.bits);
    block[33] = uint8_t(v.width / 32);
    nearkv::Beat beat;
    uint32_t state = 0;
    for (uint32_t at = 0; at < v.block_bytes; at += nearkv::kBeatBytes) {
      std::memcpy(beat.word, block + at, sizeof beat.word);
      state = at == 0 ? nearkv::crc32c_header(beat) : nearkv::crc32c_beat(state, beat);
    }
    state = ~state;
    std::memcpy(block + 60, &state, 4);
  }
}

ScoreVector request() {
  std::mt19937 random(1);
  ScoreVector v = {};
  v.bits = 8, v.group = kGroup, v.width = kWidth, v.runs = 1, v.blocks = kBenchBlocks;
  v.block_bytes = 64 + 32 * kWidth;
  v.k = 32;
  v.run_blocks = {kBenchBlocks};
  v.q.resize(size_t(kGroup) * kWidth);
  for (auto& value : v.q) value = int8_t(random());
  v.c.assign(kGroup, 40000);
  v.r.assign(kGroup, 30);
  v.b.assign(kGroup, 0);
  v.initial.assign(kGroup, nearkv::kEmpty);
  v.data.resize(size_t(kBenchBlocks) * v.block_bytes);
  fill(v, random);
  return v;
}

}  // namespace

int main() {
  const ScoreVector v = request();
  CommandImage image(v, nearkv::kTopK);
  std::vector<uint8_t> copy(v.data.size(), 1);
  double scoring = 1e9, copying = 1e9;
  for (int i = 0; i < 5; ++i) {
    auto since = std::chrono::steady_clock::now();
    image.run();
    scoring = std::min(scoring, seconds(since));
    since = std::chrono::steady_clock::now();
    std::memcpy(copy.data(), v.data.data(), copy.size());
    copying = std::min(copying, seconds(since));
  }
  if (image.result<uint32_t>(0) != nearkv::kOk || image.result<uint32_t>(68) != 0) {
    std::fprintf(stderr, "the benchmark's request failed or its blocks are bad\n");
    return 1;
  }
  std::printf("C simulation: %.1f MB/s of INT8 keys (G = %u, D = %u, %zu bytes, best of 5)\n",
              double(v.data.size()) / scoring / 1e6, kGroup, kWidth, v.data.size());
  std::printf("memcpy of the same bytes: %.0f MB/s, %.0f times as fast (check byte %u)\n",
              double(copy.size()) / copying / 1e6, scoring / copying, copy[copy.size() / 2]);
  return 0;
}
