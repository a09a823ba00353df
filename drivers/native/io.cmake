# nearkv_drivers._io: batched positional file I/O.
nanobind_add_module(_io NB_STATIC io/module.cpp io/batch.cpp io/pool_engine.cpp)
target_link_libraries(_io PRIVATE Threads::Threads)
install(TARGETS _io LIBRARY DESTINATION .)
