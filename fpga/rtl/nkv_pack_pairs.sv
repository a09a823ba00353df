// Packs (position, priority) pairs eight to a beat, a tuple of candidates a cycle; the last beat of `count` pairs is
// filled with zeros.
`default_nettype none

module nkv_pack_pairs
  import nearkv_pkg::*;
(
    input  wire logic                    clk,
    input  wire logic                    rst_n,
    input  wire logic                    start,
    input  wire logic [K_BITS-1:0]       count,
    input  wire logic                    in_valid,
    output logic                         in_ready,
    input  wire tuple_t                  in,
    output logic                         out_valid,
    input  wire logic                    out_ready,
    output logic [BEAT_BITS-1:0]         out_data
);
  localparam int unsigned PART_BITS = WAYS * 64;
  if (2 * PART_BITS != BEAT_BITS) begin : g_check
    $error("nkv_pack_pairs: two tuples must fill a beat");
  end
  logic [K_BITS-1:0] left;
  logic [PART_BITS-1:0] lower;
  logic lower_valid;
  wire logic take = in_valid && in_ready;
  wire logic last = left <= K_BITS'(WAYS);
  // Depends on registers only, so that what waits for the memory does not reach the sorter in the same cycle.
  assign in_ready = !out_valid || (!lower_valid && !last);
  wire logic complete = take && (lower_valid || last);

  logic [PART_BITS-1:0] part;
  always_comb begin
    for (int i = 0; i < WAYS; i++)
      part[i*64+:64] = (left > K_BITS'(i)) ? {32'(in[i].share), 32'(in[i].position)} : '0;
  end

  always_ff @(posedge clk) begin
    if (take) lower <= part;
    if (complete) out_data <= lower_valid ? {part, lower} : BEAT_BITS'(part);
    if (start) left <= count;
    else if (take) left <= left - K_BITS'(WAYS);
    if (!rst_n || start) begin
      lower_valid <= 1'b0;
      out_valid <= 1'b0;
    end else begin
      if (take) lower_valid <= !complete;
      out_valid <= complete || (out_valid && !out_ready);
    end
  end
  logic [WAYS-1:0] unused_exists;
  always_comb for (int i = 0; i < WAYS; i++) unused_exists[i] = in[i].exists;
  wire logic unused = &{1'b0, unused_exists};
endmodule

`default_nettype wire
