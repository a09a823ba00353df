// C test bench: runs golden vector files through the kernel in both modes and compares every
// answer. The same file is the test bench of Vitis's csim and cosim.
//
//   testbench FILE.bin...      exit code 0 when all agree
#include <algorithm>
#include <cstdio>

#include "command_image.h"

namespace {

const size_t kResult = 64;  // the only request's result follows the completion record

class Comparison {
 public:
  explicit Comparison(const std::string& where) : where_(where) {}

  void equal(const char* what, size_t index, int64_t got, int64_t expected) {
    if (got == expected) return;
    if (differences_++ == 0)
      std::printf("%s: %s[%zu] is %lld, not %lld\n", where_.c_str(), what, index, (long long)got,
                  (long long)expected);
  }
  size_t differences() const { return differences_; }

 private:
  std::string where_;
  size_t differences_ = 0;
};

void compare_mass(const ScoreVector& v, const CommandImage& image, size_t at, Comparison& compare) {
  for (uint32_t h = 0; h < v.group; ++h) {
    for (uint32_t block = 0; block < v.blocks; ++block) {
      const size_t beat = size_t(block / 16) * v.group + h;
      const int32_t got = image.result<int32_t>(at + 64 * beat + 4 * (block % 16));
      compare.equal("log-mass", size_t(h) * v.blocks + block, got,
                    v.mass[size_t(h) * v.blocks + block]);
    }
  }
}

void compare_pairs(const ScoreVector& v, const CommandImage& image, size_t at,
                   Comparison& compare) {
  for (uint32_t i = 0; i < v.count; ++i) {
    compare.equal("position", i, image.result<uint32_t>(at + 8 * i), v.positions[i]);
    compare.equal("priority", i, image.result<uint32_t>(at + 8 * i + 4), v.priorities[i]);
  }
}

size_t differences(const std::string& path, const ScoreVector& v, nearkv::Mode mode) {
  Comparison compare(path + (mode == nearkv::kTopK ? " (TOPK)" : " (MASS)"));
  CommandImage image(v, mode);
  image.run();
  compare.equal("completion record", 0, image.result<uint32_t>(0), nearkv::kOk);
  compare.equal("completion record", 2, image.result<uint32_t>(8), 1);
  compare.equal("summary", 0, image.result<uint32_t>(kResult),
                mode == nearkv::kTopK ? v.count : v.blocks);
  compare.equal("summary", 1, image.result<uint32_t>(kResult + 4), v.bad);
  for (uint32_t h = 0; h < v.group; ++h)
    compare.equal("total", h, image.result<int32_t>(kResult + 64 + 4 * h), v.total[h]);
  for (uint32_t block = 0; block < v.blocks; ++block) {
    const bool bad = std::count(v.bad_positions.begin(), v.bad_positions.end(), block) != 0;
    compare.equal("bad block", block,
                  image.result<uint8_t>(kResult + 128 + block / 8) >> (block % 8) & 1, bad);
  }
  const size_t payload = kResult + 128 + 64 * ((v.blocks + 511) / 512);
  if (mode == nearkv::kTopK) {
    compare_pairs(v, image, payload, compare);
  } else {
    compare_mass(v, image, payload, compare);
  }
  return compare.differences();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: testbench FILE.bin... (golden vectors, tests/vectors/score)\n");
    return 2;
  }
  int wrong = 0;
  for (int i = 1; i < argc; ++i) {
    const ScoreVector v = read_vector(argv[i]);
    wrong += differences(argv[i], v, nearkv::kMass) + differences(argv[i], v, nearkv::kTopK) != 0;
  }
  std::printf("%d vectors in both modes, %d differ\n", argc - 1, wrong);
  return wrong != 0;
}
