// The extension module nearkv_drivers._kernel.
#include "bindings.hpp"
#include "error.hpp"

NB_MODULE(_kernel, module) {
  module.doc() =
      "The score contract's kernel and codec on score blocks in memory; see nearkv_drivers.native.";
  nanobind::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const nearkv::ContractError& error) {
      const nanobind::object type =
          nanobind::module_::import_("nearkv_drivers.wire").attr("ContractError");
      PyErr_SetString(type.ptr(), error.what());
    }
  });
  nearkv::bind_score(module);
  nearkv::bind_codec(module);
  nearkv::bind_lookahead(module);
  nearkv::bind_pool(module);
  nearkv::bind_selection(module);
  nearkv::bind_summary(module);
  nearkv::bind_attend(module);
  nearkv::bind_row_codec(module);
}
