// The token codecs that the instruction sets use.
#pragma once

#include "isa.hpp"

namespace nearkv {

extern const TokenCodec kCodecPortable;
#if defined(__x86_64__)
extern const TokenCodec kCodecAvx2;
extern const TokenCodec kCodecAvx512;
#endif

}  // namespace nearkv
