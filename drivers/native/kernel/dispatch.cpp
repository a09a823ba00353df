// Run-time choice of the instruction set.
#include <stdexcept>

#include "isa.hpp"

namespace nearkv {

const std::vector<const Isa*>& available_isas() {
  static const std::vector<const Isa*> found = [] {
    std::vector<const Isa*> list;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool clmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
    const bool fused = __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    if (clmul && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vnni") &&
        __builtin_cpu_supports("vpclmulqdq"))
      list.push_back(&kAvx512);
    if (clmul && fused && __builtin_cpu_supports("avx2")) list.push_back(&kAvx2);
#endif
    list.push_back(&kPortable);
    return list;
  }();
  return found;
}

const Isa& select_isa(const std::string& name) {
  std::string names;
  for (const Isa* isa : available_isas()) {
    if (name.empty() || name == isa->name) return *isa;
    names += (names.empty() ? "" : ", ") + std::string(isa->name);
  }
  throw std::invalid_argument("no instruction set '" + name + "' on this processor: it has " +
                              names);
}

}  // namespace nearkv
