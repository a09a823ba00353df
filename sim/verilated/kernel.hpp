// The Verilated kernel with its memory: register access, start, and cycles until the interrupt.
#pragma once

#include <cstdint>
#include <memory>

#include "Vnearkv_kernel.h"
#include "axi_memory.hpp"
#include "verilated.h"

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
      : top_(std::make_unique<Vnearkv_kernel>(&context_)), keys_(memory, timing, 0), commands_(memory, timing, 2),
        results_(memory, timing, 4) {
    top_->ap_rst_n = 0;
    for (int i = 0; i < 4; ++i) tick();
    top_->ap_rst_n = 1;
  }

  // Runs one start; returns the cycles from the write of ap_start to the interrupt. Throws past `limit` cycles.
  uint64_t run(const Arguments& arguments, uint64_t limit) {
    write(0x10, arguments.requests);
    write_pointer(0x18, arguments.commands);
    write_pointer(0x24, arguments.keys);
    write_pointer(0x30, arguments.results);
    write(0x04, 1);
    write(0x08, 1);
    write(0x00, 1);
    const uint64_t begin = cycle_;
    // Verilator renames the port: "interrupt" is on its list of C++ words.
    while (!top_->__SYM__interrupt) {
      if (cycle_ - begin > limit) throw std::runtime_error("the kernel did not finish");
      tick();
    }
    const uint64_t cycles = cycle_ - begin;
    write(0x0c, 1);
    write(0x00, 0x10);
    return cycles;
  }

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

  uint64_t cycle() const { return cycle_; }

 private:
  void write_pointer(uint32_t address, uint64_t value) {
    write(address, static_cast<uint32_t>(value));
    write(address + 4, static_cast<uint32_t>(value >> 32));
  }

  // The masters' outputs depend on registers only, so what they show before the edge is what the edge sees.
  void tick() {
    Vnearkv_kernel& t = *top_;
    keys_.drive(cycle_, t.m_axi_keys_arready, t.m_axi_keys_rvalid, t.m_axi_keys_rlast, t.m_axi_keys_rdata);
    commands_.drive(cycle_, t.m_axi_gmem_arready, t.m_axi_gmem_rvalid, t.m_axi_gmem_rlast, t.m_axi_gmem_rdata);
    results_.drive(cycle_, t.m_axi_gmem_awready, t.m_axi_gmem_wready, t.m_axi_gmem_bvalid);
    const bool active = t.ap_rst_n;
    keys_.clock(cycle_, active && t.m_axi_keys_arvalid && t.m_axi_keys_arready, t.m_axi_keys_araddr,
                t.m_axi_keys_arlen, t.m_axi_keys_rvalid && t.m_axi_keys_rready);
    commands_.clock(cycle_, active && t.m_axi_gmem_arvalid && t.m_axi_gmem_arready, t.m_axi_gmem_araddr,
                    t.m_axi_gmem_arlen, t.m_axi_gmem_rvalid && t.m_axi_gmem_rready);
    results_.clock(cycle_, active && t.m_axi_gmem_awvalid && t.m_axi_gmem_awready, t.m_axi_gmem_awaddr,
                   active && t.m_axi_gmem_wvalid && t.m_axi_gmem_wready, t.m_axi_gmem_wdata, t.m_axi_gmem_wlast,
                   t.m_axi_gmem_bvalid && t.m_axi_gmem_bready);
    t.ap_clk = 0;
    t.eval();
    t.ap_clk = 1;
    t.eval();
    ++cycle_;
  }

  VerilatedContext context_;
  std::unique_ptr<Vnearkv_kernel> top_;
  ReadPort keys_, commands_;
  WritePort results_;
  uint64_t cycle_ = 0;
};

}  // namespace nearkv::sim
