#include "codec_tiles.inl"

namespace nearkv {

const TokenCodec kCodecAvx512 = kCodec;

}  // namespace nearkv
