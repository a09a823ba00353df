// The Verilated kernel as a device's score kernel, behind a C interface: opened once over device
// DRAM, one call per kernel start. Commands and results lie in the caller's memory, at addresses of
// their own, as in a card's host-visible bank; all three share the memory's bandwidth.
#include <cstdio>
#include <exception>
#include <memory>

#include "kernel.hpp"

namespace {

using nearkv::sim::Kernel;
using nearkv::sim::Memory;
using nearkv::sim::Timing;

constexpr uint64_t kCommandBase = uint64_t{1} << 60;
constexpr uint64_t kResultBase = uint64_t{1} << 61;
// Selecting the best of the longest request takes under 2^18 cycles, and the kernel's own watchdog
// 2^20.
constexpr uint64_t kPatience = uint64_t{1} << 22;

}  // namespace

extern "C" {

// What one start cost. The counters are those of the kernel's status registers.
struct NearkvRtlFigures {
  uint64_t cycles;     // start to interrupt
  uint64_t key_waits;  // cycles in which a burst of keys waited for the memory
  uint32_t status;
  uint32_t failed;
  uint32_t completed;
  uint32_t beats;
  uint32_t stream_cycles;
};

struct NearkvRtl {
  NearkvRtl(uint8_t* dram, uint64_t size, const Timing& timing)
      : memory({{dram, 0, size}, {nullptr, kCommandBase, 0}, {nullptr, kResultBase, 0}}),
        timing(timing) {
    reset();
  }

  void reset() { kernel = std::make_unique<Kernel>(memory, timing); }

  Memory memory;
  Timing timing;
  std::unique_ptr<Kernel> kernel;
};

// Latency in cycles; bytes_per_cycle 0 for a memory that answers every cycle on every port. Null
// when out of memory.
NearkvRtl* nearkv_rtl_open(uint8_t* dram, uint64_t size, uint32_t latency, double bytes_per_cycle) {
  try {
    Timing timing;
    timing.latency = latency;
    timing.bytes_per_cycle = bytes_per_cycle;
    return new NearkvRtl(dram, size, timing);
  } catch (const std::exception&) {
    return nullptr;
  }
}

// Runs one start to its interrupt. Returns 0, or 1 with a sentence in `message` when the simulation
// itself failed; the kernel is then reset.
int nearkv_rtl_start(NearkvRtl* device, uint32_t requests, uint8_t* commands,
                     uint64_t command_bytes, uint8_t* results, uint64_t result_bytes,
                     NearkvRtlFigures* figures, char* message, uint64_t message_bytes) {
  try {
    device->memory.replace(1, commands, command_bytes);
    device->memory.replace(2, results, result_bytes);
    Kernel& kernel = *device->kernel;
    const uint64_t waits = kernel.key_waits();
    figures->cycles = kernel.run({requests, kCommandBase, 0, kResultBase}, kPatience);
    figures->key_waits = kernel.key_waits() - waits;
    figures->status = kernel.read(0x40);
    figures->failed = kernel.read(0x44);
    figures->completed = kernel.read(0x48);
    figures->beats = kernel.read(0x50);
    figures->stream_cycles = kernel.read(0x54);
    return 0;
  } catch (const std::exception& error) {
    std::snprintf(message, message_bytes, "%s", error.what());
    device->reset();
    return 1;
  }
}

// Registers and time, for stand-ins of a card or a board: whoever drives them writes the registers
// itself, and commands, keys and results all lie in the DRAM.
void nearkv_rtl_write(NearkvRtl* device, uint32_t address, uint32_t value) {
  device->kernel->write(address, value);
}

uint32_t nearkv_rtl_read(NearkvRtl* device, uint32_t address) {
  return device->kernel->read(address);
}

// Returns whether the interrupt is high after `cycles`, or before.
int nearkv_rtl_advance(NearkvRtl* device, uint64_t cycles) {
  device->kernel->advance(cycles);
  return device->kernel->interrupt();
}

void nearkv_rtl_close(NearkvRtl* device) { delete device; }

}  // extern "C"
