#include "codec_tiles.inl"

namespace nearkv {

const TokenCodec kCodecPortable = kCodec;

}  // namespace nearkv
