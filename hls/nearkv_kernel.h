// The score kernel's top function; arguments, registers and memory as in docs/kernel-interface.md.
#pragma once

#include "memory.h"

extern "C" void nearkv_kernel(uint32_t requests, const nearkv::MemoryWord* commands,
                              const nearkv::MemoryWord* keys, nearkv::MemoryWord* results);
