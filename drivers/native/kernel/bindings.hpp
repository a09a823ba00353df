// What the binding files share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>
#include <utility>
#include <vector>

#include "error.hpp"
#include "isa.hpp"

namespace nearkv {

namespace nb = nanobind;

template <typename T, typename... Traits>
using HostArray = nb::ndarray<T, nb::device::cpu, Traits...>;

template <typename T>
using Vector = HostArray<T, nb::ndim<1>, nb::c_contig>;
template <typename T>
using Table = HostArray<T, nb::ndim<2>, nb::c_contig>;
template <typename T>
using Stack = HostArray<T, nb::ndim<3>, nb::c_contig>;

// A NumPy array that owns `values`.
template <typename T>
nb::object to_numpy(std::vector<T>&& values, std::initializer_list<size_t> shape) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* data) noexcept { delete static_cast<std::vector<T>*>(data); });
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape, owner));
}

// The type called `dtype`. Throws ContractError.
inline KvType kv_type(const std::string& dtype) {
  if (dtype == "float32") return KvType::kFloat32;
  if (dtype == "float16") return KvType::kFloat16;
  if (dtype == "bfloat16") return KvType::kBfloat16;
  throw ContractError("KV must be float32, float16 or bfloat16, not " + dtype);
}

void bind_attend(nb::module_& module);
void bind_row_codec(nb::module_& module);
void bind_score(nb::module_& module);
void bind_codec(nb::module_& module);
void bind_lookahead(nb::module_& module);
void bind_pool(nb::module_& module);
void bind_selection(nb::module_& module);
void bind_summary(nb::module_& module);

}  // namespace nearkv
