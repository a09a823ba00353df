#include "codec_tiles.inl"

namespace nearkv {

const TokenCodec kCodecAvx2 = kCodec;

}  // namespace nearkv
