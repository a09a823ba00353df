// Bitmap of blocks that are not sound: a beat for every 512 blocks and for what is left at the end of a request.
`default_nettype none

module nkv_bad_map
  import nearkv_pkg::*;
(
    input  wire logic                   clk,
    input  wire logic                   rst_n,
    input  wire logic                   start,
    input  wire logic                   in_valid,  // one per block
    output logic                        in_ready,
    input  wire logic                   in_bad,
    input  wire logic                   in_last,
    output logic                        out_valid,
    input  wire logic                   out_ready,
    output logic [BEAT_BITS-1:0]        out_data,
    output logic [POSITION_BITS-1:0]    bad_blocks
);
  logic [BEAT_BITS-1:0] map;
  logic [8:0] index;
  wire logic take = in_valid && in_ready;
  assign in_ready = !out_valid;
  assign out_data = map;

  always_ff @(posedge clk) begin
    if (start || (out_valid && out_ready)) map <= '0;
    else if (take) map[index] <= in_bad;
    if (!rst_n || start) begin
      index <= '0;
      out_valid <= 1'b0;
      bad_blocks <= '0;
    end else begin
      if (take) begin
        index <= index + 1'b1;
        bad_blocks <= bad_blocks + POSITION_BITS'(in_bad);
      end
      out_valid <= (take && (in_last || index == 9'd511)) || (out_valid && !out_ready);
    end
  end
endmodule

`default_nettype wire
