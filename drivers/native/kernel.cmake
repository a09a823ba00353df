# _kernel: the score kernel and the codec on score blocks in memory.
set(NEARKV_KERNEL_SOURCES
    kernel/attend.cpp
    kernel/attend_portable.cpp
    kernel/bind_attend.cpp
    kernel/bind_codec.cpp
    kernel/bind_lookahead.cpp
    kernel/bind_pool.cpp
    kernel/bind_row_codec.cpp
    kernel/bind_score.cpp
    kernel/bind_selection.cpp
    kernel/bind_summary.cpp
    kernel/codec_portable.cpp
    kernel/crc32c.cpp
    kernel/dispatch.cpp
    kernel/encode_query.cpp
    kernel/encode_segment.cpp
    kernel/lookahead.cpp
    kernel/module.cpp
    kernel/pool.cpp
    kernel/reduce.cpp
    kernel/row_codec.cpp
    kernel/row_codec_portable.cpp
    kernel/score.cpp
    kernel/score_portable.cpp
    kernel/selection.cpp
    kernel/summary.cpp
    kernel/thread_pool.cpp)

# One file per instruction set, compiled for it and chosen at run time; everything else is baseline code.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND NEARKV_KERNEL_SOURCES
       kernel/attend_avx2.cpp
       kernel/attend_avx512.cpp
       kernel/codec_avx2.cpp
       kernel/codec_avx512.cpp
       kernel/row_codec_avx2.cpp
       kernel/row_codec_avx512.cpp
       kernel/score_avx2.cpp
       kernel/score_avx512.cpp)
  set(NEARKV_AVX2_FLAGS -mavx2 -mpclmul -msse4.2)
  # GCC 12 takes the undefined inputs of its own AVX-512 intrinsics for uninitialised ones (GCC bug 105593).
  set(NEARKV_AVX512_FLAGS -mavx2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mavx512vnni -mvpclmulqdq
      -mpclmul -msse4.2 -mprefer-vector-width=512 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  set_source_files_properties(kernel/codec_avx2.cpp kernel/score_avx2.cpp
                              PROPERTIES COMPILE_OPTIONS "${NEARKV_AVX2_FLAGS}")
  set_source_files_properties(kernel/codec_avx512.cpp kernel/row_codec_avx512.cpp kernel/score_avx512.cpp
                              PROPERTIES COMPILE_OPTIONS "${NEARKV_AVX512_FLAGS}")
  set_source_files_properties(kernel/row_codec_avx2.cpp PROPERTIES COMPILE_OPTIONS "${NEARKV_AVX2_FLAGS};-mf16c")
  # Attention has no bit-exact contract: its products may fuse.
  set_source_files_properties(kernel/attend_avx2.cpp PROPERTIES COMPILE_OPTIONS
                              "${NEARKV_AVX2_FLAGS};-mfma;-mf16c;-ffp-contract=fast")
  set_source_files_properties(kernel/attend_avx512.cpp PROPERTIES COMPILE_OPTIONS
                              "${NEARKV_AVX512_FLAGS};-mfma;-ffp-contract=fast")
endif()

# Nor has a first stage's estimate.
set_source_files_properties(kernel/summary.cpp PROPERTIES COMPILE_OPTIONS -ffp-contract=fast)

nanobind_add_module(_kernel NB_STATIC NOMINSIZE ${NEARKV_KERNEL_SOURCES})
# No errno and no floating-point traps, so that rint and division vectorise; rounding stays as written.
# Vector types pass between functions of one file only, so their calling convention does not matter.
target_compile_options(_kernel PRIVATE -O3 -fno-math-errno -fno-trapping-math -Wno-psabi)
target_link_libraries(_kernel PRIVATE Threads::Threads)
install(TARGETS _kernel LIBRARY DESTINATION .)
