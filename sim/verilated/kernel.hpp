// The Verilated kernel with its memory: register access, start, and cycles until the interrupt.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "Vnearkv_kernel.h"
#include "axi_memory.hpp"
#include "verilated.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

namespace nearkv::sim {

struct Arguments {
  uint32_t requests = 0;
  uint64_t commands = 0;
  uint64_t keys = 0;
  uint64_t results = 0;
};

class Kernel {
 public:
  Kernel(const Memory& memory, const Timing& timing)
      : top_(std::make_unique<Vnearkv_kernel>(&context_)),
        bandwidth_(timing.bytes_per_cycle),
        keys_(memory, bandwidth_, timing, 0),
        commands_(memory, bandwidth_, timing, 2),
        results_(memory, bandwidth_, timing, 4) {
    top_->ap_rst_n = 0;
    for (int i = 0; i < 4; ++i) tick();
    top_->ap_rst_n = 1;
  }

  // Runs one start; returns the cycles from the write of ap_start to the interrupt. Throws once no
  // transfer happened for `patience` cycles.
  uint64_t run(const Arguments& arguments, uint64_t patience) {
    write(0x10, arguments.requests);
    write_pointer(0x18, arguments.commands);
    write_pointer(0x24, arguments.keys);
    write_pointer(0x30, arguments.results);
    write(0x04, 1);
    write(0x08, 1);
    write(0x00, 1);
    const uint64_t begin = last_transfer_ = cycle_;
    while (!interrupt()) {
      if (cycle_ - last_transfer_ > patience)
        throw std::runtime_error("the kernel stopped without an interrupt");
      tick();
    }
    const uint64_t cycles = cycle_ - begin;
    write(0x0c, 1);
    write(0x00, 0x10);
    return cycles;
  }

  // Lets `cycles` pass, fewer if the interrupt rises before.
  void advance(uint64_t cycles) {
    for (const uint64_t end = cycle_ + cycles; cycle_ < end && !interrupt();) tick();
  }

  // Verilator renames the port: "interrupt" is on its list of C++ words.
  bool interrupt() const { return top_->__SYM__interrupt; }

  uint32_t read(uint32_t address) {
    top_->s_axi_control_araddr = address;
    top_->s_axi_control_arvalid = 1;
    top_->s_axi_control_rready = 1;
    tick();
    top_->s_axi_control_arvalid = 0;
    const uint32_t value = top_->s_axi_control_rdata;
    tick();
    return value;
  }

  void write(uint32_t address, uint32_t value) {
    top_->s_axi_control_awaddr = address;
    top_->s_axi_control_wdata = value;
    top_->s_axi_control_wstrb = 0xf;
    top_->s_axi_control_awvalid = top_->s_axi_control_wvalid = 1;
    top_->s_axi_control_bready = 1;
    tick();
    top_->s_axi_control_awvalid = top_->s_axi_control_wvalid = 0;
    tick();
  }

  // Writes what was covered since reset; throws in a build without coverage.
  void write_coverage(const char* path) {
#if VM_COVERAGE
    context_.coveragep()->write(path);
#else
    throw std::runtime_error(std::string("no coverage for ") + path + ": this build has none");
#endif
  }

  // Cycles since reset in which a burst of keys waited for the memory.
  uint64_t key_waits() const { return keys_.waits(); }

 private:
  void write_pointer(uint32_t address, uint64_t value) {
    write(address, static_cast<uint32_t>(value));
    write(address + 4, static_cast<uint32_t>(value >> 32));
  }

  // The masters' outputs depend on registers only, so what they show before the edge is what the
  // edge sees.
  void tick() {
    Vnearkv_kernel& t = *top_;
    bandwidth_.next_cycle();
    keys_.drive(cycle_, t.m_axi_keys_arready, t.m_axi_keys_rvalid, t.m_axi_keys_rlast,
                t.m_axi_keys_rdata, t.m_axi_keys_rresp);
    commands_.drive(cycle_, t.m_axi_gmem_arready, t.m_axi_gmem_rvalid, t.m_axi_gmem_rlast,
                    t.m_axi_gmem_rdata, t.m_axi_gmem_rresp);
    results_.drive(cycle_, t.m_axi_gmem_awready, t.m_axi_gmem_wready, t.m_axi_gmem_bvalid,
                   t.m_axi_gmem_bresp);
    const bool active = t.ap_rst_n;
    const bool key_beat = t.m_axi_keys_rvalid && t.m_axi_keys_rready;
    const bool command_beat = t.m_axi_gmem_rvalid && t.m_axi_gmem_rready;
    const bool result_beat = active && t.m_axi_gmem_wvalid && t.m_axi_gmem_wready;
    if (key_beat || command_beat || result_beat) last_transfer_ = cycle_;
    keys_.clock(cycle_, active && t.m_axi_keys_arvalid && t.m_axi_keys_arready, t.m_axi_keys_araddr,
                t.m_axi_keys_arlen, key_beat);
    commands_.clock(cycle_, active && t.m_axi_gmem_arvalid && t.m_axi_gmem_arready,
                    t.m_axi_gmem_araddr, t.m_axi_gmem_arlen, command_beat);
    results_.clock(cycle_, active && t.m_axi_gmem_awvalid && t.m_axi_gmem_awready,
                   t.m_axi_gmem_awaddr, t.m_axi_gmem_awlen, result_beat, t.m_axi_gmem_wdata,
                   t.m_axi_gmem_wlast, t.m_axi_gmem_bvalid && t.m_axi_gmem_bready);
    t.ap_clk = 0;
    t.eval();
    t.ap_clk = 1;
    t.eval();
    ++cycle_;
  }

  VerilatedContext context_;
  std::unique_ptr<Vnearkv_kernel> top_;
  Bandwidth bandwidth_;
  ReadPort keys_, commands_;
  WritePort results_;
  uint64_t cycle_ = 0;
  uint64_t last_transfer_ = 0;
};

}  // namespace nearkv::sim
