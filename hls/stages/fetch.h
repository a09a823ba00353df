// Reads a request's descriptors and the score blocks they name, in long bursts.
#pragma once

#include <hls_stream.h>

#include "../records.h"

namespace nearkv {

struct RunExtent {
  uint64_t first;  // beat index from `keys`
  uint64_t beats;
};

inline void read_runs(const Request& request, const MemoryWord* commands,
                      hls::stream<RunExtent>& extents, hls::stream<RunScale>& scales) {
  const uint64_t first = beats_of(request.descriptors);
  const uint32_t per_block = request.shape.payload_beats() + 1;
  Beat low = {};
  for (uint64_t i = 0; i < 2 * uint64_t(request.runs); ++i) {
#pragma HLS PIPELINE II = 1
    const Beat beat = load(commands[first + i]);
    if (i % 2 == 0) {
      low = beat;
    } else {
      const Descriptor d = descriptor_of(low, beat);
      extents.write({beats_of(d.address), uint64_t(d.scale.blocks) * per_block});
      scales.write(d.scale);
    }
  }
}

inline void read_blocks(uint32_t runs, const MemoryWord* keys, hls::stream<RunExtent>& extents,
                        hls::stream<Beat>& beats) {
  for (uint32_t run = 0; run < runs; ++run) {
    const RunExtent extent = extents.read();
    for (uint64_t i = 0; i < extent.beats; ++i) {
#pragma HLS PIPELINE II = 1
      beats.write(load(keys[extent.first + i]));
    }
  }
}

}  // namespace nearkv
