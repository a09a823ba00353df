// nearkv_drivers._io: batched positional file I/O. The Python face and its contract are in _io.pyi.

#include <fcntl.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "pool_engine.h"

namespace nb = nanobind;

namespace nearkv::io {
namespace {

template <typename T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::shared_ptr<Batch> submit(Engine& engine, int fd, bool write, Vector<std::int64_t> offsets,
                              Vector<std::uint64_t> addresses, Vector<std::int64_t> lengths) {
  const std::size_t count = offsets.shape(0);
  if (addresses.shape(0) != count || (lengths.shape(0) != count && lengths.shape(0) != 1)) {
    throw std::invalid_argument("offsets, addresses and lengths differ in number");
  }
  const std::size_t step = lengths.shape(0) == 1 ? 0 : 1;
  std::vector<Transfer> transfers(count);
  for (std::size_t i = 0; i < count; ++i) {
    transfers[i] = {offsets.data()[i], addresses.data()[i], lengths.data()[i * step]};
  }
  auto batch = std::make_shared<Batch>(fd, write ? Direction::kWrite : Direction::kRead, transfers);
  engine.submit(batch);
  return batch;
}

std::optional<std::tuple<int, std::int64_t>> wait(Batch& batch) {
  {
    const nb::gil_scoped_release release;
    batch.wait();
  }
  const auto failure = batch.failure();
  if (!failure) return std::nullopt;
  return std::make_tuple(failure->error, failure->offset);
}

int allocate(int fd, std::int64_t offset, std::int64_t length) {
  const nb::gil_scoped_release release;
  while (::fallocate(fd, 0, offset, length) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace
}  // namespace nearkv::io

NB_MODULE(_io, module) {
  using namespace nearkv::io;
  nb::class_<Batch>(module, "Batch").def("wait", &wait).def("done", &Batch::done);
  nb::class_<PoolEngine>(module, "PoolEngine")
      .def(nb::init<int>(), nb::arg("threads"))
      .def(
          "submit",
          [](PoolEngine& engine, int fd, bool write, Vector<std::int64_t> offsets,
             Vector<std::uint64_t> addresses, Vector<std::int64_t> lengths) {
            return submit(engine, fd, write, offsets, addresses, lengths);
          },
          nb::arg("fd"), nb::arg("write"), nb::arg("offsets"), nb::arg("addresses"),
          nb::arg("lengths"));
  module.def("allocate", &allocate, nb::arg("fd"), nb::arg("offset"), nb::arg("length"));
}
