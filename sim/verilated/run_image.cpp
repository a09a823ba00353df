// Runs one kernel start over a memory image in a file, which holds the results afterwards.
// Arguments: file, base, requests, commands, keys, results, latency, stall share, seed, patience
// (cycles without a transfer), spread of the latency, and, in a build with coverage, the file for
// it. Prints one JSON object: cycles from start to interrupt, key beats, cycles from first to last
// beat, status.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "kernel.hpp"

namespace {

uint64_t number(const char* text) { return std::strtoull(text, nullptr, 0); }

int run(int argc, char** argv) {
  const int file = open(argv[1], O_RDWR);
  struct stat info{};
  if (file < 0 || fstat(file, &info) != 0) throw std::runtime_error("cannot open the memory image");
  const auto size = static_cast<size_t>(info.st_size);
  void* bytes = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (bytes == MAP_FAILED) throw std::runtime_error("cannot map the memory image");

  const nearkv::sim::Memory memory({{static_cast<uint8_t*>(bytes), number(argv[2]), size}});
  const nearkv::sim::Timing timing{static_cast<unsigned>(number(argv[7])), std::atof(argv[8]),
                                   number(argv[9]), 0, static_cast<unsigned>(number(argv[11]))};
  nearkv::sim::Kernel kernel(memory, timing);
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t cycles = kernel.run(
      {static_cast<uint32_t>(number(argv[3])), number(argv[4]), number(argv[5]), number(argv[6])},
      number(argv[10]));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf(
      "{\"cycles\": %llu, \"status\": %u, \"completed\": %u, \"beats\": %u, \"stream_cycles\": %u, "
      "\"seconds\": %.3f}\n",
      static_cast<unsigned long long>(cycles), kernel.read(0x40), kernel.read(0x48),
      kernel.read(0x50), kernel.read(0x54), seconds.count());
  if (argc > 12) kernel.write_coverage(argv[12]);
  munmap(bytes, size);
  close(file);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 12 && argc != 13) {
    std::fprintf(stderr,
                 "usage: %s FILE BASE REQUESTS COMMANDS KEYS RESULTS LATENCY STALLS SEED PATIENCE "
                 "SPREAD [COVERAGE]\n",
                 argv[0]);
    return 2;
  }
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
